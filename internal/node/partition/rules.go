package partition

import (
	"log/slog"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
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

// unowned holds online CPUs in no cgroup. The kernel releases CPUs of a removed partition late.
type unowned struct {
	since  map[int]time.Time
	lost   cpuset.Set // unowned for LeakTime
	replan time.Time  // the plan changes because of lost CPUs
}

// mayReturn reports whether some of the CPUs do not count as lost yet.
func (u *unowned) mayReturn() bool { return len(u.since) > u.lost.Len() }

// note takes over the CPUs of a scan.
func (u *unowned) note(cpus cpuset.Set, now time.Time, log *slog.Logger) {
	maps.DeleteFunc(u.since, func(cpu int, _ time.Time) bool { return !cpus.Contains(cpu) })
	var lost cpuset.Set
	for cpu := range cpus.All() {
		since, known := u.since[cpu]
		if !known {
			u.since[cpu] = now
		} else if now.Sub(since) >= LeakTime {
			lost = lost.Union(cpuset.Of(cpu))
		}
	}
	if lost.Equal(u.lost) {
		return
	}
	if more := lost.Difference(u.lost); !more.IsEmpty() {
		log.Error("online CPUs are in no cgroup; not allocating them", "cpus", more)
	}
	if back := u.lost.Difference(lost); !back.IsEmpty() {
		log.Info("CPUs that were in no cgroup are back", "cpus", back)
	}
	u.lost, u.replan = lost, now.Add(time.Millisecond)
}
