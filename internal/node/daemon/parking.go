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
// With guaranteed.park the CPUs of the guaranteed pool that nobody has are in a
// partition of their own, without processes (cgroup.Parking). It is one more wish: a
// pass takes from it what somebody is to have before its other writes, and adds what
// nobody has after them. No reply to the runtime gives CPUs that it still has.

// codeNoParking is the code of free CPUs that should be parked and are not.
const codeNoParking pools.Code = "NoParking"

// parking is what the owner knows of the parked CPUs.
type parking struct {
	made   bool       // the cgroup may be there
	cpus   cpuset.Set // that it had when it was last looked at
	told   cpuset.Set // those that the log tells of
	failed string     // why it could not be removed
}

// parks says whether free CPUs are to be parked, and if not, why that is not as
// configured.
func (l *Loop) parks() (on bool, why string) {
	if !l.settings.Config.Park {
		return false, ""
	}
	if on, why = l.partitions(); !on && why == "" {
		why = "with guaranteed.isolation auto this kernel makes no partitions (7.0 and later do)"
	}
	return on, why
}

// parkable are the CPUs that nobody has or is on. While an owner is to leave to another
// what it stands on there are none: the two need free CPUs to change places. What
// instances of one container have in common none of them leaves: one whose start has
// failed may be known as created until the next listing.
func (l *Loop) parkable(want []cgroup.Target) cpuset.Set {
	plan := l.status.plan
	free := plan.Free.Union(plan.Idle).Intersection(l.Online()).Difference(l.leavingCPUs().Union(l.isolation.leaked))
	for _, t := range want {
		c := l.cache.Current(t.Path)
		if t.CPUs.IsEmpty() || t.Around || !c.Exists {
			continue // slices of the host are kept off
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

// parkingWish is the partition of the CPUs that nobody has, if there are any.
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
	w.Not = l.notNow(w, now)
	return w, !w.CPUs.IsEmpty()
}

// makeParking makes the cgroup for a wish that needs it.
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

// findParking looks whether a daemon has left the cgroup. Nobody needs a journal to know
// whose it is.
func (l *Loop) findParking() {
	p := &l.isolation.parking
	_, err := l.Cgroups.Read(cgroup.ParkingTop)
	p.made = !errors.Is(err, cgroup.ErrGone)
	if st, err := l.Cgroups.Read(cgroup.Parking); err == nil && st.Partition.Valid() {
		p.cpus = st.Effective
	}
}

// seen takes over what the kernel says of the parked CPUs.
func (p *parking) seen(view cgroup.PartitionView) {
	switch n := view.Nodes[cgroup.Parking]; {
	case n.State.Valid():
		p.cpus = n.Effective
	case n.State.Invalid:
		p.cpus = n.Exclusive // until it is a member
	default:
		p.cpus = cpuset.Set{}
	}
}

// parked tells of the CPUs that are parked when nothing is left to be written, and
// removes the cgroup that is not needed any more.
func (l *Loop) parked(view cgroup.PartitionView) {
	p := &l.isolation.parking
	if !p.cpus.Equal(p.told) {
		if p.told = p.cpus; p.cpus.IsEmpty() {
			l.log.Info("no CPUs are parked any more")
		} else {
			l.log.Info("the kernel keeps everybody off free CPUs", "cpus", p.cpus)
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
			l.log.Warn("the cgroup of parked CPUs is left behind; the next pass tries again", "error", err)
		}
		return
	}
	*p = parking{}
	l.isolation.memory.Gone(cgroup.ParkingTop)
	l.journal.Forget(partition.IsParking)
}

// noticeParking is told of a write to the cgroups of parked CPUs, which may have been the
// daemon's. It says whether somebody else has ended the partition.
func (l *Loop) noticeParking(p cgroup.Path, file string) bool {
	if p != cgroup.Parking || file != cgroup.FilePartition || l.isolation.outcomes[p].Phase != cgroup.PartitionInForce || l.parkedStill() {
		return false
	}
	l.recheckPartitions(p)
	return true
}

// parkedStill says that the kernel still has the partition of parked CPUs.
func (l *Loop) parkedStill() bool {
	st, err := l.Cgroups.Read(cgroup.Parking)
	return err == nil && st.Partition.Is(cgroup.IsolatedPartition)
}
