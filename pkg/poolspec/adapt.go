package poolspec

import (
	"errors"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Adapt is Resolve for a machine that s may not be meant for: another one after a
// reboot. It leaves out each unavailable thing and returns a *FieldError for it:
//   - A partition without CPUs is left out, and its pods are placed like others.
//   - A shared pool without CPUs gets the CPUs that no other pool names. If none exist, it
//     overlaps the partitions, or gets one CPU of the guaranteed pool. Owners keep theirs.
//   - A guaranteed pool without CPUs refuses all requests. A floor that would keep the whole
//     shared pool is lowered to half of it. The pools are empty only if no CPU is online.
func (s Spec) Adapt(t *topology.Topology) (pools.Pools, []error) {
	s = s.On(t)
	if p, err := s.Resolve(t); err == nil {
		return p, nil
	}
	if t.Online.IsEmpty() {
		return pools.Pools{}, []error{errors.New("no CPU is online")}
	}
	r := resolver{topology: t}
	asked := s.pools(t)
	s.Partitions, s.Units, s.Guaranteed.Overrides = slices.Clone(s.Partitions), slices.Clone(s.Units), slices.Clone(s.Guaranteed.Overrides)
	if s.Shared != nil {
		s.Shared = new(*s.Shared)
	}
	r.adaptSpec(&s)
	r.adaptLists(&s)
	if s.Shared != nil && s.Shared.IsEmpty() {
		s.Shared = nil
	}
	if s.pools(t).Shared.IsEmpty() {
		r.makeRoom(&s)
	}
	r.dropEmpty(&s)
	r.dropUnits(&s)
	r.adaptFloor(&s)
	r.checkInfra(s) // they are in the shared pool then
	p := s.pools(t)
	p.Offline, p.Away, p.Claims.Away = asked.Offline, asked.Away, asked.Claims.Away
	r.checkCapacity(s, p)
	return p, r.problems
}

// adaptSpec removes the errors of s that do not depend on the machine.
func (r *resolver) adaptSpec(s *Spec) {
	whole := resolver{topology: r.topology}
	if whole.checkGuaranteed(s.Guaranteed); len(whole.problems) > 0 {
		r.problems = append(r.problems, whole.problems...)
		s.Guaranteed = Guaranteed{CPUs: s.Guaranteed.CPUs, FromShared: s.Guaranteed.FromShared && s.Guaranteed.CPUs.IsEmpty(),
			Claims: s.Guaranteed.Claims}
	}
	var valid []Partition
	r.numbers = []int{}
	for i, p := range s.Partitions {
		one := resolver{topology: r.topology, numbers: append(slices.Clone(r.numbers), i)}
		one.checkPartition(len(valid), append(slices.Clone(valid), p))
		r.problems = append(r.problems, one.problems...)
		if len(one.problems) == 0 {
			valid, r.numbers = append(valid, p), one.numbers
		}
	}
	s.Partitions = valid
}

// adaptLists removes the CPUs that the machine does not run. A CPU in two lists stays in the first
// list only.
func (r *resolver) adaptLists(s *Spec) {
	var taken cpuset.Set
	for _, l := range r.lists(s) {
		had := *l.cpus
		if l.auto && had.IsEmpty() {
			continue
		}
		r.checkPresent(l, "; the others count")
		if twice := had.Intersection(taken); !twice.IsEmpty() {
			r.report(l.field, had.String(), "CPU %s is in another pool too, and counts there", twice)
		}
		*l.cpus = had.Intersection(r.topology.Online).Difference(taken)
		taken = taken.Union(*l.cpus)
		switch {
		case !l.cpus.IsEmpty():
		case had.Overlaps(r.topology.Online):
			r.report(l.field, had.String(), "other pools have all of these CPUs that are online; the pool is empty")
		default:
			r.report(l.field, had.String(), "none of these CPUs is there and online; the pool is empty")
		}
	}
	r.checkWholeCores(s.Guaranteed) // devices leave out incomplete cores
	r.adaptMixed(s)
}

// adaptMixed leaves out CPUs that the machine does not have or that an owner may have. CPUs
// that are offline remain.
func (r *resolver) adaptMixed(s *Spec) {
	had := s.Guaranteed.Mixed.CPUs
	r.checkPresent(list{field: mixedCPUsKey, cpus: &had}, "; the others count")
	for _, other := range []list{{field: guaranteedKey, cpus: &s.Guaranteed.CPUs}, {field: claimCPUsKey, cpus: &s.Guaranteed.Claims.CPUs}} {
		if owned := had.Intersection(*other.cpus); !owned.IsEmpty() {
			r.report(mixedCPUsKey, had.String(), "CPU %s is in %s too, and counts there", owned, other.field)
		}
	}
	s.Guaranteed.Mixed.CPUs = had.Intersection(r.topology.Present).Difference(s.Guaranteed.CPUs.Union(s.Guaranteed.Claims.CPUs))
}

// makeRoom finds CPUs for an empty shared pool. CPUs of the partitions have no owners. Of
// the guaranteed pool it takes the last CPU, because owners get CPUs from the lower end
// first. If only claims have CPUs, it takes the last CPU of theirs.
func (r *resolver) makeRoom(s *Spec) {
	s.Shared = nil
	var partitions cpuset.Set
	for _, p := range s.Partitions {
		partitions = partitions.Union(p.CPUs)
	}
	if !partitions.IsEmpty() {
		s.StrictReservation = false
		r.report(sharedKey, "", "the other pools leave no online CPU of %s; it runs on %s %s together with the partitions", r.topology.Online, noun(partitions.Len()), partitions)
		return
	}
	from, key := &s.Guaranteed.CPUs, guaranteedKey
	if from.IsEmpty() {
		from, key = &s.Guaranteed.Claims.CPUs, claimCPUsKey
	}
	one := cpuset.Of(from.Last())
	*from = from.Difference(one)
	r.report(sharedKey, "", "the other pools leave no online CPU of %s; it gets CPU %s of %s", r.topology.Online, one, key)
}

// dropEmpty leaves out the partitions that have no CPU.
func (r *resolver) dropEmpty(s *Spec) {
	all := r.topology.Online.Difference(s.Guaranteed.CPUs.Union(s.Guaranteed.Claims.CPUs))
	s.Partitions = slices.DeleteFunc(s.Partitions, func(p Partition) bool {
		if empty := p.All && all.IsEmpty() || !p.All && p.CPUs.IsEmpty(); !empty {
			return false
		}
		r.report("partitions", p.Type, "has no CPU on this machine; its pods are placed like any others")
		return true
	})
}

// adaptFloor lowers a floor that leaves no CPU of the shared pool for owners.
func (r *resolver) adaptFloor(s *Spec) {
	p := s.pools(r.topology)
	shared := p.Shared.Len()
	if !p.FromShared || s.Guaranteed.FloorPercent > 0 || p.Floor == 0 || p.Floor < shared {
		return
	}
	s.Guaranteed.Floor = max(shared/2, 1)
	r.report(floorKey, strconv.Itoa(p.Floor), "the shared pool has %d %s; it keeps %d", shared, noun(shared), s.Guaranteed.Floor)
}

// dropUnits leaves out invalid units; units without their pool run in the
// shared pool.
func (r *resolver) dropUnits(s *Spec) {
	units := s.Units
	s.Units = nil
	for _, u := range units {
		s.Units = append(s.Units, u)
		one := resolver{topology: r.topology}
		one.checkUnit(len(s.Units)-1, *s)
		if len(one.problems) == 0 {
			continue
		}
		r.problems = append(r.problems, one.problems...)
		s.Units[len(s.Units)-1] = pools.UnitSpec{Name: u.Name, Pool: string(pools.Shared)}
		one.problems = nil
		if one.checkUnit(len(s.Units)-1, *s); len(one.problems) > 0 {
			s.Units = s.Units[:len(s.Units)-1]
		}
	}
}
