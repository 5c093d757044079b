package inventory

import (
	"cmp"
	"errors"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Unread objects
//
// The runtime may list a pod or a container and not tell what it is: it answers
// late, or not at all, or leaves out what the daemon needs. Such a container may
// have CPUs of its own. It keeps what journal and kernel say it has (package recovery),
// and it is not moved: only from CPUs that somebody else has for certain, and when
// nobody has ever given it any.
//
// It may also list a container and not its sandbox. As long as such a container has
// not exited, its pod stays what it was; after a start of the daemon it is one of
// which nothing is known but the UID, which is in the names of the kubelet's cgroups.

var ErrUnlisted = errors.New("the runtime lists containers of it, and not the sandbox; they keep their CPUs")

// Unlist drops a sandbox that the runtime does not list, unless it lists a container
// of it that has not exited.
func (m *Inventory) Unlist(id string) {
	var of *Container
	for _, e := range m.within[id] {
		if stateOf(e.Container.State) != pools.Exited && (of == nil || e.Err == nil) {
			of = e
		}
	}
	switch e := m.pods[id]; {
	case of == nil:
		m.dropPod(id)
	case e != nil:
		e.Unlisted = true
	default:
		m.Clock++
		uid, _, _ := cgroup.PodOf(of.Path)
		// For all that is known it is ready: it is the runtime that does not tell.
		m.setPod(id, &Pod{Pod: cri.Pod{ID: id, Ready: true}, UID: cmp.Or(uid, id), added: m.Clock, Unlisted: true, Err: ErrUnlisted})
	}
}
