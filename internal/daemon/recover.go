package daemon

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// recoverAssignments finds out which exclusive CPUs the containers of a running
// node have, so that a daemon that starts moves nobody. The kernel's word comes
// first, then the runtime's record, which also stands for containers that have
// exited, then the journal, for those of which nothing else is left.
func recoverAssignments(m *model, read func(cgroup.Path) (cgroup.State, error), journal []pools.Assignment, guaranteed cpuset.Set) []pools.Assignment {
	found := make(map[pools.Key]recovered)
	for _, e := range m.containers {
		p := m.pods[e.container.PodID]
		if p == nil {
			continue
		}
		r := recovered{created: e.container.CreatedAt.UnixNano()}
		if st, err := read(e.path); e.path != "" && err == nil && exclusiveSet(st.CPUs, guaranteed) {
			r.cpus, r.live = st.CPUs, true
		} else if exclusiveSet(e.recorded, guaranteed) {
			r.cpus = e.recorded
		} else {
			continue
		}
		key := pools.Key{PodUID: p.uid, Container: e.container.Name}
		if old, known := found[key]; !known || r.beats(old) {
			found[key] = r
		}
	}
	var out []pools.Assignment
	for _, a := range journal {
		if _, known := found[a.Key]; !known {
			out = append(out, a)
		}
	}
	for key, r := range found {
		out = append(out, pools.Assignment{Key: key, CPUs: r.cpus})
	}
	return out
}

type recovered struct {
	cpus    cpuset.Set
	live    bool  // the kernel says so, not just a record
	created int64 // of the container
}

// beats prefers the kernel's word, then the newest container of the name.
func (r recovered) beats(old recovered) bool {
	if r.live != old.live {
		return r.live
	}
	return r.created > old.created
}

// exclusiveSet says that a set can only be the daemon's own choice: no other
// pool reaches into the guaranteed one.
func exclusiveSet(s, guaranteed cpuset.Set) bool {
	return !s.IsEmpty() && s.IsSubsetOf(guaranteed)
}
