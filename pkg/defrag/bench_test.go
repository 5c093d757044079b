package defrag_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
)

// BenchmarkAnalyse measures a node on which 1 in 4 owners has a bad place.
func BenchmarkAnalyse(b *testing.B) {
	for _, c := range []struct {
		name string
		machine
		owners int
	}{
		{"64cpus", machine{2, 1, 1, 16, 2}, 8},
		{"256cpus", machine{2, 4, 2, 8, 2}, 30},
		{"1024cpus", machine{2, 4, 8, 8, 2}, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			s := newScene(c.machine, cpuset.Range(4, c.cpus()-1).String())
			free := s.Pool
			for i := range c.owners {
				n := 2 + 2*r.IntN(3)
				cpus := free.Take(n)
				if i%4 == 0 {
					for cpus = (cpuset.Set{}); cpus.Len() < n; {
						cpus = cpus.Union(cpuset.Of(nth(free, r.IntN(free.Len()))))
					}
				}
				free = free.Difference(cpus)
				s.owner(cpus.String())
			}
			moves, bounded := 0, false
			for b.Loop() {
				report := defrag.Analyse(s.Input)
				moves, bounded = len(report.Moves), report.Bounded
			}
			b.ReportMetric(float64(moves), "moves")
			if bounded {
				b.Log("the search was bounded")
			}
		})
	}
}
