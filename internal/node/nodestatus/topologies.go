package nodestatus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// seldom is how often it is tried to write objects that a cluster does not have, or that
// this account may not write. topologyGap is the shortest time between two that are
// written: each pod that comes or goes makes another one.
const (
	seldom      = 10 * time.Minute
	topologyGap = 5 * time.Second
)

// topologies is what there is of the node's NodeResourceTopology object.
type topologies struct {
	attempts
	shown []byte // the object as it was written last; nil where there is none of ours
	asked bool   // it may have been written
}

// showTopology writes the object where it is not as it was written last, or takes it
// back.
func (r *Runner) showTopology(ctx context.Context, want *Topology) (time.Time, error) {
	t := &r.topology
	if want == nil {
		return time.Time{}, r.withdrawTopology(ctx)
	}
	if r.node == nil {
		return time.Time{}, nil
	}
	memory := make(map[int]map[string]int64, len(want.Zones))
	for _, z := range want.Zones {
		m, err := nodeMemory(r.Sys, z.ID)
		if err != nil {
			return time.Time{}, err
		}
		memory[z.ID] = m
	}
	object := want.apply(r.Name, r.node.Metadata.UID, memory)
	if bytes.Equal(object, t.shown) {
		return time.Time{}, nil
	}
	err := r.client.connect()
	if err == nil {
		t.asked = true
		err = r.client.call(ctx, http.MethodPatch, topologyPath+url.PathEscape(r.Name), applyPatch, object, nil)
	}
	if err != nil {
		return time.Time{}, topologyError(r.Name, err)
	}
	t.shown = object
	t.due = r.Now().Add(topologyGap)
	return t.due, nil
}

// withdrawTopology deletes the object, if this Runner may have written it.
func (r *Runner) withdrawTopology(ctx context.Context) error {
	if !r.topology.asked {
		return nil
	}
	err := r.client.connect()
	if err == nil {
		err = r.client.deleteTopology(ctx, r.Name)
	}
	if err == nil {
		r.topology.shown, r.topology.asked = nil, false
	}
	return err
}

// leaveTopology takes the object back: nobody keeps it right while the daemon is away,
// and to schedulers a node without one is a node that they do not look into.
func (r *Runner) leaveTopology() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if err := r.withdrawTopology(ctx); err != nil {
		r.Log.Warn("the node's NodeResourceTopology stays", "node", r.Name, "error", err)
	}
}

// deleteTopology deletes a node's object; one that is not there is deleted.
func (c *client) deleteTopology(ctx context.Context, name string) error {
	err := c.call(ctx, http.MethodDelete, topologyPath+url.PathEscape(name), "", nil, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete NodeResourceTopology %s: %w", name, err)
	}
	return nil
}

// topologyError adds to what is not likely to be over soon what is to be done, and that
// it is not to be tried again soon.
func topologyError(name string, err error) error {
	status, ok := errors.AsType[*statusError](err)
	if !ok {
		return fmt.Errorf("write NodeResourceTopology %s: %w", name, err)
	}
	var remedy string
	switch status.Code {
	case http.StatusNotFound:
		remedy = "the cluster has no such objects: install the CustomResourceDefinition of " + topologyAPI + ", or set node.topology: false"
	case http.StatusForbidden:
		remedy = "bind the role cpupoold-topology, or set node.topology: false"
	default:
		return fmt.Errorf("write NodeResourceTopology %s: %w", name, err)
	}
	later := *status
	later.retryAfter = seldom
	return fmt.Errorf("write NodeResourceTopology %s: %s: %w", name, remedy, &later)
}
