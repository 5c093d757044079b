package nodestatus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Intervals between attempts to write objects that the cluster lacks or refuses, and between writes:
// each pod that starts or ends changes the object.
const (
	unavailableInterval = 10 * time.Minute
	topologyInterval    = 5 * time.Second
)

type topologyState struct {
	attempts
	written  []byte // the last written object; nil if none exists
	mayExist bool   // a request may have created the object
}

// showTopology writes the object if it differs from the last written one, or deletes it.
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
	object := want.manifest(r.Name, r.node.Metadata.UID, memory)
	if bytes.Equal(object, t.written) {
		return time.Time{}, nil
	}
	err := r.client.connect() // without a connection, the object cannot exist
	if err == nil {
		t.mayExist = true
		err = r.client.call(ctx, http.MethodPatch, topologyPath+url.PathEscape(r.Name), applyPatch, object, nil)
	}
	if err != nil {
		return time.Time{}, topologyError(r.Name, err)
	}
	t.written = object
	t.due = r.Now().Add(topologyInterval)
	return t.due, nil
}

// withdrawTopology deletes the object, if this Runner may have written it.
func (r *Runner) withdrawTopology(ctx context.Context) error {
	if !r.topology.mayExist {
		return nil
	}
	err := r.client.deleteTopology(ctx, r.Name)
	if err == nil {
		r.topology.written, r.topology.mayExist = nil, false
	}
	return err
}

// withdrawTopologyAtExit deletes the object, because it becomes wrong without a daemon.
func (r *Runner) withdrawTopologyAtExit() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := r.withdrawTopology(ctx); err != nil {
		r.Log.Warn("cannot delete NodeResourceTopology of node", "node", r.Name, "error", err)
	}
}

// deleteTopology deletes the object of a node. A missing object is no error.
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

// topologyError adds the remedy for a missing or forbidden API, and a long pause.
func topologyError(name string, err error) error {
	var remedy string
	switch {
	case isStatus(err, http.StatusNotFound):
		remedy = "install the CustomResourceDefinition of " + topologyAPI + ", or set node.topology: false"
	case isStatus(err, http.StatusForbidden):
		remedy = "bind the role cpupoold-topology, or set node.topology: false"
	default:
		return fmt.Errorf("write NodeResourceTopology %s: %w", name, err)
	}
	status, _ := errors.AsType[*statusError](err)
	later := *status
	later.retryAfter = unavailableInterval
	return fmt.Errorf("write NodeResourceTopology %s: %s: %w", name, remedy, &later)
}

// nodeMemory returns the memory of a NUMA node in bytes by resource name: memory, and huge
// pages of each size, which memory does not include. sys is sysfs
// (Documentation/ABI/stable/sysfs-devices-node; a line of meminfo is "Node 0 MemTotal: 1 kB").
func nodeMemory(sys fs.FS, id int) (map[string]int64, error) {
	dir := "devices/system/node/node" + strconv.Itoa(id)
	text, err := fs.ReadFile(sys, dir+"/meminfo")
	if err != nil {
		return nil, fmt.Errorf("memory of NUMA node %d: %w", id, err)
	}
	total := int64(-1)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 5 && fields[2] == "MemTotal:" {
			if total, err = strconv.ParseInt(fields[3], 10, 42); err != nil {
				return nil, fmt.Errorf("memory of NUMA node %d: %w", id, err)
			}
		}
	}
	if total < 0 {
		return nil, fmt.Errorf("memory of NUMA node %d: no MemTotal in %s/meminfo", id, dir)
	}
	all := map[string]int64{}
	pages, _ := fs.Glob(sys, dir+"/hugepages/hugepages-*kB") // the pattern is valid
	for _, page := range pages {
		size, sizeErr := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(page, dir+"/hugepages/hugepages-"), "kB"), 10, 32)
		text, readErr := fs.ReadFile(sys, page+"/nr_hugepages")
		count, countErr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
		if err := cmp.Or(sizeErr, readErr, countErr); err != nil {
			return nil, fmt.Errorf("huge pages of NUMA node %d: %w", id, err)
		}
		all["hugepages-"+binarySize(size)] = count * size * 1024
		total -= count * size
	}
	all["memory"] = max(total, 0) * 1024
	return all, nil
}

// binarySize formats a size in KiB as in the resource names of huge pages, such as 2Mi.
func binarySize(kib int64) string {
	for _, unit := range []string{"Ki", "Mi"} {
		if kib%1024 != 0 {
			return strconv.FormatInt(kib, 10) + unit
		}
		kib /= 1024
	}
	return strconv.FormatInt(kib, 10) + "Gi"
}
