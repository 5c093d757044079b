package kernelstate

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// ReadStale reads the targets of the last pass that may have changed. It reports whether all are on their
// planned CPUs. A worker makes a cgroup stale with each record that it writes.
func ReadStale(t *Cache, targets []cgroup.Target, m *inventory.Objects) bool {
	if !t.HasStale() {
		return true
	}
	var stale []cgroup.Target
	for i := range targets {
		if t.IsStale(targets[i].Path) {
			stale = append(stale, targets[i])
		}
	}
	gone, unreadable := t.Read(stale, m)
	outside := func(o cgroup.Target) bool {
		return !o.CPUs.IsEmpty() && !t.Current(o.Path).Effective.IsSubsetOf(o.CPUs)
	}
	return len(gone)+len(unreadable) == 0 && !t.HasStale() && !slices.ContainsFunc(stale, outside)
}
