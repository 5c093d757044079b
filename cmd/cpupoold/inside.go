package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/control"
)

// daemon returns a client of the running daemon. If the configuration has problems, it
// uses the default socket.
func (a *app) daemon() *control.Client {
	c, err := config.Load(a.configPath(), a.overrides, nil)
	if err != nil {
		usual := config.Default()
		_, _ = fmt.Fprintf(a.err, "cpupoold: the configuration has problems (see check); asking the daemon in %s\n", usual.RunDir)
		c = &usual
	}
	return control.NewClient(control.Socket(c.RunDir))
}

// watchPatience is the maximum time of a request for the next change. redrawPause is the
// minimum time between two outputs. retryPause is the time before a request to a daemon
// that has ended.
const (
	watchPatience = 20 * time.Second
	redrawPause   = 500 * time.Millisecond
	retryPause    = time.Second
)

// pause waits; it is false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// unlessEnded makes nothing of an error that comes of ^C.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
