package partition

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # Parking
//
// With guaranteed.park the free CPUs of the guaranteed pool are in a partition without
// processes (cgroup.Parking). A pass treats it as one more partition: it shrinks the parking
// before its other writes, for new owners, and grows it after them. No reply to the runtime
// allocates CPUs that are still parked.

type parking struct {
	made   bool       // the cgroup may exist
	cpus   cpuset.Set // parked CPUs in the last scan
	logged cpuset.Set // parked CPUs in the log
	failed string     // why the cgroup could not be removed
}

// see takes over the parked CPUs of a scan.
func (p *parking) see(view cgroup.PartitionView) {
	switch n := view.Nodes[cgroup.Parking]; {
	case n.State.Valid():
		p.cpus = n.Effective
	case n.State.Invalid:
		p.cpus = n.Exclusive // until its type is member
	default:
		p.cpus = cpuset.Set{}
	}
}

func (p *Partitions) isParked() bool {
	st, err := p.Cache.State(cgroup.Parking)
	return err == nil && st.Partition.Is(cgroup.IsolatedPartition)
}

func (s *scan) toPark() cpuset.Set {
	if !s.parks() {
		s.Quiet.StopParking()
		return cpuset.Set{}
	}
	cpus, news := s.Quiet.Park(s.free(), s.parking.cpus, len(s.Plan.Assignments) > 0, s.Now)
	if news {
		s.Log.Info("quiet: free CPUs are parked later", "cpus", s.Quiet.Unparked())
	}
	return cpus
}

// free returns CPUs that no target has or runs on; none during a handover, because two owners need
// free CPUs to swap. CPUs shared by instances of one container are no handover: a failed start may
// count as created until the next listing.
func (s *scan) free() cpuset.Set {
	free := s.Plan.Free.Union(s.Plan.Idle).Intersection(s.Host.Online()).Difference(s.Leaving.Union(s.unowned.lost))
	for _, t := range s.Targets {
		c := s.Cache.Current(t.Path)
		if t.CPUs.IsEmpty() || t.Around || !c.Exists {
			continue // the partition keeps slices of the host off
		}
		if t.Exclusive && slices.ContainsFunc(s.Targets, func(o cgroup.Target) bool {
			return o.Exclusive && o.Path != t.Path && c.CPUs.Difference(t.CPUs).Overlaps(o.Own())
		}) {
			return cpuset.Set{}
		}
		free = free.Difference(c.Effective.Union(c.Pending))
	}
	return free
}

func (s *scan) makeParking() {
	i := slices.IndexFunc(s.wanted, func(w cgroup.DesiredPartition) bool { return w.Path == cgroup.Parking && !w.Keep && w.Not == "" })
	if i < 0 || s.isParked() {
		return
	}
	s.parking.made = true
	if err := s.Host.Cgroups.MakeParking(); err != nil {
		s.fail(i, err.Error())
	}
}

// finishParking logs parked CPUs, and removes the cgroup when parking has ended.
func (s *scan) finishParking(view cgroup.PartitionView) {
	p := &s.parking
	if !p.cpus.Equal(p.logged) {
		if p.logged = p.cpus; p.cpus.IsEmpty() {
			s.Log.Info("parking has ended")
		} else {
			s.Log.Info("the kernel keeps all tasks off free CPUs", "cpus", p.cpus)
		}
	}
	leaf, top := view.Nodes[cgroup.Parking], view.Nodes[cgroup.ParkingTop]
	if s.parks() || !p.made || !leaf.State.Is(cgroup.MemberPartition) || !leaf.Exclusive.IsEmpty() || !top.Exclusive.IsEmpty() {
		return
	}
	if err := s.Host.Cgroups.RemoveParking(); err != nil {
		if p.failed != err.Error() {
			p.failed = err.Error()
			s.Log.Warn("remove the cgroup of parked CPUs; the next pass tries again", "error", err)
		}
		return
	}
	*p = parking{}
	s.Memory.Gone(cgroup.ParkingTop)
	s.Journal.Originals.Forget(IsParking)
}
