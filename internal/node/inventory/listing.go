package inventory

import (
	"cmp"
	"errors"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Query returns the question for the next listing. first means that the inventory has taken none before.
func (m *Inventory) Query(units []string, first bool) lookup.Query {
	return lookup.Query{Slices: m.objects.PodSlices(), Units: units, AsOf: m.changes, Known: m.knownIDs(), First: first}
}

// knownIDs returns the pods and containers whose details need no other question.
func (m *Inventory) knownIDs() map[string]bool {
	o := m.objects
	known := make(map[string]bool, len(o.pods)+len(o.containers))
	for id, e := range o.pods {
		known[id] = e.err == nil && !e.unlisted && e.presence != answered
	}
	for id, e := range o.containers {
		// The end of a container shows whether it was an init container.
		noEnd := e.Container.State == cri.Exited && e.Container.FinishedAt.IsZero()
		known[id] = e.err == nil && !noEnd && e.presence != answered
	}
	return known
}

// # Objects without details
//
// The runtime may list a pod or a container and answer a question for its details late, or
// not at all. Its answer may also lack details that planning needs. Such a container may
// hold exclusive CPUs. It keeps the CPUs that the journal and the kernel show
// (internal/node/recovery). The daemon moves it only off CPUs that certainly belong to
// another owner, and only while no CPUs are recorded for it.
//
// The runtime may list a container without its sandbox. The pod of a container that has not
// exited stays in the inventory. After a restart of the daemon only the UID of such a pod
// is known, from the names of the kubelet's cgroups.

var errUnlisted = errors.New("the runtime lists containers of it, and not the sandbox; they keep their CPUs")

// unlist drops a sandbox that the runtime does not list, unless the runtime lists a
// container of it that has not exited.
func (m *Inventory) unlist(id string) {
	var of *Container
	for _, e := range m.objects.within[id] {
		if stateOf(e.Container.State) != pools.Exited && (of == nil || e.err == nil) {
			of = e
		}
	}
	switch e := m.objects.pods[id]; {
	case of == nil:
		m.objects.dropPod(id)
	case e != nil:
		e.unlisted = true
	default:
		uid, _, _ := cgroup.PodOf(of.Path)
		// Without a report the sandbox counts as ready.
		m.objects.setPod(id, &Pod{objects: m.objects, Pod: cri.Pod{ID: id, Ready: true}, UID: cmp.Or(uid, id), added: m.tick(), unlisted: true, err: errUnlisted})
	}
}
