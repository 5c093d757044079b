package kubelet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// request is one question to both.
type request struct {
	shape    shape
	table    choice.Table
	topology *topology.Topology
	options  map[string]string
	// free and reserved are disjoint.
	free, reserved cpuset.Set
	hint           []int
	count          int
}

// anyRequest makes up a state of the machine and a request.
func (s shape) anyRequest(r *rand.Rand) (request, error) {
	table := s.table()
	t, err := table.Topology()
	if err != nil {
		return request{}, err
	}
	q := request{shape: s, table: table, topology: t, options: anyOptions(r, s)}
	q.reserved = anyReserved(r, t)
	q.free = anyFree(r, t, q.reserved, q.options["full-pcpus-only"] == "true")
	if r.IntN(4) == 0 {
		q.hint = []int{r.IntN(len(t.Nodes))}
		if other := r.IntN(len(t.Nodes)); r.IntN(3) == 0 && other != q.hint[0] {
			q.hint = append(q.hint, other)
		}
	}
	// Now and then more than there are.
	q.count = 1 + r.IntN(max(1, q.free.Len()+r.IntN(3)))
	if r.IntN(2) == 0 {
		q.count = 1 + r.IntN(min(q.count, 16))
	}
	if threads := t.ThreadsPerCore(); r.IntN(3) > 0 {
		q.count = (q.count + threads - 1) / threads * threads
	}
	return q, nil
}

// anyOptions is a set of options that the kubelet starts with on the machine.
func anyOptions(r *rand.Rand, s shape) map[string]string {
	o := map[string]string{}
	set := func(name string, in int) {
		if r.IntN(in) == 0 {
			o[name] = "true"
		}
	}
	switch r.IntN(8) {
	case 0:
		o["distribute-cpus-across-cores"] = "true"
	case 1, 2:
		o["prefer-align-cpus-by-uncorecache"] = "true"
		set("full-pcpus-only", 2)
	case 3, 4:
		o["distribute-cpus-across-numa"] = "true"
		set("full-pcpus-only", 2)
	default:
		set("full-pcpus-only", 2)
	}
	if s.shared == 1 {
		set("align-by-socket", 6)
	}
	return o
}

// anyReserved is nothing, some whole cores, or any few CPUs.
func anyReserved(r *rand.Rand, t *topology.Topology) cpuset.Set {
	switch r.IntN(4) {
	case 0:
		return cpuset.Of(t.CPUs[r.IntN(len(t.CPUs))].ID)
	case 1, 2:
		return t.Cores[0].CPUs
	}
	return cpuset.Set{}
}

// anyFree removes the reserved and the taken CPUs from the machine. It removes whole
// cores only, if an option requires it. Some CPUs stay.
func anyFree(r *rand.Rand, t *topology.Topology, reserved cpuset.Set, wholeCores bool) cpuset.Set {
	free := t.Online.Difference(reserved)
	busy := []float64{0, 0.2, 0.5, 0.5, 0.8}[r.IntN(5)]
	style := r.IntN(3)
	for _, node := range t.Nodes {
		if style == 0 && r.Float64() < busy { // a node that is full
			free = free.Difference(node.CPUs)
		}
	}
	for _, core := range t.Cores {
		if style == 1 && r.Float64() < busy && core.CPUs.Intersection(reserved).IsEmpty() {
			free = free.Difference(core.CPUs)
		}
	}
	if style == 2 && !wholeCores {
		for cpu := range free.All() {
			if r.Float64() < busy {
				free = free.Difference(cpuset.Of(cpu))
			}
		}
	}
	if free.IsEmpty() {
		return t.Online.Difference(reserved)
	}
	return free
}

// loops reports whether the kubelet 1.37.0 never returns for a request, or takes
// minutes. It distributes the rest of an uneven division over NUMA nodes in whole
// cores, and waits for cores that parts of cores do not make. Later versions have a fix
// (https://github.com/kubernetes/kubernetes/pull/140730). It takes minutes when it
// tries all combinations of NUMA nodes, and for each all subsets.
func (q request) loops() bool {
	if q.options["distribute-cpus-across-numa"] != "true" {
		return false
	}
	if len(q.topology.Nodes) > 8 {
		return true
	}
	if q.options["full-pcpus-only"] != "true" {
		return false
	}
	return slices.ContainsFunc(q.topology.Cores, func(core topology.Group) bool {
		n := core.CPUs.Intersection(q.free).Len()
		return n > 0 && n != q.topology.ThreadsPerCore()
	})
}

// deadline is a multiple of the time of the slowest request.
const deadline = time.Minute

// ask puts the request to the kubelet. A refusal is an error.
func (q request) ask() (cpuset.Set, error) {
	p, err := newPolicy(q.table, q.options, q.free, q.reserved, q.hint)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("start the kubelet's policy: %w", err)
	}
	type answer struct {
		set cpuset.Set
		err error
	}
	done := make(chan answer, 1)
	go func() {
		set, err := p.allocate(guaranteed(q.count))
		done <- answer{set, err}
	}()
	select {
	case a := <-done:
		return a.set, refused(a.err)
	case <-time.After(deadline):
		return cpuset.Set{}, fmt.Errorf("the kubelet has not answered in %s: another endless loop?", deadline)
	}
}

// refusal is the kubelet's answer that it cannot satisfy a request.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refused(err error) error {
	if err == nil {
		return nil
	}
	return refusal{err}
}
