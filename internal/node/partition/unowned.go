package partition

import (
	"log/slog"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

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
