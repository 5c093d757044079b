package inventory

import (
	"errors"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
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

// homeOf returns the home of a container that the runtime has just reported.
func homeOf(h *hostenv.Host, p cgroup.Path, s cri.State) home {
	if h.Cgroups == nil || p == "" || s == cri.Exited {
		return homeUnknown
	}
	st, err := h.Cgroups.Read(p)
	switch {
	case err == nil && st.Populated:
		return homeOwn
	case s == cri.Running && (err == nil || errors.Is(err, cgroup.ErrGone)):
		return homeSandbox
	}
	return homeUnknown
}

// settle records a home, unless processes have been in the container's own cgroup.
func (h *history) settle(is home) { h.home = max(h.home, is) }

// NoteProcesses records whether processes run in the cgroup of a container, which may be
// unknown. It reports whether the daemon must fetch the container: it is running, and no
// process has been in its cgroup.
func (m *Inventory) NoteProcesses(id string, populated bool) (fetch bool) {
	e := m.containers[id]
	switch {
	case e == nil:
		return false
	case populated:
		e.settle(homeOwn)
	}
	return e.home == homeUnknown && e.Container.State == cri.Running
}

// HostsContainers reports whether the processes of a sandbox's containers run in a cgroup of
// the sandbox. A container that ends in this moment is not sufficient: no other container of
// the sandbox may have processes in its own cgroup.
func (m *Inventory) HostsContainers(sandbox string) bool {
	hosted, own := m.homes(sandbox)
	return hosted && !own
}

func (m *Inventory) homes(sandbox string) (hosted, own bool) {
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
func (m *Inventory) IsSandboxCgroup(p cgroup.Path, sandbox string) bool {
	_, own := m.homes(sandbox)
	return !own && strings.HasPrefix(p.Base(), "kata_") && strings.HasSuffix(strings.TrimSuffix(p.Base(), ".scope"), sandbox)
}

// IsHosted reports whether the processes of a container run in a cgroup of its sandbox.
func (m *Inventory) IsHosted(id string) bool {
	e := m.containers[id]
	return e != nil && m.HostsContainers(e.Container.PodID)
}
