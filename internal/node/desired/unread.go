package desired

import (
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// dropUnread drops targets with unknown resources. Their containers keep their CPUs.
func (in *Input) dropUnread(d *Decision, want []cgroup.Target) []cgroup.Target {
	unread := unreadCgroups(in.Inventory, d.Plan)
	if len(unread) == 0 {
		return want
	}
	kept := want[:0]
	for _, t := range want {
		if unread[t.Path] {
			cpus, moves := in.mustLeave(&t, d.Owned)
			if !moves {
				continue
			}
			t.CPUs = cpus
		}
		kept = append(kept, t)
	}
	return kept
}

// mustLeave reports whether an unread cgroup has CPUs of an owner, and returns its other CPUs, or
// the plan's. A cgroup without a cpuset runs on all CPUs.
func (in *Input) mustLeave(t *cgroup.Target, owned cpuset.Set) (cpuset.Set, bool) {
	st, err := in.Read(t.Path)
	if err != nil && !in.Inventory.IsAwaited(*t) {
		return cpuset.Set{}, false
	}
	record := in.Inventory.Recorded(*t)
	recorded := record.Recorded.Union(record.Unit.CPUs)
	cpus := st.CPUs
	if err != nil {
		cpus = recorded
	}
	if cpus.IsEmpty() {
		return t.CPUs, true
	}
	left := cpus.Difference(owned)
	if left.IsEmpty() {
		left = t.CPUs
	}
	return left, cpus.Union(recorded).Overlaps(owned)
}

// HasUnread reports whether a plan has shared containers with unknown resources.
func HasUnread(m *inventory.Inventory, p pools.Plan) bool { return len(unreadCgroups(m, p)) > 0 }

func unreadCgroups(m *inventory.Inventory, p pools.Plan) map[cgroup.Path]bool {
	paths := make(map[cgroup.Path]bool)
	for _, c := range p.Containers() {
		switch e := m.Container(c.ID); {
		case c.Pool == pools.Guaranteed:
		case c.Kind == pools.Infra && c.Unread:
			paths[m.Pod(c.ID).Pause] = true
		case e != nil && (c.Unread || e.IsUnread()):
			paths[e.Path] = true
		}
	}
	return paths
}
