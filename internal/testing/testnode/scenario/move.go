package scenario

import (
	"math/rand/v2"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Move is the request of a MoveOwner step.
type Move struct {
	Owner    pools.Key
	From, To cpuset.Set
	// Taken reports whether another owner has some of To, so that the daemon must refuse.
	Taken bool
}

// MoveOf returns a move of a random owner to the same number of guaranteed CPUs. Most targets are
// free or its own CPUs, some belong to other owners. It returns false if the plan has no owner.
func MoveOf(s Step, plan pools.Plan, on pools.Pools) (Move, bool) {
	owners := slices.DeleteFunc(slices.Clone(plan.Assignments), func(a pools.Assignment) bool { return a.Container == "" })
	if len(owners) == 0 {
		return Move{}, false
	}
	r := rand.New(rand.NewPCG(s.Pick, 0)) //nolint:gosec // to be repeatable is the point
	a := owners[r.IntN(len(owners))]
	m := Move{Owner: a.Key, From: a.CPUs}
	from := on.Guaranteed
	if r.IntN(4) > 0 {
		from = plan.Free.Union(a.CPUs)
	}
	var cpus []int
	for cpu := range from.All() {
		cpus = append(cpus, cpu)
	}
	r.Shuffle(len(cpus), func(i, j int) { cpus[i], cpus[j] = cpus[j], cpus[i] })
	m.To = cpuset.Of(cpus[:min(a.CPUs.Len(), len(cpus))]...)
	for _, other := range plan.Assignments {
		m.Taken = m.Taken || other.Key != a.Key && other.CPUs.Overlaps(m.To)
	}
	return m, true
}

// Moved records a move. certain reports whether it was made; a killed daemon may or may not have
// podCount it.
func (p *Pods) Moved(m Move, certain bool) {
	key := m.Owner.PodUID + "/" + m.Owner.Container
	if m.Owner.IsUnit() {
		key = "unit" + key
	}
	o, known := p.owners[key]
	switch {
	case !known:
		return
	case certain:
		o.cpus = m.To
	default:
		o.possible = m.To
	}
	p.owners[key] = o
}
