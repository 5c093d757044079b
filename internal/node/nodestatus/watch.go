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

// path is where the Node is, with a subresource or nothing behind it.
func path(name, subresource string) string {
	return "/api/v1/nodes/" + url.PathEscape(name) + subresource
}

// seen is what a watch tells: the Node as it is, nil when there is none. The first of a
// watch is fresh: it is the state that there is now.
type seen struct {
	node  *object
	fresh bool
}

// errExpired ends a watch that has fallen too far behind: the next one begins anew.
// errEnded ends one before its time: an API server that stops does that to all nodes.
var (
	errExpired = errors.New("watch has expired")
	errEnded   = errors.New("watch was ended by the API server")
)

// watch tells of the Node's state, and of each change of it, until its time is over or
// something fails; began is called when it has let us. A watch without a version
// begins with the state that there is, so there is no list to fall out of step with,
// and one that is begun again misses nothing.
func (c *client) watch(ctx context.Context, name string, began func(), tell func(context.Context, seen)) error {
	fresh := true
	return c.events(ctx, "/api/v1/nodes", url.Values{"fieldSelector": {"metadata.name=" + name}}, began, func(ctx context.Context, kind string, raw json.RawMessage) error {
		switch kind {
		case "ADDED", "MODIFIED":
			o := new(object)
			if err := json.Unmarshal(raw, o); err != nil {
				return err
			}
			if o.Metadata.Name == name {
				tell(ctx, seen{o, fresh})
				fresh = false
			}
		case "DELETED":
			tell(ctx, seen{})
		}
		return nil
	})
}

// events watches what is at path and in the query, and hands over each event, but for
// those that end the watch.
func (c *client) events(ctx context.Context, path string, query url.Values, began func(), each func(ctx context.Context, kind string, raw json.RawMessage) error) error {
	// Watches that have begun together are not to end together.
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
	defer func() { _ = body.Close() }() // the watch is over
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

// follow watches the Node until ctx ends.
func (r *Runner) follow(ctx context.Context) {
	c, pause, failing := r.Options.client(), newPause(r.Limits.Pause), ""
	began := func() {
		if r.linked.Store(true); failing != "" {
			r.Log.Info("node is watched again", "node", r.Name)
			failing = ""
		}
	}
	tell := func(ctx context.Context, s seen) {
		select {
		case r.seen <- s:
		case <-ctx.Done():
		}
	}
	for {
		started := time.Now()
		err := c.connect()
		if err == nil {
			err = c.watch(ctx, r.Name, began, tell)
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > longestPause {
			pause.Reset()
		}
		if err == nil { // its time was over
			continue
		}
		if !errors.Is(err, errExpired) && !errors.Is(err, errEnded) {
			if r.linked.Store(false); failing == "" {
				r.Log.Warn("node is not watched", "node", r.Name, "error", err)
			}
			failing = err.Error()
		}
		if !sleep(ctx, pause.NextBackOff()+retryAfter(err)) {
			return
		}
	}
}
