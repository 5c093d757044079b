package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Allowed is what is known of the namespaces' permissions. It is not changed once told.
type Allowed struct {
	workload.Permissions
	// Current says that the API server tells of changes. Else this is what it has told
	// before, perhaps an earlier daemon, and newer namespaces are not in it.
	Current bool
}

// Namespaces follows the annotations by which namespaces allow workload types, and
// keeps them in a file, for the time in which there is no API server.
type Namespaces struct {
	options Options
	names   workload.Names
	file    string

	// What follows is of the goroutine of Run alone, once that runs.
	known   Allowed
	version string // of the last event; empty for none that a watch can go on from
	unsaved bool
}

// NewNamespaces reads the file, if there is one. A file that cannot be used is an
// error, which costs what is in it and nothing else: the Namespaces can be used. Of the options
// Name and Record are not.
func NewNamespaces(o Options, names workload.Names, file string) (*Namespaces, error) {
	o.Limits = o.Limits.orDefault()
	if o.Now == nil {
		o.Now = time.Now
	}
	known, err := ReadPermissions(file, names)
	return &Namespaces{options: o, names: names, file: file, known: Allowed{Permissions: known}}, err
}

// Known is what is known before Run.
func (n *Namespaces) Known() Allowed { return n.known }

// Run follows the namespaces until ctx ends, and tells what is known whenever that
// changes. It waits for tell.
func (n *Namespaces) Run(ctx context.Context, tell func(Allowed)) {
	c, pause, failing := n.options.client(), newPause(n.options.Limits.Pause), false
	log := n.options.Log
	became := func(p workload.Permissions, current bool) {
		changed := !p.Equal(n.known.Permissions)
		told := changed || current != n.known.Current
		n.known = Allowed{p, current}
		if changed || n.unsaved {
			n.save()
		}
		if told {
			tell(n.known)
		}
	}
	if !sleep(ctx, rand.N(n.options.Limits.Start)) {
		return
	}
	for {
		started := time.Now()
		err := c.connect()
		if err == nil && n.version == "" {
			var all workload.Permissions
			if all, err = n.list(ctx, &c); err == nil {
				became(all, true)
			}
		}
		if err == nil {
			err = n.follow(ctx, &c, became, func() {
				if failing {
					log.Info("namespaces are watched again")
					failing = false
				}
			})
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > longestPause {
			pause.Reset()
		}
		switch {
		case err == nil: // the watch's time was over
			continue
		case errors.Is(err, errExpired):
			n.version = "" // it goes on from all that there is
		case !errors.Is(err, errEnded):
			if !failing {
				log.Warn("namespaces are not watched; what they have allowed before counts", "error", err)
			}
			failing = true
			became(n.known.Permissions, false)
		}
		if !sleep(ctx, pause.NextBackOff()+retryAfter(err)) {
			return
		}
	}
}

// save writes the file. The daemon can work without.
func (n *Namespaces) save() {
	err := writePermissions(n.file, n.names, n.known.Permissions)
	if err != nil && !n.unsaved {
		n.options.Log.Warn("what namespaces allow is not kept; a daemon that starts without an API server will not know", "error", err)
	}
	n.unsaved = err != nil
}

// metadata is what of an object's metadata matters here.
type metadata struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// page is how many namespaces an answer has: about 1 MiB.
const page = 500

// list asks for all namespaces. It is a consistent read, since an older state would
// bring back what has been taken away.
func (n *Namespaces) list(ctx context.Context, c *client) (workload.Permissions, error) {
	c.accept = metadataList
	all, there := n.known.Permissions, make(map[string]bool)
	query := url.Values{"limit": {strconv.Itoa(page)}}
	for {
		var answer struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			} `json:"metadata"`
			Items []metadata `json:"items"`
		}
		err := c.get(ctx, namespacesPath, query, &answer)
		switch {
		case isStatus(err, 410):
			return nil, errExpired // the list has taken too long
		case err != nil:
			return nil, fmt.Errorf("list namespaces: %w", err)
		}
		for _, item := range answer.Items {
			there[item.Metadata.Name] = true
			all = all.With(n.names, item.Metadata.Name, item.Metadata.Annotations, n.options.Now().UnixNano())
		}
		if answer.Metadata.Continue == "" {
			n.version = answer.Metadata.ResourceVersion
			break
		}
		query.Set("continue", answer.Metadata.Continue)
	}
	for namespace := range all {
		if !there[namespace] {
			all = all.Without(namespace, n.options.Now().UnixNano())
		}
	}
	return all, nil
}

const namespacesPath = "/api/v1/namespaces"

// follow watches from the last event on.
func (n *Namespaces) follow(ctx context.Context, c *client, became func(workload.Permissions, bool), began func()) error {
	c.accept = metadataOnly
	query := url.Values{"resourceVersion": {n.version}}
	return c.events(ctx, namespacesPath, query, func() {
		began()
		became(n.known.Permissions, true)
	}, func(_ context.Context, kind string, raw json.RawMessage) error {
		var o metadata
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		before := n.known.Permissions[o.Metadata.Name].Types
		switch now := n.options.Now().UnixNano(); kind {
		case "ADDED", "MODIFIED":
			became(n.known.With(n.names, o.Metadata.Name, o.Metadata.Annotations, now), true)
		case "DELETED":
			became(n.known.Without(o.Metadata.Name, now), true)
		}
		if after := n.known.Permissions[o.Metadata.Name].Types; !slices.Equal(before, after) {
			n.options.Log.Info("a namespace allows other workload types", "namespace", o.Metadata.Name, "before", before, "now", after)
		}
		if o.Metadata.ResourceVersion != "" { // of bookmarks, too
			n.version = o.Metadata.ResourceVersion
		}
		return nil
	})
}
