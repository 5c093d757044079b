package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// reap waits for ctx and collects every child that ends meanwhile. As process 1 of a pod with a shared PID namespace the sandbox
// inherits the orphans of all its containers.
func reap(ctx context.Context) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		// First collect, then wait: a child may have ended before the handler was there. One signal may stand for many children.
		if err := collect(); err != nil {
			return err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil
		}
	}
}

func collect() error {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD):
			return nil
		case err != nil:
			return fmt.Errorf("wait for children: %w", err)
		case pid == 0:
			return nil
		}
	}
}
