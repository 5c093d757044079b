package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// drifts follow what others write to cgroups that were as planned, from the moment
// that it was noticed until it is repaired.
type drifts struct {
	heard map[cgroup.Path]time.Time // when the watcher told of a write that is not read yet
}

func newDrifts() *drifts { return &drifts{heard: make(map[cgroup.Path]time.Time)} }

// hear notes that somebody has written to a cgroup.
func (d *drifts) hear(p cgroup.Path, at time.Time) {
	if _, before := d.heard[p]; !before {
		d.heard[p] = at
	}
}
