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

// unidentified are cgroups of containers that have appeared in pods before the runtime
// has told of the container: it does so when the entrypoint runs already. They wait
// in the shared pool. Only files are written: a property that systemd sets while the
// OCI runtime makes a scope can keep the container from starting. Pods and what is
// above them are never narrowed.
type unidentified map[cgroup.Path]unidentifiedCgroup

type unidentifiedCgroup struct {
	id   string
	cpus cpuset.Set // that it is to have
}

// trackCgroup is told of a cgroup in a pod. It says whether that is a stranger.
func (l *Loop) trackCgroup(p cgroup.Path) bool {
	id := inventory.IDAt(p, l.Driver)
	if id == "" || l.Observes || l.CPUManager != nil || // the kubelet has said where it is to be
		l.Runtime == nil || l.inventory.Container(id) != nil || l.inventory.Pod(id) != nil || l.unidentified.has(p) || l.others.MayClaim(l.inventory, p.Parent()) {
		return false
	}
	l.unidentified[p] = unidentifiedCgroup{id: id}
	if l.status.listed { // else the first listing will tell
		l.fetchContainer(id)
		l.fetchPod(id) // it may be a sandbox
	}
	return true
}

// limitUnidentified adds the strangers to what should be. Who is planned by now is none any
// more. One that has a cpuset already got it by its specification, and keeps it
// unless somebody else owns CPUs of it.
func (l *Loop) limitUnidentified(shared, owned cpuset.Set, want []cgroup.Target) []cgroup.Target {
	for _, t := range want {
		if l.unidentified.has(t.Path) {
			delete(l.unidentified, t.Path)
			l.cache.Forget(t.Path) // the runtime and systemd may have told of its record
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
		more = append(more, cgroup.Target{Path: p, CPUs: shared, Reason: "the runtime has not told what it is yet"})
	}
	slices.SortFunc(more, func(a, b cgroup.Target) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return append(want, more...)
}

// withoutRecord makes Diff leave the recorders of strangers alone.
func (s unidentified) withoutRecord(m limits) {
	for p, who := range s {
		m.mark(p, func(c *cgroup.Current) { c.Recorded, c.RecordedKnown = who.cpus, true })
	}
}

func (s unidentified) has(p cgroup.Path) bool {
	_, ok := s[p]
	return ok
}
