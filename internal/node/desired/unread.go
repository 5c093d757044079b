package desired

import (
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// stay leaves those where they are of whom it is not known what they are. The plan
// has the shared pool for them.
func (s Input) stay(p pools.Plan, want []cgroup.Target) []cgroup.Target {
	unread := UnreadPaths(s.Inventory, p)
	if len(unread) == 0 {
		return want
	}
	owned := OwnedBy(p)
	kept := want[:0]
	for _, t := range want {
		if !unread[t.Path] || s.mustGo(&t, owned) {
			kept = append(kept, t)
		}
	}
	return kept
}

// mustGo says that a target must not stay where it is, and takes from it only what
// has another owner. Who has never been placed is on all CPUs, and nobody's owner.
func (s Input) mustGo(t *cgroup.Target, owned cpuset.Set) bool {
	st, err := s.Read(t.Path)
	if err != nil && !s.Inventory.IsAwaited(*t) {
		return false
	}
	record := s.Inventory.Recorded(*t)
	recorded := record.Recorded.Union(record.Unit.CPUs)
	has := st.CPUs
	if err != nil {
		has = recorded
	}
	if has.IsEmpty() {
		return true
	}
	if left := has.Difference(owned); !left.IsEmpty() {
		t.CPUs = left
	}
	return has.Union(recorded).Overlaps(owned)
}

// UnreadPaths are the cgroups of those of whom it is not known what they are, and
// who have no CPUs on record.
func UnreadPaths(m *inventory.Inventory, p pools.Plan) map[cgroup.Path]bool {
	paths := make(map[cgroup.Path]bool)
	for _, pod := range p.Pods {
		for _, c := range pod.Containers {
			switch e := m.Container(c.ID); {
			case c.Exclusive:
			case c.Kind == pools.Infra && c.Unread:
				paths[m.Pod(c.ID).Pause] = true
			case e != nil && (c.Unread || e.IsUnread()):
				paths[e.Path] = true
			}
		}
	}
	return paths
}
