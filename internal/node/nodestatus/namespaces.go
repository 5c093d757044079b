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

// Allowed holds the permissions of the namespaces. A published value does not change.
type Allowed struct {
	workload.Permissions
	// Current is true while the API server reports changes. Otherwise the permissions are the
	// last ones of the API server or of the file, and newer namespaces are missing.
	Current bool
}

// Namespaces watches the annotations with which namespaces allow workload types. It keeps them
// in a file for times without an API server.
type Namespaces struct {
	options Options
	names   workload.Names
	file    string

	// Only the goroutine of Run uses the fields below, once it runs.
	known   Allowed
	version string // of the last event; empty if the next watch needs a list first
	unsaved bool
}

// NewNamespaces reads the file, if it exists. An error means that the file is not used; the
// Namespaces is valid. The options Name and Record have no effect.
func NewNamespaces(o Options, names workload.Names, file string) (*Namespaces, error) {
	o.Limits = o.Limits.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	known, err := ReadPermissions(file, names)
	return &Namespaces{options: o, names: names, file: file, known: Allowed{Permissions: known}}, err
}

// Known returns the permissions before Run.
func (n *Namespaces) Known() Allowed { return n.known }

// Run watches the namespaces until ctx ends. It calls notify at each change, and waits for it.
func (n *Namespaces) Run(ctx context.Context, notify func(Allowed)) {
	log, failing := n.options.Log, false
	update := func(p workload.Permissions, current bool) {
		changed := !p.Equal(n.known.Permissions)
		news := changed || current != n.known.Current
		n.known = Allowed{p, current}
		if changed || n.unsaved {
			n.save()
		}
		if news {
			notify(n.known)
		}
	}
	if !sleep(ctx, rand.N(n.options.Limits.Start)) {
		return
	}
	began := func() {
		if failing {
			log.Info("watching namespaces again")
			failing = false
		}
	}
	n.options.keepWatching(ctx, func(c *client) error {
		if n.version == "" {
			all, err := n.list(ctx, c)
			if err != nil {
				return err
			}
			update(all, true)
		}
		return n.watch(ctx, c, update, began)
	}, func(err error) {
		switch {
		case errors.Is(err, errExpired):
			n.version = "" // list again
		case !errors.Is(err, errEnded):
			if !failing {
				log.Warn("cannot watch namespaces; their last permissions stay valid", "error", err)
			}
			failing = true
			update(n.known.Permissions, false)
		}
	})
}

// save writes the file. A failure does not affect the permissions in memory.
func (n *Namespaces) save() {
	err := writePermissions(n.file, n.names, n.known.Permissions)
	if err != nil && !n.unsaved {
		n.options.Log.Warn("cannot save permissions of namespaces; a daemon that starts without an API server lacks them", "error", err)
	}
	n.unsaved = err != nil
}

type metadata struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// pageSize is the maximum number of namespaces in an answer: about 1 MiB.
const pageSize = 500

// list reads all namespaces consistently: an older state could restore a removed permission.
func (n *Namespaces) list(ctx context.Context, c *client) (workload.Permissions, error) {
	c.accept = metadataList
	all, listed := n.known.Permissions, make(map[string]bool)
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		var answer struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			} `json:"metadata"`
			Items []metadata `json:"items"`
		}
		err := c.exchange(ctx, "GET", namespacesPath, query, "", nil, &answer)
		switch {
		case isStatus(err, 410):
			return nil, errExpired // the pages took too long
		case err != nil:
			return nil, fmt.Errorf("list namespaces: %w", err)
		}
		for _, item := range answer.Items {
			listed[item.Metadata.Name] = true
			all = all.With(n.names, item.Metadata.Name, item.Metadata.Annotations, n.options.Now().UnixNano())
		}
		if answer.Metadata.Continue == "" {
			n.version = answer.Metadata.ResourceVersion
			break
		}
		query.Set("continue", answer.Metadata.Continue)
	}
	for namespace := range all {
		if !listed[namespace] {
			all = all.Without(namespace, n.options.Now().UnixNano())
		}
	}
	return all, nil
}

const namespacesPath = "/api/v1/namespaces"

func (n *Namespaces) watch(ctx context.Context, c *client, update func(workload.Permissions, bool), began func()) error {
	c.accept = metadataOnly
	query := url.Values{"resourceVersion": {n.version}}
	return c.events(ctx, namespacesPath, query, func() {
		began()
		update(n.known.Permissions, true)
	}, func(_ context.Context, kind string, raw json.RawMessage) error {
		var o metadata
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		before := n.known.Permissions[o.Metadata.Name].Types
		switch now := n.options.Now().UnixNano(); kind {
		case "ADDED", "MODIFIED":
			update(n.known.With(n.names, o.Metadata.Name, o.Metadata.Annotations, now), true)
		case "DELETED":
			update(n.known.Without(o.Metadata.Name, now), true)
		}
		if after := n.known.Permissions[o.Metadata.Name].Types; !slices.Equal(before, after) {
			n.options.Log.Info("allowed workload types of a namespace changed", "namespace", o.Metadata.Name, "before", before, "now", after)
		}
		if o.Metadata.ResourceVersion != "" { // bookmarks have it too
			n.version = o.Metadata.ResourceVersion
		}
		return nil
	})
}
