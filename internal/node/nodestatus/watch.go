package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"
)

func path(name, subresource string) string {
	return "/api/v1/nodes/" + url.PathEscape(name) + subresource
}

// watchedNode is a state of the Node; nil if it does not exist. A watch begins with isFirst.
type watchedNode struct {
	node    *object
	isFirst bool
}

// errExpired makes the next watch start from the current state. errEnded means that the API server
// ended a watch early.
var (
	errExpired = errors.New("watch has expired")
	errEnded   = errors.New("watch was ended by the API server")
)

// watch calls began when the API server accepts the watch, and report for each state. Without a
// resource version a watch starts with the current state, and misses no change.
func (c *client) watch(ctx context.Context, name string, began func(), report func(context.Context, watchedNode)) error {
	first := true
	return c.events(ctx, "/api/v1/nodes", url.Values{"fieldSelector": {"metadata.name=" + name}}, began, func(ctx context.Context, kind string, raw json.RawMessage) error {
		switch kind {
		case "ADDED", "MODIFIED":
			o := new(object)
			if err := json.Unmarshal(raw, o); err != nil {
				return err
			}
			if o.Metadata.Name == name {
				report(ctx, watchedNode{o, first})
				first = false
			}
		case "DELETED":
			report(ctx, watchedNode{})
		}
		return nil
	})
}

// events calls each for every event of a path that does not end the watch.
func (c *client) events(ctx context.Context, path string, query url.Values, began func(), each func(ctx context.Context, kind string, raw json.RawMessage) error) error {
	// A random duration spreads the ends of watches that started together.
	duration := max((c.limits.Watch + rand.N(c.limits.Watch)).Truncate(time.Second), time.Second)
	ctx, cancel := context.WithTimeout(ctx, duration+c.limits.Call)
	defer cancel()
	started := time.Now()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("timeoutSeconds", strconv.Itoa(int(duration/time.Second)))
	body, err := c.open(ctx, "GET", path, query, "", nil)
	switch {
	case isStatus(err, 410):
		return errExpired
	case err != nil:
		return err
	}
	defer func() { _ = body.Close() }()
	began()
	events := json.NewDecoder(body)
	for {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		switch err := events.Decode(&e); {
		case errors.Is(err, io.EOF) && time.Since(started) >= duration-time.Second/2:
			return nil
		case errors.Is(err, io.EOF):
			return errEnded
		case err != nil:
			c.broken = true
			return fmt.Errorf("watch: %w", err)
		}
		if e.Type == "ERROR" {
			failure := new(statusError)
			if json.Unmarshal(e.Object, failure) == nil && failure.Code == 410 {
				return errExpired
			}
			return fmt.Errorf("watch: %w", failure)
		}
		if err := each(ctx, e.Type, e.Object); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
}

// keepWatching calls watch until ctx ends. After a failure it calls failed and pauses.
func (o Options) keepWatching(ctx context.Context, watch func(*client) error, failed func(error)) {
	c, pause := o.client(), newBackoff(o.Limits.Pause)
	for {
		started := time.Now()
		err := watch(&c)
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > maxPause {
			pause.Reset()
		}
		if err == nil { // the watch ended at its time
			continue
		}
		failed(err)
		if !sleep(ctx, pause.NextBackOff()+retryAfter(err)) {
			return
		}
	}
}

func (r *Runner) watchNode(ctx context.Context) {
	failing := false
	began := func() {
		if r.isWatching.Store(true); failing {
			r.Log.Info("watching node again", "node", r.Name)
			failing = false
		}
	}
	report := func(ctx context.Context, s watchedNode) {
		select {
		case r.watched <- s:
		case <-ctx.Done():
		}
	}
	r.keepWatching(ctx, func(c *client) error { return c.watch(ctx, r.Name, began, report) }, func(err error) {
		if errors.Is(err, errExpired) || errors.Is(err, errEnded) {
			return
		}
		if r.isWatching.Store(false); !failing {
			r.Log.Warn("cannot watch node", "node", r.Name, "error", err)
		}
		failing = true
	})
}
