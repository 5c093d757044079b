package inventory

import (
	"iter"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// # Runtimes with a sandbox process
//
// Kata Containers runs the containers of a pod in a virtual machine, and gVisor runs them in
// the threads of one process. Both are in a cgroup of the sandbox. The cgroups of the
// containers do not exist (Kata), or stay empty (gVisor). So the runtime reports a container
// as running although no process has ever been in its cgroup. The name of the runtime handler
// shows nothing: administrators choose it.

// home is the cgroup in which the processes of a container run.
type home int

const (
	homeUnknown home = iota
	homeSandbox      // the runtime reports it as running, and its own cgroup has no process
	homeOwn          // its own cgroup; this never changes
)

// settle records a home, unless processes have been in the container's own cgroup.
func (h *history) settle(is home) { h.home = max(h.home, is) }

// NoteProcesses records whether processes run in the cgroup of the container, which may be
// nil. It reports whether the daemon must fetch the container: it is running, and no
// process has been in its cgroup.
func (e *Container) NoteProcesses(populated bool) (fetch bool) {
	switch {
	case e == nil:
		return false
	case populated:
		e.settle(homeOwn)
	}
	e.lostAt = time.Time{}
	return e.home == homeUnknown && e.Container.State == cri.Running
}

// HostsContainers reports whether the processes of the sandbox's containers run in a cgroup of
// the sandbox. A container that ends in this moment is not sufficient: no other container of
// the sandbox may have processes in its own cgroup. It is false for a nil pod.
func (e *Pod) HostsContainers() bool { return e != nil && e.objects.hosts(e.Pod.ID) }

func (m *Objects) hosts(sandbox string) bool {
	hosted, own := m.homes(sandbox)
	return hosted && !own
}

func (m *Objects) homes(sandbox string) (hosted, own bool) {
	for _, e := range m.within[sandbox] {
		if e.Container.State != cri.Exited {
			hosted, own = hosted || e.home == homeSandbox, own || e.home == homeOwn
		}
	}
	return hosted, own
}

// IsSandboxCgroup reports whether p is the cgroup that Kata Containers makes next to the
// one of the pause container: kata_ and the name of the latter (kata-containers 06315f95,
// src/runtime/pkg/resourcecontrol/cgroups.go, RenameCgroupPath).
func (e *Pod) IsSandboxCgroup(p cgroup.Path) bool {
	_, own := e.objects.homes(e.Pod.ID)
	return !own && strings.HasPrefix(p.Base(), "kata_") && strings.HasSuffix(strings.TrimSuffix(p.Base(), ".scope"), e.Pod.ID)
}

// IsHosted reports whether the processes of the container, which may be nil, run in a cgroup
// of its sandbox.
func (e *Container) IsHosted() bool {
	return e != nil && e.inventory.objects.hosts(e.Container.PodID)
}

// A container without a cgroup is reported after this time and this number of listings: the
// runtime reports the end of a container late when it is busy.
const (
	lostTime     = time.Minute
	lostListings = 2
)

// noteLost records whether a container runs without a cgroup.
func (e *Container) noteLost(lost bool) {
	switch {
	case !lost:
		e.lostAt = time.Time{}
	case e.lostAt.IsZero():
		e.lostAt, e.lostIn = e.inventory.now(), e.inventory.listings
	}
}

// Lost yields the containers that hold or may hold exclusive CPUs, that the runtime reports as
// running, and whose cgroup has not existed for a while, with the time since. A container in a
// virtual machine has no cgroup either: of containers that have never had a process in their own
// cgroup, those with a runtime handler are left out.
func (m *Objects) Lost() iter.Seq2[*Container, time.Time] {
	return func(yield func(*Container, time.Time) bool) {
		for _, id := range sortedWhere(m.containers, (*Container).isLost) {
			if e := m.containers[id]; !yield(e, e.lostAt) {
				return
			}
		}
	}
}

func (e *Container) isLost() bool {
	m, pod := e.inventory, e.Pod()
	if e.lostAt.IsZero() || e.Container.State != cri.Running || m.listings-e.lostIn < lostListings || m.now().Sub(e.lostAt) < lostTime {
		return false
	}
	return pod != nil && (e.home == homeOwn || pod.Pod.RuntimeHandler == "") && e.MayBeExclusive()
}
