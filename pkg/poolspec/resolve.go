package poolspec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Keys of the configuration file, as they appear in errors.
const (
	sharedKey     = "shared.cpus"
	guaranteedKey = "guaranteed.cpus"
	fromKey       = "guaranteed.from"
	floorKey      = "guaranteed.floor"
	optionsKey    = "guaranteed.options"
	overridesKey  = "guaranteed.overrides"
	podLevelKey   = "guaranteed.podLevel"
	unitsKey      = "units"
	infraKey      = "infraContainers"
	claimsKey     = "guaranteed.claims"
	claimCPUsKey  = "guaranteed.claims.cpus"

	mixedKey           = "guaranteed.mixed"
	mixedCPUsKey       = "guaranteed.mixed.cpus"
	mixedNamespacesKey = "guaranteed.mixed.namespaces"
)

// Resolve applies s to a machine. CPUs that are present but offline are left
// out of the pools. The error joins one *FieldError for each problem. Examples are absent
// CPUs, CPUs in two pools, pools without an online CPU, invalid units, and
// contradictory options.
func (s Spec) Resolve(t *topology.Topology) (pools.Pools, error) {
	s = s.On(t)
	r := resolver{topology: t}
	lists := r.lists(&s)
	for i, l := range lists {
		r.checkList(l, lists[:i]...)
	}
	for i := range s.Partitions {
		r.checkPartition(i, s.Partitions)
	}
	r.checkGuaranteed(s.Guaranteed)
	for i := range s.Units {
		r.checkUnit(i, s)
	}
	r.checkInfra(s)
	if mixed := &s.Guaranteed.Mixed.CPUs; !mixed.IsEmpty() { // it may be part of another pool
		r.checkList(list{field: mixedCPUsKey, cpus: mixed},
			list{field: guaranteedKey, cpus: &s.Guaranteed.CPUs}, list{field: claimCPUsKey, cpus: &s.Guaranteed.Claims.CPUs})
	}
	r.checkWholeCores(s.Guaranteed)
	p := s.pools(t)
	if s.Shared == nil && p.Shared.IsEmpty() {
		r.report(sharedKey, "rest", "the other pools leave no online CPU of %s; take some from them", t.Online)
	}
	for i, spec := range s.Partitions {
		if spec.All && s.Guaranteed.CPUs.Union(s.Guaranteed.Claims.CPUs).Intersection(t.Online).Equal(t.Online) {
			r.report(r.partitionKey(i, "cpus"), "all", "the guaranteed pool has all online CPUs %s; take some from it", t.Online)
		}
	}
	r.checkCapacity(s, p)
	if len(r.problems) > 0 {
		return pools.Pools{}, errors.Join(r.problems...)
	}
	return p, nil
}

// pools returns the pools of s on a machine, also if s has errors.
func (s Spec) pools(t *topology.Topology) pools.Pools {
	var taken, reserved cpuset.Set
	for _, l := range new(resolver).lists(&s) {
		taken = taken.Union(*l.cpus)
	}
	for _, spec := range s.Partitions {
		reserved = reserved.Union(spec.CPUs)
	}
	never := s.Guaranteed.Mixed.CPUs
	p := pools.Pools{
		Guaranteed: s.Guaranteed.CPUs.Intersection(t.Online),
		FromShared: s.Guaranteed.FromShared,
		Kubelet:    s.Guaranteed.Kubelet,
		Options:    s.Guaranteed.Options,
		Overrides:  slices.Clone(s.Guaranteed.Overrides),
		BindMemory: s.Guaranteed.BindMemory, PodLevel: s.Guaranteed.PodLevel,
		Units:   slices.Clone(s.Units),
		Offline: taken.Union(never).Intersection(t.Present).Difference(t.Online),
		Away:    s.Guaranteed.CPUs,
	}
	if p.Shared = t.Online.Difference(taken); s.Shared != nil {
		p.Shared = s.Shared.Intersection(t.Online)
	}
	if p.FromShared {
		p.Guaranteed = p.Shared
		if p.Away = t.Present.Difference(taken); s.Shared != nil {
			p.Away = *s.Shared
		}
	}
	p.Away = p.Away.Intersection(t.Present).Difference(t.Online)
	p.Claims = pools.ClaimPool{
		CPUs: s.Guaranteed.Claims.CPUs.Intersection(t.Online), Lend: s.Guaranteed.Claims.Lend,
		Away: s.Guaranteed.Claims.CPUs.Intersection(t.Present).Difference(t.Online),
	}
	p.Guaranteed, p.Away = p.Guaranteed.Difference(never), p.Away.Difference(never)
	p.Mixed = pools.Mixed{Shared: s.Guaranteed.Mixed.Shared, CPUs: never.Intersection(t.Online), Namespaces: slices.Clone(s.Guaranteed.Mixed.Namespaces)}
	if s.hasInfra() {
		p.Infra = s.Infra
	}
	if !s.StrictReservation {
		p.Shared = p.Shared.Union(reserved.Intersection(t.Online))
	}
	if p.Floor = s.Guaranteed.Floor; s.Guaranteed.FloorPercent > 0 {
		p.Floor = max((p.Shared.Len()*s.Guaranteed.FloorPercent+99)/100, 1)
	}
	for _, spec := range s.Partitions {
		cpus := spec.CPUs.Intersection(t.Online)
		if spec.All {
			cpus = t.Online.Difference(p.Claims.CPUs)
			if !p.FromShared {
				cpus = cpus.Difference(p.Guaranteed)
			}
		}
		p.Partitions = append(p.Partitions, pools.Partition{Type: spec.Type, CPUs: cpus, Namespaces: slices.Clone(spec.Namespaces)})
	}
	slices.SortFunc(p.Partitions, func(a, b pools.Partition) int { return cmp.Compare(a.Type, b.Type) })
	slices.SortFunc(p.Units, func(a, b pools.UnitSpec) int { return cmp.Compare(a.Name, b.Name) })
	return p
}

// list is a pool that the configuration gives as a list of CPUs, or as auto.
type list struct {
	field string
	cpus  *cpuset.Set // in the Spec
	auto  bool
}

// lists returns the pools with a list, in the order of the configuration.
func (r *resolver) lists(s *Spec) []list {
	var lists []list
	for i := range s.Partitions {
		if p := &s.Partitions[i]; !p.All {
			lists = append(lists, list{r.partitionKey(i, "cpus"), &p.CPUs, p.Auto})
		}
	}
	if s.Shared != nil {
		lists = append(lists, list{field: sharedKey, cpus: s.Shared})
	}
	if !s.Guaranteed.CPUs.IsEmpty() {
		lists = append(lists, list{field: guaranteedKey, cpus: &s.Guaranteed.CPUs})
	}
	if !s.Guaranteed.Claims.CPUs.IsEmpty() {
		lists = append(lists, list{field: claimCPUsKey, cpus: &s.Guaranteed.Claims.CPUs})
	}
	return lists
}

type resolver struct {
	topology *topology.Topology
	// numbers holds the index of each partition in the configuration. It is nil if no partition
	// was left out, so that both indices are equal.
	numbers  []int
	problems []error
}

// number returns the index of partition i in the configuration.
func (r *resolver) number(i int) int {
	if r.numbers == nil {
		return i
	}
	return r.numbers[i]
}

func (r *resolver) partitionKey(i int, key string) string {
	return fmt.Sprintf("partitions[%d].%s", r.number(i), key)
}

func (r *resolver) report(field, value, format string, args ...any) {
	r.problems = append(r.problems, &FieldError{field, value, fmt.Sprintf(format, args...)})
}

// checkPresent reports CPUs that the machine lacks.
func (r *resolver) checkPresent(l list, effect string) {
	if absent := l.cpus.Difference(r.topology.Present); !absent.IsEmpty() {
		r.report(l.field, l.cpus.String(), "the machine has no CPU %s; it has %s%s", absent, r.topology.Present, effect)
	}
}

// checkList reports CPUs that the machine lacks or that another list has, and a list without an
// online CPU.
func (r *resolver) checkList(l list, others ...list) {
	r.checkPresent(l, "")
	for _, other := range others {
		if both := l.cpus.Intersection(*other.cpus); !both.IsEmpty() {
			r.report(l.field, l.cpus.String(), "CPU %s is in %s too; take it out of one of them", both, other.field)
		}
	}
	switch {
	case !l.cpus.IsSubsetOf(r.topology.Present):
	case l.cpus.IsEmpty() && l.auto:
		r.report(l.field, "auto", "the other pools leave no online CPU of %s for it; take some from them", r.topology.Online)
	case l.cpus.IsEmpty():
		r.report(l.field, "", "no CPU; write a list like 0-3,8")
	case !l.cpus.Overlaps(r.topology.Online):
		r.report(l.field, l.cpus.String(), "none of these CPUs is online; bring one online or choose from %s", r.topology.Online)
	}
}

// checkCapacity reports a guaranteed pool that can never allocate a CPU, because of the floor or the partitions,
// and units that request more CPUs than the pool has. Offline CPUs count: the plan reports missing CPUs.
func (r *resolver) checkCapacity(s Spec, p pools.Pools) {
	room := s.Guaranteed.CPUs.Len()
	if s.Guaranteed.FromShared {
		var offline cpuset.Set
		if s.Shared != nil {
			offline = s.Shared.Difference(r.topology.Online)
		}
		shared := p.Shared.Len() + offline.Len()
		own := p.Guaranteed.Len() + offline.Difference(s.Guaranteed.Mixed.CPUs).Len()
		room = max(min(shared-max(p.Floor, 1), own), 0)
		switch {
		case room > 0 || p.Shared.IsEmpty():
		case own == 0 && p.Mixed.CPUs.Overlaps(p.Shared):
			r.report(mixedCPUsKey, s.Guaranteed.Mixed.CPUs.String(), "the shared pool has no other CPUs, and these never become exclusive; leave it some")
			return
		case own == 0:
			r.report(fromKey, "shared", "the partitions have all CPUs, and theirs never become exclusive; leave some to the shared pool")
			return
		case s.Guaranteed.FloorPercent > 0: // the plan refuses each request
		default:
			r.report(floorKey, strconv.Itoa(s.Guaranteed.Floor), "the shared pool has %d %s and would never give one away; lower the floor or enlarge the pool", shared, noun(shared))
			return
		}
	}
	asked := 0
	for _, u := range s.Units {
		asked += max(u.CPUs, 0)
	}
	if asked > room {
		r.report(unitsKey, strconv.Itoa(asked), "units request %d %s, and the guaranteed pool has %d; enlarge the pool, or request fewer", asked, noun(asked), room)
	}
}

// noun returns the noun for a number of CPUs.
func noun(n int) string {
	if n == 1 {
		return "CPU"
	}
	return "CPUs"
}
