package allocate_test

import (
	"fmt"
	"testing"

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
	machines := map[string]machine{
		"64":         {packages: 2, nodes: 1, l3s: 1, cores: 16, threads: 2},
		"1024":       {packages: 2, nodes: 4, l3s: 1, cores: 64, threads: 2},
		"1024caches": {packages: 2, nodes: 4, l3s: 8, cores: 8, threads: 2},
		"1088nodes":  {packages: 34, nodes: 1, l3s: 1, cores: 16, threads: 2},
	}
	for name, m := range machines {
		t := m.topology()
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
