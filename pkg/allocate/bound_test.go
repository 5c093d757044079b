package allocate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/allocate"
)

// TestSearchIsBounded counts the tries on machines that are too large for an exhaustive
// search: more nodes than on any known machine, caches by the hundred, and fragmented
// supplies. A search may end a little above the bound, after its current node.
func TestSearchIsBounded(t *testing.T) {
	const most = 2*allocate.MaxCombinations + 1024
	machines := []string{
		"packages=34 cores=8 threads=2",
		"packages=34 cores=30 threads=2",
		"packages=2 nodes=17 cores=8 threads=2",
		"packages=64 l3s=4 cores=4 threads=2",
		"packages=2 l3s=128 cores=1 threads=2",
		"packages=8 nodes=4 l3s=8 cores=2 threads=2 adjacent",
		"packages=40 cores=4 threads=2 numa=off",
		"packages=64 nodes=4 cores=2 threads=2",
		"packages=64 cores=4 threads=2 small=3",
		"packages=20 nodes=2 cores=8 threads=3 offline=0-40",
		"packages=16 cores=32 threads=4",
		"packages=20 nodes=2 cores=8 threads=3 offline=0",
	}
	options := []string{
		"", "align-by-socket=true", "prefer-align-cpus-by-uncorecache=true", "distribute-cpus-across-cores=true",
		"distribute-cpus-across-numa=true", "full-pcpus-only=true", "topology-policy=restricted",
		"distribute-cpus-across-numa=true full-pcpus-only=true align-by-socket=true",
		"distribute-cpus-across-numa=true align-by-socket=true topology-policy=restricted",
		"distribute-cpus-across-numa=true full-pcpus-only=true topology-policy=restricted nodes=1,2",
		"distribute-cpus-across-numa=true full-pcpus-only=true",
		"align-by-socket=true prefer-align-cpus-by-uncorecache=true nodes=3,5",
	}
	worst, worstSteps := 0, 0
	for i, text := range machines {
		top := machineOf(t, text).Topology()
		m := allocate.New(top)
		r := rand.New(rand.NewPCG(5, uint64(i)))
		for _, option := range options {
			for _, thin := range []int{2, 3, 8} {
				free := randomSubset(r, top.Online, thin)
				for _, n := range []int{7, free.Len() / 6, free.Len() / 3, free.Len() - 1} {
					s := m.Supply(free)
					cpus, err := s.Take(requestOf(t, fmt.Sprintf("%d %s", n, option)))
					if got := s.Considered(); got > most {
						t.Errorf("%s: %d of %d CPUs with %q: %d combinations; want at most %d", text, n, free.Len(), option, got, most)
					}
					if got := s.Steps(); got > 2*allocate.MaxSteps {
						t.Errorf("%s: %d of %d CPUs with %q: %d steps; want at most %d", text, n, free.Len(), option, got, 2*allocate.MaxSteps)
					}
					worst, worstSteps = max(worst, s.Considered()), max(worstSteps, s.Steps())
					if err == nil && cpus.Len() != n {
						t.Errorf("%s: %d CPUs with %q = %s; want that number", text, n, option, cpus)
					}
				}
			}
		}
	}
	if worst < allocate.MaxCombinations || worstSteps < allocate.MaxSteps*9/10 {
		t.Errorf("maximum of combinations, steps = %d, %d; want the bounds", worst, worstSteps)
	}
}

// TestFewestCachesBeyondTheBound checks a machine whose fewest caches are on seven of
// 16 nodes. The search ends before it reaches these.
func TestFewestCachesBeyondTheBound(t *testing.T) {
	m := allocate.New(machineOf(t, "packages=4 nodes=4 l3s=2 cores=2").Topology())
	s := m.Supply(set(t, "2,4-5,8-10,13-16,18-20,23-26,32,34-35,38,43,45,48,53-56,58-59,61-62"))
	cpus, err := s.Take(requestOf(t, "14 prefer-align-cpus-by-uncorecache=true"))
	if got := m.Shape(cpus); err != nil || got.L3s != 7 {
		t.Errorf("Take = %s (%v): %+v; want 7 caches", cpus, err, got)
	}
}

// TestFewestCoresInPart checks that no choice on a ragged supply takes more cores in part than
// necessary, also if the sets of nodes and caches are too many to try. The machines have as many
// nodes and caches as large servers.
func TestFewestCoresInPart(t *testing.T) {
	for i, text := range []string{"nodes=8 l3s=3 cores=6 threads=2", "packages=2 nodes=4 l3s=3 cores=8 threads=2", "packages=2 nodes=8 l3s=4 cores=2 threads=2"} {
		top := machineOf(t, text).Topology()
		m := allocate.New(top)
		r := rand.New(rand.NewPCG(11, uint64(i)))
		for range 150 {
			free := randomSubset(r, top.Online, 2+r.IntN(3))
			whole := 0
			for _, core := range top.Cores {
				whole += toInt(core.CPUs.IsSubsetOf(free))
			}
			n := 1 + r.IntN(free.Len())
			least := n - 2*min(whole, n/2)
			cpus, err := m.Supply(free).Take(allocate.Request{CPUs: n})
			if got := m.Shape(cpus).SplitCores; err != nil || cpus.Len() != n || got != least {
				t.Errorf("%s: %d of %s: %d cores in part, %v; want %d", text, n, free, got, err, least)
			}
		}
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
