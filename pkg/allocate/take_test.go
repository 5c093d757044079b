package allocate_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Machines of the table. Unless they are adjacent, the second thread of core n is
// CPU n + the number of cores.
const (
	plain  = "packages=2 cores=4 threads=2"                   // nodes 0-3,8-11 and 4-7,12-15
	caches = "nodes=2 l3s=3 cores=4"                          // caches 0-3, 4-7, 8-11 and 12-15, 16-19, 20-23
	nps    = "packages=2 nodes=2 cores=4"                     // nodes 0-3, 4-7 and 8-11, 12-15
	smt4   = "cores=4 threads=4 adjacent"                     // cores 0-3, 4-7, 8-11, 12-15
	hybrid = "cores=4 threads=2 small=4"                      // fast cores 0-3 with 4-7, small ones 8-11
	boot   = "packages=2 cores=4 threads=2 isolated=2-3,8-11" // node 0 has all the isolated ones
	lame   = "packages=2 cores=6 threads=2 offline=23"        // nodes 0-5,12-17 and 6-11,18-22: core 11 has one thread
	four   = "packages=2 nodes=2 cores=2 threads=2 adjacent"  // nodes 0-3, 4-7 and 8-11, 12-15
)

// TestTake checks each option in readable cases. A request is a number of CPUs, and
// then options as in the configuration; have=, near= and nodes= are the lists of the
// Request. The expected result is the CPUs, or the code of the refusal.
func TestTake(t *testing.T) {
	tests := []struct {
		name, machine, free, request, want string
	}{
		{"no CPUs requested", plain, "0-15", "0", ""},
		{"less than nothing", plain, "0-15", "-1", ""},
		{"more than there is", plain, "0-2", "4", allocate.TooFewFree},
		{"missing CPUs", plain, "14-20", "3", allocate.TooFewFree},
		{"whole cores", plain, "0-15", "4", "0-1,8-9"},
		{"whole cores before one node", plain, "0-1,8,10,4-5,12-13", "4", "4-5,12-13"},
		{"an odd thread from a core in part", plain, "0-3,8-10", "3", "0,3,8"},
		{"the fuller node", plain, "0-2,8-10,4-7,12-15", "4", "0-1,8-9"},
		{"fewest packages", nps, "0-2,4-6,8-10", "6", "0-2,4-6"},
		{"fewest caches before what stays free", caches, "1,5,9,12-15,16-17", "3", "12-14"},
		{"the fuller cache", caches, "0-3,4-6", "3", "4-6"},
		{"caches in another node", caches, "0-1,4-5,8-9,12-15,16-17", "6", "12-17"},

		{"grow in the own core", plain, "0-15", "1 have=3", "11"},
		{"grow in the own node", plain, "0-3,8-11,4-7,12-15", "4 have=4,12", "5-6,13-14"},
		{"near a companion", plain, "0-15", "2 near=5", "4,12"},
		{"near is not worth a node", plain, "4,0-1,8-9,12", "4 near=5", "0-1,8-9"},
		{"near a companion's cache", caches, "0-8,10-23", "2 near=9", "8,10"},
		{"near a companion, behind a node that is alike", nps, "0-2,5-6,9-10", "2 near=3,11", "9-10"},

		{"full cores", plain, "0-3,8-10", "6 full-pcpus-only=true", "0-2,8-10"},
		{"full cores only", plain, "0-3,8-10", "7 full-pcpus-only=true", allocate.SMTAlignment},
		{"full cores: fragments", plain, "0-3,4-6,8", "4 full-pcpus-only=true", allocate.TooFewWholeCores},
		{"full cores of four threads", smt4, "0-2,4-11", "8 full-pcpus-only=true", "4-11"},
		{"full cores of two kinds", hybrid, "0-1,4,8-9", "3 full-pcpus-only=true", "0,4,8"},
		{"full cores: the rest has an owner", plain, "0-15", "1 have=3 full-pcpus-only=true", "11"},

		{"across nodes only where needed", four, "0-15", "4 distribute-cpus-across-numa=true", "0-3"},
		{"across nodes, next to a core with an offline thread", lame, "1-22", "14 distribute-cpus-across-numa=true full-pcpus-only=true", "1-4,6-8,13-16,18-20"},
		{"across nodes, with the core with an offline thread", lame, "1-22", "13 distribute-cpus-across-numa=true full-pcpus-only=true", "1-3,6-8,11,13-15,18-20"},
		{"across all hinted nodes", four, "0-15", "8 distribute-cpus-across-numa=true nodes=0-3", "0-1,4-5,8-9,12-13"},
		{"across all hinted nodes, restricted", four, "0-15", "8 distribute-cpus-across-numa=true topology-policy=restricted nodes=0-3", "0-1,4-5,8-9,12-13"},
		{"across fewer than the hinted nodes", four, "0-15", "3 distribute-cpus-across-numa=true nodes=0-3", "0-2"},
		{"across two nodes, evenly", four, "0-3,4-7", "6 distribute-cpus-across-numa=true", "0-2,4-6"},
		{"across three nodes, evenly", four, "0-2,4-6,8-10,12-14", "9 distribute-cpus-across-numa=true", "0-2,4-6,8-10"},
		{"across nodes, even shares before few nodes", four, "0-3,4-5,8-9", "6 distribute-cpus-across-numa=true", "0-1,4-5,8-9"},
		{"across nodes, even shares before whole cores", plain, "0-1,5-9", "6 distribute-cpus-across-numa=true", "0-1,5-8"},
		{"across nodes, whole cores before few nodes", plain, "0,2-3,5,10,13-15", "4 distribute-cpus-across-numa=true full-pcpus-only=true", "2,5,10,13"},
		{"across nodes, whole cores before even shares", plain, "0-1,4-8,10-12,14-15", "8 distribute-cpus-across-numa=true full-pcpus-only=true", "0,4,6-8,12,14-15"},
		{"across nodes in whole cores", four, "0-7", "6 distribute-cpus-across-numa=true full-pcpus-only=true", "0-5"},
		{"across nodes, remainder where most is left", four, "0-2,8-11", "5 distribute-cpus-across-numa=true", "0-1,8-10"},
		{"across nodes: not evenly possible", four, "0,4-7,8-11", "9 distribute-cpus-across-numa=true", "0,4-11"},
		{"across nodes of one socket", four, "0,4-7,8-10,12-13", "5 distribute-cpus-across-numa=true align-by-socket=true", "8-10,12-13"},

		{"fewest sockets", nps, "0-1,4-5,8-11,12-13", "5 align-by-socket=true", "8-10,12-13"},
		{"fewest nodes without", nps, "0-2,4,6,8-10", "6", "0-2,8-10"},
		{"fewest sockets before nodes", "packages=2 nodes=3 cores=3", "0-1,3-4,6-7,9-11,12-14", "6 align-by-socket=true", "9-14"},
		{"fewest sockets, more nodes", "packages=2 nodes=3 cores=3", "0-1,3-4,6-7,9-11", "5 align-by-socket=true", "0-1,3-4,6"},
		{"a hint stands for its socket", nps, "0-1,4-15", "4 align-by-socket=true nodes=0", "4-7"},

		{"one thread of each core", plain, "0-15", "4 distribute-cpus-across-cores=true", "0-3"},
		{"more threads than cores", plain, "0-2,8-10", "4 distribute-cpus-across-cores=true", "0-2,8"},
		{"idle cores first", plain, "0-2,9-10", "2 distribute-cpus-across-cores=true", "1-2"},
		{"a whole node", plain, "0-15", "8 distribute-cpus-across-cores=true", "0-3,8-11"},

		{"caches before nodes", "nodes=2 l3s=3 cores=2", "0,2,4,6-7,8,10", "3 prefer-align-cpus-by-uncorecache=true", "6-8"},

		{"policy none", plain, "0-15", "4 nodes=1 topology-policy=none", "0-1,8-9"},
		{"a hint", plain, "0-15", "4 nodes=1", "4-5,12-13"},
		{"a hint that has too little", plain, "0-3,8-11,5,13", "4 nodes=1", "0,5,8,13"},
		{"a hint to a missing node", plain, "0-15", "4 nodes=7", "0-1,8-9"},
		{"restricted: as many nodes as on an empty machine", plain, "0-3,4-7", "10 topology-policy=restricted", allocate.TooFewFree},
		{"restricted: fewest nodes", plain, "0-2,8-10,4-5,12-13", "8 topology-policy=restricted", allocate.NotOnFewestNodes},
		{"restricted: more than a node has", plain, "0-3,8-11,4-5,12-13", "10 topology-policy=restricted", "0-2,4-5,8-10,12-13"},
		{"restricted: a hint that is full", plain, "0-3,8-11,4,12", "4 topology-policy=restricted nodes=1", allocate.NotOnHintedNodes},
		{"restricted: a hint that is too small for ever", plain, "0-15", "10 topology-policy=restricted nodes=1", "0-4,8-12"},
		{"restricted: sockets", nps, "0-2,4-6,8-9", "5 topology-policy=restricted align-by-socket=true", "0-2,4-5"},
		{"single node", plain, "0-1,8-9,4-6,12-13", "5 topology-policy=single-numa-node", "4-6,12-13"},
		{"single node: too full", plain, "0-1,8-9,4-5,12-13", "5 topology-policy=single-numa-node", allocate.NotOnOneNode},
		{"single node: one of the hinted", nps, "0-15", "4 topology-policy=single-numa-node nodes=2-3", "8-11"},
		{"single node: the hinted one is full", nps, "0-11,13", "2 topology-policy=single-numa-node nodes=3", allocate.NotOnOneNode},

		{"prefer isolated", boot, "0-15", "4 isolated-cpus=prefer", "2-3,10-11"},
		{"prefer isolated, all or none", boot, "4-7,12-15,2-3", "4 isolated-cpus=prefer", "4-5,12-13"},
		{"require isolated", boot, "4-7,12-15,2-3", "4 isolated-cpus=require", allocate.TooFewIsolated},
		{"avoid isolated", boot, "0-15", "4 isolated-cpus=avoid", "4-5,12-13"},
		{"avoid isolated, unless there is nothing else", boot, "0-3,8-11", "4 isolated-cpus=avoid", "0-1,8-9"},

		{"fast cores", hybrid, "2-3,6-11", "4 core-type=performance", "2-3,6-7"},
		{"small cores", hybrid, "0-11", "3 core-type=efficiency", "8-10"},
		{"too few fast cores", hybrid, "2,6,8-11", "4 core-type=performance", allocate.TooFewOfCoreType},
		{"fast cores if possible", hybrid, "2,6,8-11", "4 core-type=prefer-performance", "2,6,8-9"},
		{"no kinds of core", plain, "0-15", "2 core-type=efficiency", "0,8"},

		{"one owner: no core in part", plain, "0-1,2,8", "2 one-owner-per-core=true", "0,8"},
		{"one owner: too few untouched", plain, "0-3,8", "3 one-owner-per-core=true", allocate.TooFewUntouchedCores},
		{"one owner: in the own core", plain, "0-3,8", "2 one-owner-per-core=true have=9", "0-1"},
		{"one owner: one thread of each core", plain, "0-3,8-10", "3 one-owner-per-core=true distribute-cpus-across-cores=true", "0-2"},

		{"options against each other", plain, "0-15", "2 full-pcpus-only=true distribute-cpus-across-cores=true", allocate.BadOptions},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top, r := machineOf(t, tt.machine).Topology(), requestOf(t, tt.request)
			s := allocate.New(top).Supply(set(t, tt.free))
			before := s.Free()
			cpus, err := s.Take(r)
			got := cpus.String()
			if refusal, ok := errors.AsType[*allocate.Refusal](err); ok {
				got = refusal.Code
			} else if err != nil {
				t.Fatalf("%T is not a refusal", err)
			}
			if got != tt.want {
				t.Errorf("Take(%s) of %s = %s (%v); want %s", tt.request, tt.free, got, err, tt.want)
			}
			if want := left(top, r, before, cpus); !s.Free().Equal(want) {
				t.Errorf("free afterwards: %s; want %s", s.Free(), want)
			}
		})
	}
}

func set(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func machineOf(t testing.TB, text string) hardware.Machine {
	t.Helper()
	m, err := hardware.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func requestOf(t testing.TB, text string) allocate.Request {
	t.Helper()
	var r allocate.Request
	number, rest, _ := strings.Cut(text, " ")
	if _, err := fmt.Sscan(number, &r.CPUs); err != nil {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "have":
			r.Have = set(t, value)
		case "near":
			r.Near = set(t, value)
		case "nodes":
			r.Nodes = set(t, value)
		default:
			if err := r.Options.Set(key, value); err != nil {
				t.Fatalf("%s %v", key, err)
			}
		}
	}
	return r
}

// TestNever checks that a refusal names other owners only if they can be the reason.
func TestNever(t *testing.T) {
	const pool = "2-7,10-15" // of nodes 0-7 and 8-15
	m := allocate.New(machineOf(t, "packages=2 cores=8").Topology())
	for _, test := range []struct{ free, request, want string }{
		{"2-7", "7 topology-policy=restricted", "no NUMA node can ever have 7 CPUs of the pool, at most 6 (topology-policy: restricted); request at most 6"},
		{"2-7,10-15", "7 topology-policy=restricted", "no NUMA node can ever have 7 CPUs"},
		{"2-5,10-13", "5 topology-policy=restricted", "plan --defrag"},
		{"2-7,10-15", "7 topology-policy=single-numa-node", "no NUMA node can ever have 7 CPUs of the pool, at most 6"},
		{"2-5,10-13", "5 topology-policy=single-numa-node", "plan --defrag"},
		{"2-7,10-15", "5 topology-policy=single-numa-node have=2-3", "no NUMA node can ever have 7 CPUs"},
		{"2-4,10-15", "8 topology-policy=restricted nodes=1", "NUMA nodes 1 of the devices and memory can never have 8 CPUs of the pool, at most 6"},
		{"2-4", "13", "the pool has only 12 CPUs; request at most 12"},
		{"2-4", "12", "wait until others end"},
	} {
		r := requestOf(t, test.request)
		r.Pool = set(t, pool)
		_, err := m.Supply(set(t, test.free)).Take(r)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Take(%s) of %s: %v; want %q", test.request, test.free, err, test.want)
		}
	}
}

// TestWholeCoresAddUp checks machines whose cores have several numbers of threads: a request is
// met if, and only if, whole free cores add up to it.
func TestWholeCoresAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	for range 400 {
		shape := []string{"cores=4 threads=3", "nodes=2 l3s=2 cores=2 threads=3", "packages=2 cores=3 threads=4", "nodes=3 cores=2 threads=5"}[r.IntN(4)]
		machine := machineOf(t, shape)
		machine.Offline = randomSubset(r, machine.Topology().Online, 4)
		top := machine.Topology()
		free := randomSubset(r, top.Online, 2+r.IntN(4))
		sums := map[int]bool{0: true}
		for _, core := range top.Cores {
			if !core.CPUs.IsSubsetOf(free) {
				continue
			}
			for n := range maps.Clone(sums) {
				sums[n+core.CPUs.Len()] = true
			}
		}
		for n := 1; n <= free.Len(); n++ {
			for _, options := range []string{"", " distribute-cpus-across-numa=true", " prefer-align-cpus-by-uncorecache=true", " align-by-socket=true"} {
				request := fmt.Sprintf("%d full-pcpus-only=true%s", n, options)
				cpus, err := allocate.New(top).Supply(free).Take(requestOf(t, request))
				if (err == nil) != sums[n] || err == nil && (cpus.Len() != n || allocate.New(top).Shape(cpus).SplitCores > 0) {
					t.Fatalf("%s, offline %s: %s of %s = %s, %v; want that it is met: %t", shape, machine.Offline, request, free, cpus, err, sums[n])
				}
			}
		}
	}
}
