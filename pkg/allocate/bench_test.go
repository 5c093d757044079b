package allocate_test

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// halfFull leaves every second core free.
func halfFull(t *topology.Topology) cpuset.Set {
	var free []int
	for i := 0; i < len(t.Cores); i += 2 {
		for id := range t.Cores[i].CPUs.All() {
			free = append(free, id)
		}
	}
	return cpuset.Of(free...)
}

// BenchmarkTake is one allocation of 8 CPUs on a machine that is half full.
func BenchmarkTake(b *testing.B) {
	machines := map[string]hardware.Machine{
		"64":         {Packages: 2, Nodes: 1, L3s: 1, Cores: 16, Threads: 2},
		"1024":       {Packages: 2, Nodes: 4, L3s: 1, Cores: 64, Threads: 2},
		"1024caches": {Packages: 2, Nodes: 4, L3s: 8, Cores: 8, Threads: 2},
		"1088nodes":  {Packages: 34, Nodes: 1, L3s: 1, Cores: 16, Threads: 2},
	}
	for name, m := range machines {
		t := m.Topology()
		machine, free := allocate.New(t), halfFull(t)
		for _, n := range []int{8, 200} {
			if n > free.Len() {
				continue
			}
			b.Run(fmt.Sprintf("%dof%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := machine.Supply(free).Take(allocate.Request{CPUs: n}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
