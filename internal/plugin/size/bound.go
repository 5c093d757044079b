package size

import (
	"cmp"
	"math"
)

// exclusiveCPUs is the name of the amount of CPUs that pods own. It is not a resource of the
// scheduler.
const exclusiveCPUs = "exclusive CPUs"

// load is a number of pods of each shape, in order.
type load []counted

type counted struct {
	*shape
	count int
}

// estimate is a lower bound of the number of nodes for a load.
type estimate struct {
	// tooLarge is the number of pods that are larger than an empty node. nodes is for all others.
	tooLarge, nodes int
	// resource is the name of the amount that decides.
	resource string
}

func (e estimate) compare(other estimate) int {
	return cmp.Or(cmp.Compare(e.tooLarge, other.tooLarge), cmp.Compare(e.nodes, other.nodes))
}

// estimate returns the bound for nodes with these amounts, of which pods can own a number of CPUs.
// Each node has at most one pod that requests more than half of an amount.
func (d *demand) estimate(l load, empty func(r int) int64, allocatable int, owned func(*shape) int) estimate {
	var e estimate
	var all load
	for _, c := range l {
		fits := owned(c.shape) <= allocatable
		for r, n := range c.requests {
			fits = fits && n <= empty(r)
		}
		if fits {
			all = append(all, c)
		} else {
			e.tooLarge += c.count
		}
	}
	consider := func(name string, has int64, of func(*shape) int64) {
		sum, large := int64(0), 0
		for _, c := range all {
			n := of(c.shape)
			sum += n * int64(c.count)
			if n > has/2 && n > has-n {
				large += c.count
			}
		}
		if has <= 0 || has == math.MaxInt64 {
			return
		}
		if n := max(int((sum+has-1)/has), large); n > e.nodes {
			e.nodes, e.resource = n, name
		}
	}
	consider(exclusiveCPUs, int64(allocatable), func(s *shape) int64 { return int64(owned(s)) })
	for r, name := range d.table.names {
		consider(string(name), empty(r), func(s *shape) int64 { return s.requests.of(r) })
	}
	return e
}

// bound returns the lower bound for the pods that are placed: no packing has fewer nodes.
func (p *packing) bound() Bound {
	allocatable := 0
	for _, k := range p.kinds {
		allocatable = max(allocatable, k.allocatable)
	}
	owned := func(s *shape) int {
		least := math.MaxInt
		for _, k := range p.kinds {
			if t, tried := k.trials[s]; !tried {
				return 0
			} else if t.reason == "" {
				least = min(least, t.owned)
			}
		}
		return least
	}
	e := p.estimate(loadOf(p.nodes), p.most, allocatable, owned)
	return Bound{Nodes: e.nodes, Resource: e.resource}
}

func loadOf(nodes []*node) (l load) {
	at := make(map[*shape]int)
	for _, n := range nodes {
		for _, pod := range n.pods {
			i, known := at[pod.shape]
			if !known {
				i, at[pod.shape] = len(l), len(l)
				l = append(l, counted{shape: pod.shape})
			}
			l[i].count++
		}
	}
	return l
}
