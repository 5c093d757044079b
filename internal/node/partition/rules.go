package partition

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// LeakTime is the time after which online CPUs that are in no cgroup count as lost. The
// kernel releases the CPUs of a removed partition after a moment, if at all.
const LeakTime = 2 * time.Second

// FirstPause and lastPause bound the growing pause before the next attempt to make a
// partition that the kernel has refused, or that waits for CPUs.
const (
	FirstPause = 100 * time.Millisecond
	lastPause  = time.Minute
)

// MaxSteps returns the maximum number of steps to reach the desired state of n partitions.
func MaxSteps(n int) int { return 32 + 8*n }

// left returns the partitions of containers among listed, and a cgroup below each pod and each parent of pods, because
// their lists belong to unknown containers. Without a journal at the start (bare), they may be left by another daemon.
func left(listed []cgroup.Path, bare bool) map[cgroup.Path]bool {
	found := make(map[cgroup.Path]bool)
	for _, p := range listed {
		below := p.Parent().InPod()
		switch {
		case p.InPod() && !below, !p.InPod() && bare && p.HoldsPods():
			found[p.Join("gone")] = true
		case below && !p.Parent().Parent().InPod() && bare:
			found[p] = true
		}
	}
	return found
}

// IsParking reports whether a cgroup belongs to the partition of parked CPUs.
func IsParking(p cgroup.Path) bool { return p == cgroup.Parking || p == cgroup.ParkingTop }

func samePartition(a, b cgroup.DesiredPartition) bool {
	return a.Type == b.Type && a.CPUs.Equal(b.CPUs)
}
