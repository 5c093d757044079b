package daemon

import (
	"errors"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Parking
//
// With guaranteed.park the free CPUs of the guaranteed pool are in a partition without
// processes (cgroup.Parking). A pass treats it as one more partition: it shrinks the parking
// before its other writes, for new owners, and grows it after them. No reply to the runtime
// allocates CPUs that are still parked.

// codeNoParking is the code of free CPUs that are not parked although configured.
const codeNoParking pools.Code = "NoParking"

// parking is the state of the parked CPUs.
type parking struct {
	made   bool       // the cgroup may exist
	cpus   cpuset.Set // parked CPUs in the last scan
	told   cpuset.Set // parked CPUs in the log
	failed string     // why the cgroup could not be removed
}

// parks reports whether free CPUs are parked. If they are not although the configuration
// asks for it, it returns the reason.
func (l *Loop) parks() (on bool, why string) {
	if !l.settings.Config.Park {
		return false, ""
	}
	if on, why = l.partitions(); !on && why == "" {
		why = "with guaranteed.isolation auto this kernel makes no partitions (7.0 and later do)"
	}
	return on, why
}

// parkable returns the CPUs that no target has or runs on. It returns none during a handover
// of CPUs between owners, because two owners need free CPUs to swap. CPUs that instances of
// one container share are no handover: an instance whose start has failed may count as
// created until the next listing.
func (l *Loop) parkable(want []cgroup.Target) cpuset.Set {
	plan := l.status.plan
	free := plan.Free.Union(plan.Idle).Intersection(l.Online()).Difference(l.leavingCPUs().Union(l.isolation.leaked))
	for _, t := range want {
		c := l.cache.Current(t.Path)
		if t.CPUs.IsEmpty() || t.Around || !c.Exists {
			continue // the partition keeps slices of the host off
		}
		if t.Exclusive && slices.ContainsFunc(want, func(o cgroup.Target) bool {
			return o.Exclusive && o.Path != t.Path && c.CPUs.Difference(t.CPUs).Overlaps(o.Own())
		}) {
			return cpuset.Set{}
		}
		free = free.Difference(c.Effective.Union(c.Pending))
	}
	return free
}

// parkingWish returns the desired partition of free CPUs, if there are any.
func (l *Loop) parkingWish(want []cgroup.Target, keep bool, now time.Time) (w cgroup.PartitionWish, ok bool) {
	if on, _ := l.parks(); !on {
		l.quiet.StopParking()
		return w, false
	}
	cpus, news := l.quiet.Park(l.parkable(want), l.isolation.parking.cpus, len(l.status.plan.Assignments) > 0, now)
	if news {
		l.log.Info("quiet: free CPUs are parked later", "cpus", l.quiet.Unparked())
	}
	w = cgroup.PartitionWish{Path: cgroup.Parking, Type: cgroup.IsolatedPartition, CPUs: cpus, Keep: keep}
	w.Not = l.whyWait(w, now)
	return w, !w.CPUs.IsEmpty()
}

// makeParking makes the cgroup of parked CPUs if a partition needs it.
func (l *Loop) makeParking(wishes []cgroup.PartitionWish, now time.Time) {
	i := slices.IndexFunc(wishes, func(w cgroup.PartitionWish) bool { return w.Path == cgroup.Parking && !w.Keep && w.Not == "" })
	if i < 0 || l.parkedStill() {
		return
	}
	l.isolation.parking.made = true
	if err := l.Cgroups.MakeParking(); err != nil {
		wishes[i].Not = l.failPartition(wishes[i], err.Error(), now)
	}
}

// findParking finds the cgroup that an earlier daemon has left. Its path identifies it, also
// without a journal.
func (l *Loop) findParking() {
	p := &l.isolation.parking
	_, err := l.Cgroups.Read(cgroup.ParkingTop)
	p.made = !errors.Is(err, cgroup.ErrGone)
	if st, err := l.Cgroups.Read(cgroup.Parking); err == nil && st.Partition.Valid() {
		p.cpus = st.Effective
	}
}

// seen takes over the parked CPUs of a scan.
func (p *parking) seen(view cgroup.PartitionView) {
	switch n := view.Nodes[cgroup.Parking]; {
	case n.State.Valid():
		p.cpus = n.Effective
	case n.State.Invalid:
		p.cpus = n.Exclusive // until its type is member
	default:
		p.cpus = cpuset.Set{}
	}
}

// logParking logs a change of the parked CPUs after the last write, and removes the cgroup when
// parking has ended.
func (l *Loop) logParking(view cgroup.PartitionView) {
	p := &l.isolation.parking
	if !p.cpus.Equal(p.told) {
		if p.told = p.cpus; p.cpus.IsEmpty() {
			l.log.Info("parking has ended")
		} else {
			l.log.Info("the kernel keeps all tasks off free CPUs", "cpus", p.cpus)
		}
	}
	on, _ := l.parks()
	leaf, top := view.Nodes[cgroup.Parking], view.Nodes[cgroup.ParkingTop]
	if on || !p.made || !leaf.State.Is(cgroup.MemberPartition) || !leaf.Exclusive.IsEmpty() || !top.Exclusive.IsEmpty() {
		return
	}
	if err := l.Cgroups.RemoveParking(); err != nil {
		if p.failed != err.Error() {
			p.failed = err.Error()
			l.log.Warn("remove the cgroup of parked CPUs; the next pass tries again", "error", err)
		}
		return
	}
	*p = parking{}
	l.isolation.memory.Gone(cgroup.ParkingTop)
	l.journal.Forget(partition.IsParking)
}

// noticeParking handles a notice of a write to the cgroups of parked CPUs, by the daemon or
// another process. It reports whether another process has ended the partition.
func (l *Loop) noticeParking(p cgroup.Path, file string) bool {
	if p != cgroup.Parking || file != cgroup.FilePartition || l.isolation.outcomes[p].Phase != cgroup.PartitionInForce || l.parkedStill() {
		return false
	}
	l.recheckPartitions(p)
	return true
}

// parkedStill reports whether the partition of parked CPUs is in force.
func (l *Loop) parkedStill() bool {
	st, err := l.Cgroups.Read(cgroup.Parking)
	return err == nil && st.Partition.Is(cgroup.IsolatedPartition)
}
