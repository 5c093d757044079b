package size

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// variant is another size of a pool of a kind.
type variant struct {
	key, was, value string
	spec            poolspec.Spec
	// owned, shared and guaranteed are differences in CPUs: that pods can own, and of the resources
	// of the two pools.
	owned, shared, guaranteed int
	bound                     estimate
}

// mostProved is the number of sizes of a pool that are packed.
const mostProved = 3

// savings tries other sizes of the pools of each kind, one pool at a time. Lower bounds select a few
// sizes, and packings prove them. Of equal bounds it selects the size that changes least. tried are
// the keys of all pools that were compared.
func (p *packing) savings() (all []Saving, tried []string, err error) {
	for i, k := range p.kinds {
		now, present, owned := p.on(k), p.present(k), p.wanted(k)
		for _, variants := range [][]variant{k.floors(), k.lists(), p.managements(k)} {
			for j := range variants {
				v := &variants[j]
				if pool := fmt.Sprintf("%s of %s", v.key, k.Name); !slices.Contains(tried, pool) {
					tried = append(tried, pool)
				}
				v.bound = p.estimate(now, p.amounts(k, v), k.allocatable+v.owned, owned)
			}
			variants = slices.DeleteFunc(variants, func(v variant) bool { return v.bound.compare(present) >= 0 })
			slices.SortStableFunc(variants, func(a, b variant) int { return a.bound.compare(b.bound) })
			var best *Saving
			for j := range min(len(variants), mostProved) {
				s, err := p.prove(i, &variants[j])
				if err != nil {
					return nil, nil, err
				}
				if s != nil && (best == nil || s.compare(best) < 0) {
					best = s
				}
			}
			if best != nil {
				all = append(all, *best)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Saving) int { return a.compare(&b) })
	return all, tried, nil
}

// compare is negative if s is better.
func (s *Saving) compare(other *Saving) int {
	return cmp.Or(cmp.Compare(s.Unplaced, other.Unplaced), cmp.Compare(s.Nodes, other.Nodes))
}

// prove packs the pods with another size of a pool. It returns nil if that is not better.
func (p *packing) prove(i int, v *variant) (*Saving, error) {
	kinds := slices.Clone(p.in.Kinds)
	c := *kinds[i].Config
	c.Pools = v.spec
	kinds[i].Config = &c
	other, err := p.pack(kinds, "pods packed with other pools")
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", v.key, v.value, err)
	}
	s := &Saving{
		Machine: kinds[i].Name, Key: v.key, Was: v.was, Value: v.value, Nodes: len(other.nodes), Saved: len(p.nodes) - len(other.nodes), Unplaced: other.left(),
	}
	if s.compare(&Saving{Nodes: len(p.nodes), Unplaced: p.left()}) >= 0 {
		return nil, nil //nolint:nilnil // there is no saving
	}
	return s, nil
}

// left returns the number of pods that fit on no kind.
func (p *packing) left() (n int) {
	for _, s := range p.unplaced {
		n += len(s.pods)
	}
	return n
}

// on returns the load of a kind: the pods on its nodes, and the pods that only lack an amount.
func (p *packing) on(k *kind) load {
	l := loadOf(p.nodesOf(k))
	for _, s := range p.lacking(k) {
		l = append(l, counted{s, len(s.pods)})
	}
	return l
}

func (p *packing) nodesOf(k *kind) []*node {
	return slices.DeleteFunc(slices.Clone(p.nodes), func(n *node) bool { return n.kind != k })
}

// lacking returns the shapes that fit on no kind, and that the labels and taints of k allow.
func (p *packing) lacking(k *kind) []*shape {
	return slices.DeleteFunc(slices.Clone(p.unplaced), func(s *shape) bool { return s.refused != "" || k.mismatch(s) != "" })
}

// present returns the number of nodes of a kind, and of pods that lack an amount of them.
func (p *packing) present(k *kind) estimate {
	e := estimate{nodes: len(p.nodesOf(k))}
	for _, s := range p.lacking(k) {
		e.tooLarge += len(s.pods)
	}
	return e
}

// wanted returns the function for the number of CPUs that a pod owns on nodes of a kind. Of a pod
// that fits on none it is the number of CPUs that it requests.
func (p *packing) wanted(k *kind) func(*shape) int {
	return func(s *shape) int {
		if t, tried := k.trials[s]; tried && t.reason == "" {
			return t.owned
		}
		return s.wants
	}
}

// amounts returns the function for the amounts of an empty node with another size of a pool.
func (p *packing) amounts(k *kind, v *variant) func(r int) int64 {
	shared, guaranteed := p.table.index[p.names.SharedResource()], p.table.index[p.names.GuaranteedResource()]
	return func(r int) int64 {
		n := k.empty.of(r)
		switch r {
		case podsAt, cpuAt:
		case shared:
			n += int64(v.shared) * 1000
		case guaranteed:
			n += int64(v.guaranteed) * 1000
		}
		return n
	}
}

// floors returns lower floors of a shared pool that gives its CPUs away, the highest first.
func (k *kind) floors() (all []variant) {
	if !k.pools.FromShared {
		return nil
	}
	now := max(k.pools.Floor, 1)
	was := fmt.Sprint(now)
	if percent := k.Config.Pools.Guaranteed.FloorPercent; percent > 0 {
		was = fmt.Sprintf("%d%%", percent)
	}
	for floor := now - 1; floor >= 1; floor-- {
		v := variant{key: "guaranteed.floor", was: was, value: fmt.Sprint(floor), spec: k.Config.Pools, owned: now - floor}
		v.spec.Guaranteed.Floor, v.spec.Guaranteed.FloorPercent = floor, 0
		all = append(all, v)
	}
	return all
}

// lists returns guaranteed pools with more and with fewer CPUs. Whole cores leave the shared pool
// from its end, and return to it from the beginning of the guaranteed pool.
func (k *kind) lists() (all []variant) {
	guaranteed := k.Config.Pools.Guaranteed.CPUs
	if guaranteed.IsEmpty() || k.pools.Kubelet {
		return nil
	}
	shared := k.pools.Shared
	for _, p := range k.pools.Partitions {
		if !p.CPUs.Equal(k.Topology.Online) {
			shared = shared.Difference(p.CPUs)
		}
	}
	add := func(owns, shares cpuset.Set) {
		v := variant{key: "guaranteed.cpus", was: guaranteed.String(), value: owns.String(), spec: k.Config.Pools}
		v.owned = owns.Len() - guaranteed.Len()
		v.guaranteed, v.shared = v.owned, -v.owned
		v.spec.Guaranteed.CPUs = owns
		if k.Config.Pools.Shared != nil {
			v.spec.Shared = &shares
			v.value += ", shared.cpus: " + shares.String()
		}
		all = append(all, v)
	}
	cores := k.Topology.Cores
	owns, shares := guaranteed, shared
	for _, c := range slices.Backward(cores) {
		if core := c.CPUs; core.IsSubsetOf(shares) && shares.Len() > core.Len() {
			owns, shares = owns.Union(core), shares.Difference(core)
			add(owns, shares)
		}
	}
	owns, shares = guaranteed, shared
	for i := range cores {
		if core := cores[i].CPUs; core.IsSubsetOf(owns) && owns.Len() > core.Len() {
			owns, shares = owns.Difference(core), shares.Union(core)
			add(owns, shares)
		}
	}
	slices.SortStableFunc(all, func(a, b variant) int { return cmp.Compare(max(a.owned, -a.owned), max(b.owned, -b.owned)) })
	return all
}

// managements returns management pools with fewer CPUs, which the shared pool gets. Each has
// enough CPUs for the requests of its pods on the fullest node.
func (p *packing) managements(k *kind) (all []variant) {
	if k.Config.Pools.Shared != nil {
		return nil
	}
	spec := k.Config.Pools.On(k.Topology)
	for i, part := range spec.Partitions {
		least := max(p.peak(k, part.Type), 1)
		var kept cpuset.Set
		for _, core := range k.Topology.Cores {
			if cpus := core.CPUs.Intersection(part.CPUs); kept.Len() < least {
				kept = kept.Union(cpus)
			}
		}
		freed := part.CPUs.Len() - kept.Len()
		if part.All || freed <= 0 || kept.IsEmpty() {
			continue
		}
		was := part.CPUs.String()
		if part.Auto {
			was = "auto"
		}
		v := variant{key: fmt.Sprintf("partitions[%s].cpus", part.Type), was: was, value: kept.String(), spec: k.Config.Pools}
		v.spec.Partitions = slices.Clone(v.spec.Partitions)
		v.spec.Partitions[i].CPUs, v.spec.Partitions[i].Auto = kept, false
		if k.Config.Pools.StrictReservation {
			v.shared = freed
		}
		if k.pools.FromShared {
			v.owned = freed
		}
		if v.owned+v.shared > 0 {
			all = append(all, v)
		}
	}
	return all
}

// peak returns the number of CPUs that the pods of a workload type request on the fullest node.
func (p *packing) peak(k *kind, typ string) int {
	most := int64(0)
	for _, n := range p.nodesOf(k) {
		most = max(most, n.managed()[typ])
	}
	return int((most + 999) / 1000)
}

// managed returns the CPU requests of the pods of each workload type, in thousandths.
func (n *node) managed() map[string]int64 {
	sums := make(map[string]int64)
	for _, pod := range n.all() {
		sums[pod.shape.managed] += pod.shape.cpu
	}
	return sums
}

// all returns the pods. The pods of DaemonSets are first.
func (n *node) all() (all []placed) {
	for _, s := range n.kind.daemons {
		all = append(all, placed{s.pods[0], s})
	}
	return append(all, n.pods...)
}
