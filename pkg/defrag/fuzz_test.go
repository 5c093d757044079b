package defrag_test

import (
	"flag"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

var scenes = flag.Int("scenes", 300, "number of random scenes in TestScenes")

// checkReport checks a report against the rules of docs/how-to/defragment.md.
func checkReport(t *testing.T, s *scene, r defrag.Report) {
	t.Helper()
	in := s.Input
	in.Owners = append([]pools.Owner(nil), in.Owners...)
	for i, m := range r.Moves {
		before := defrag.Analyse(in)
		if err := defrag.Check(in, m.Key(), m.From, m.To); err != nil {
			t.Fatalf("move %d: %s %v", i, m.Full(), err)
		}
		for j := range in.Owners {
			if in.Owners[j].Key == m.Key() {
				in.Owners[j].CPUs = m.To
			}
		}
		checkDisjoint(t, in)
		after := defrag.Analyse(in)
		for j := range before.Owners {
			was, is := before.Owners[j].Now, after.Owners[j].Now
			if is.SharedCores > was.SharedCores && before.Owners[j].Key() != m.Key() {
				t.Errorf("move %d of %s gives %s a neighbour in a core: %+v, was %+v", i, m.Full(), before.Owners[j].Full(), is, was)
			}
			if before.Owners[j].Key() == m.Key() {
				checkMove(t, s, m, was, is)
			}
		}
	}
	last := defrag.Analyse(in)
	if diff := cmp.Diff(r.Room.After, last.Room.Now); diff != "" {
		t.Errorf("room after all moves (-report +then):\n%s", diff)
	}
	if diff := cmp.Diff(r.Excess.After, last.Excess.Now); diff != "" {
		t.Errorf("excess after all moves (-report +then):\n%s", diff)
	}
	if len(last.Moves) > 0 && !r.Bounded {
		t.Errorf("moves after all moves = %v; want none", last.Moves)
	}
}

func checkMove(t *testing.T, s *scene, m defrag.Move, was, is defrag.Shape) {
	t.Helper()
	if diff := cmp.Diff([]defrag.Shape{was, is}, []defrag.Shape{m.Now, m.Then}); diff != "" {
		t.Errorf("%s: shapes of the move (-then +reported):\n%s", m.Full(), diff)
	}
	i := s.index(m.Key())
	options := s.Owners[i].Options
	if is.Nodes > was.Nodes || is.Packages > was.Packages || is.L3Groups > was.L3Groups || is.RemoteCPUs > was.RemoteCPUs ||
		is.SplitCores > was.SplitCores {
		t.Errorf("%s: %s → %s = %+v; want nothing above %+v", m.Full(), m.From, m.To, is, was)
	}
	if options == (allocate.Options{}) && is == was && !m.MakesRoom {
		t.Errorf("%s: %s → %s has no effect; want a lower cost", m.Full(), m.From, m.To)
	}
	if !m.ToNodes.IsSubsetOf(m.FromNodes) && is.Nodes >= was.Nodes && is.RemoteCPUs >= was.RemoteCPUs {
		t.Errorf("%s: %s → %s changes nodes without effect; want the same nodes", m.Full(), m.From, m.To)
	}
}

func checkDisjoint(t *testing.T, in defrag.Input) {
	t.Helper()
	var occupants []invariants.Occupant
	for _, o := range in.Owners {
		occupants = append(occupants, invariants.Occupant{Name: o.Key.PodUID, CPUs: o.CPUs, Exclusive: true})
		if !o.CPUs.IsSubsetOf(in.Pool) {
			t.Fatalf("CPUs of %s = %s; want CPUs of the pool %s", o.Key.PodUID, o.CPUs, in.Pool)
		}
	}
	for _, err := range invariants.CheckOccupants(occupants) {
		t.Fatal(err)
	}
}

func (s *scene) index(key pools.Key) int {
	for i := range s.Owners {
		if s.Owners[i].Key == key {
			return i
		}
	}
	return -1
}

// arbitrary makes a scene of bytes: a machine, a pool, and owners anywhere in it.
func arbitrary(b []byte, options []allocate.Options) *scene {
	next := func(n int) int {
		if len(b) == 0 {
			return 0
		}
		v := int(b[0]) % n
		b = b[1:]
		return v
	}
	machines := []machine{
		{1, 1, 1, 6, 2}, {1, 1, 3, 2, 2}, {2, 1, 1, 3, 2}, {2, 1, 2, 3, 1}, {1, 2, 2, 3, 1}, {1, 2, 1, 2, 3}, {2, 1, 3, 2, 1}, {2, 1, 1, 1, 4},
	}
	m := machines[next(len(machines))]
	s := newScene(m, cpuset.Range(next(3), m.cpus()-1).String())
	free := s.Pool
	for len(b) > 0 && !free.IsEmpty() {
		var cpus cpuset.Set
		for range 1 + next(4) {
			if rest := free.Difference(cpus); !rest.IsEmpty() {
				cpus = cpus.Union(cpuset.Of(nth(rest, next(rest.Len()))))
			}
		}
		free = free.Difference(cpus)
		switch next(6) {
		case 0:
			continue // it has ended
		case 1:
			s.owner(cpus.String(), fixed)
		default:
			s.owner(cpus.String(), with(options[next(len(options))]))
			if next(4) == 0 {
				near(cpuset.Of(next(len(s.topology.Nodes))).String())(&s.Owners[len(s.Owners)-1])
			}
		}
	}
	return s
}

func nth(s cpuset.Set, n int) int {
	for cpu := range s.All() {
		if n == 0 {
			return cpu
		}
		n--
	}
	return s.First()
}

func allOptions() []allocate.Options {
	return []allocate.Options{
		{}, {}, {FullPCPUsOnly: true}, {DistributeCPUsAcrossNUMA: true}, {DistributeCPUsAcrossCores: true},
		{PreferAlignCPUsByUncoreCache: true}, {OneOwnerPerCore: true}, {TopologyPolicy: allocate.SingleNUMANode},
		{TopologyPolicy: allocate.Restricted}, {TopologyPolicy: allocate.None}, {AlignBySocket: true},
		{Isolated: allocate.Avoid}, {CoreType: allocate.Performance, CoreTypePreference: allocate.Prefer},
	}
}

func FuzzAnalyse(f *testing.F) {
	f.Add([]byte(strings.Repeat("\x03\x01\x04\x01\x05\x09\x02\x06", 3)))
	f.Add([]byte("\x01\x00\x03\x00\x04\x08\x00\x02\x00\x01\x05"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := arbitrary(b[:min(len(b), 60)], allOptions())
		r := defrag.Analyse(s.Input)
		checkReport(t, s, r)
		if diff := cmp.Diff(r, defrag.Analyse(s.Input)); diff != "" {
			t.Errorf("the same again (-first +second):\n%s", diff)
		}
	})
}

// TestScenes compares reports with brute force: if any owner has a better permitted
// place, there is a move.
func TestScenes(t *testing.T) {
	improvable := 0
	for seed := range *scenes {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		b := make([]byte, 10+r.IntN(30))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		s := arbitrary(b, []allocate.Options{{}, {FullPCPUsOnly: true}, {TopologyPolicy: allocate.None}})
		report := defrag.Analyse(s.Input)
		checkReport(t, s, report)
		if who, to := s.bruteForce(); who != "" {
			improvable++
			if len(report.Moves) == 0 {
				t.Errorf("no move of %s to %s; want it", who, to)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: pool %s, owners %+v", seed, s.Pool, s.Owners)
		}
	}
	t.Logf("%d of %d scenes could be improved by one move", improvable, *scenes)
	if improvable < *scenes/10 {
		t.Errorf("improvable scenes = %d of %d; want at least a tenth", improvable, *scenes)
	}
}

// bruteForce tries each set of CPUs for each owner, by independent definitions.
func (s *scene) bruteForce() (string, cpuset.Set) {
	for i := range s.Owners {
		o := &s.Owners[i]
		if o.Fixed != "" {
			continue
		}
		var others cpuset.Set
		for j := range s.Owners {
			if j != i {
				others = others.Union(s.Owners[j].CPUs)
			}
		}
		var open []int
		for cpu := range s.Pool.Difference(others).All() {
			core := s.topology.ThreadSiblings(cpu)
			if !core.Overlaps(others) || core.Overlaps(o.CPUs) {
				open = append(open, cpu)
			}
		}
		was := s.lies(o, o.CPUs)
		for choice := range 1 << len(open) {
			if bits.OnesCount(uint(choice)) != o.CPUs.Len() {
				continue
			}
			var to cpuset.Set
			for k, cpu := range open {
				if choice&(1<<k) != 0 {
					to = to.Union(cpuset.Of(cpu))
				}
			}
			is := s.lies(o, to)
			cross := is[1] < was[1] || is[0] < was[0] || s.nodesOf(to).IsSubsetOf(s.nodesOf(o.CPUs))
			if cross && less(is, was) && defrag.Check(s.Input, o.Key, o.CPUs, to) == nil {
				return o.Key.PodUID, to
			}
		}
	}
	return "", cpuset.Set{}
}

// lies returns CPUs off the hinted nodes, nodes, packages, caches and split cores.
func (s *scene) lies(o *pools.Owner, cpus cpuset.Set) [5]int {
	var l [5]int
	if o.Options.TopologyPolicy != allocate.None && !o.Nodes.IsEmpty() {
		for i := range s.topology.Nodes {
			if !o.Nodes.Contains(s.topology.Nodes[i].ID) {
				l[0] += s.topology.Nodes[i].CPUs.Intersection(cpus).Len()
			}
		}
	}
	l[1] = s.nodesOf(cpus).Len()
	for i := range s.topology.Packages {
		if s.topology.Packages[i].CPUs.Overlaps(cpus) {
			l[2]++
		}
	}
	for i := range s.topology.L3s {
		if s.topology.L3s[i].CPUs.Overlaps(cpus) {
			l[3]++
		}
	}
	for i := range s.topology.Cores {
		if n := s.topology.Cores[i].CPUs.Intersection(cpus).Len(); n > 0 && n < s.topology.Cores[i].CPUs.Len() {
			l[4]++
		}
	}
	return l
}

func less(a, b [5]int) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return a != b
}

func (s *scene) nodesOf(cpus cpuset.Set) cpuset.Set {
	var all cpuset.Set
	for i := range s.topology.Nodes {
		if s.topology.Nodes[i].CPUs.Overlaps(cpus) {
			all = all.Union(cpuset.Of(i))
		}
	}
	return all
}
