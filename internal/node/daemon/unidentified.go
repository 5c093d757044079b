package daemon

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// unidentified holds cgroups of containers that the runtime has not reported yet, because it
// reports containers after their entrypoint has started. They wait in the shared pool. The
// daemon writes only files: a systemd property that changes while the OCI runtime creates the
// scope can prevent the start. It never limits pods and the slices above them.
type unidentified map[cgroup.Path]unidentifiedCgroup

type unidentifiedCgroup struct {
	id   string
	cpus cpuset.Set // its target
}

// trackCgroup records a pod cgroup. It reports whether its container is unidentified.
func (l *Loop) trackCgroup(p cgroup.Path) bool {
	id := inventory.IDAt(p, l.Driver)
	if id == "" || l.Observes || l.CPUManager != nil || // the kubelet's CPU manager places it
		l.Runtime == nil || l.inventory.Container(id) != nil || l.inventory.Pod(id) != nil || l.unidentified.has(p) || l.others.MayClaim(l.inventory, p.Parent()) {
		return false
	}
	l.unidentified[p] = unidentifiedCgroup{id: id}
	if l.status.listed { // otherwise the first listing follows
		l.fetchContainer(id)
		l.fetchPod(id) // it may be a sandbox
	}
	return true
}

// limitUnidentified adds targets for the unidentified cgroups to want, and drops cgroups that
// are targets now. A cgroup with a cpuset has it from its specification, and keeps it unless
// the cpuset contains exclusive CPUs.
func (l *Loop) limitUnidentified(shared, owned cpuset.Set, want []cgroup.Target) []cgroup.Target {
	for _, t := range want {
		if l.unidentified.has(t.Path) {
			delete(l.unidentified, t.Path)
			l.cache.Forget(t.Path) // its record may be known now
		}
	}
	maps.DeleteFunc(l.unidentified, func(_ cgroup.Path, s unidentifiedCgroup) bool {
		e := l.inventory.Container(s.id)
		return e != nil && l.others.Claims(l.inventory, e) // it has no target
	})
	shared = shared.Difference(owned)
	if shared.IsEmpty() {
		return want
	}
	var more []cgroup.Target
	for p, s := range l.unidentified {
		st, err := l.Cgroups.Read(p)
		if errors.Is(err, cgroup.ErrGone) {
			delete(l.unidentified, p)
			continue
		}
		if err != nil || !st.HasCPUSet {
			continue // there is no file to write
		}
		if !st.CPUs.IsEmpty() && !st.CPUs.Overlaps(owned) && !l.journal.HasOriginal(p, cgroup.FileCPUs) {
			continue
		}
		s.cpus = shared
		l.unidentified[p] = s
		more = append(more, cgroup.Target{Path: p, CPUs: shared, Reason: "the runtime has not reported the container yet"})
	}
	slices.SortFunc(more, func(a, b cgroup.Target) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return append(want, more...)
}

func (s unidentified) has(p cgroup.Path) bool {
	_, ok := s[p]
	return ok
}
