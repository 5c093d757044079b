package cgroup_test

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// benchNode is a node of 1024 CPUs with 500 containers, a fifth of them exclusive with
// 8 CPUs each. With moved, the desired CPUs differ by 8 CPUs.
func benchNode(moved bool) ([]cgroup.Target, map[cgroup.Path]cgroup.Current, cgroup.Options) {
	const containers = 500
	all := cpuset.Range(0, 1023)
	current := map[cgroup.Path]cgroup.Current{}
	var targets []cgroup.Target
	for i := range containers {
		t := cgroup.Target{
			Path:      cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-pod%d.slice/cri-containerd-%d.scope", i, i)),
			Container: fmt.Sprint(i), CPUs: cpuset.Range(8, 15), Weight: 59,
		}
		if i%5 == 0 {
			first := 16 + 8*i/5
			t.CPUs, t.Exclusive, t.Unlimited = cpuset.Range(first, first+7), true, true
		}
		is := t.CPUs
		if moved && t.Exclusive {
			is = cpuset.Range(t.CPUs.First()+8, t.CPUs.Last()+8)
		}
		targets = append(targets, t)
		current[t.Path] = cgroup.Current{
			State: cgroup.State{
				Path: t.Path, HasCPUSet: true, CPUs: is, Effective: is, ParentEffective: all, HasCPU: true, Weight: 59, Quota: -1, Populated: true,
			},
			Exists: true, Recorded: is, RecordedKnown: true, Unit: cgroup.UnitState{Known: true, CPUs: is, Weight: 59, Quota: -1},
		}
	}
	return targets, current, cgroup.Options{Driver: cgroup.DriverSystemd, Possible: all}
}

func BenchmarkDiff(b *testing.B) {
	for name, moved := range map[string]bool{"unchanged": false, "moved": true} {
		b.Run(name, func(b *testing.B) {
			targets, current, options := benchNode(moved)
			b.ReportAllocs()
			for b.Loop() {
				writes, deferred := cgroup.Diff(targets, current, options)
				if (len(writes) > 0) != moved || len(deferred) > 0 {
					b.Fatalf("writes = %d, deferred = %v; want writes only after a move", len(writes), deferred)
				}
			}
		})
	}
}

// TestDiffUnchangedAllocatesNothing checks that Diff of an unchanged node makes no
// allocations.
func TestDiffUnchangedAllocatesNothing(t *testing.T) {
	targets, current, options := benchNode(false)
	if n := testing.AllocsPerRun(10, func() { cgroup.Diff(targets, current, options) }); n > 0 {
		t.Errorf("allocations for a node in the desired state = %v; want 0", n)
	}
}
