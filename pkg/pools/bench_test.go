package pools_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// loadedNode is a node with containers of all classes, and a pause container for each
// pair. A third of them requests exclusive CPUs, as long as some are free.
func loadedNode(t *topology.Topology, containers int) pools.Input {
	last := t.Online.Last()
	split := max(last/4, 3)
	in := pools.Input{Machine: allocate.New(t), Pools: pools.Pools{
		Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Range(0, 1), Namespaces: []string{"kube-system"}}},
		Shared:     cpuset.Range(2, split), Guaranteed: cpuset.Range(split+1, last),
	}}
	for i := 0; len(in.Pods)*3 < containers; i++ {
		p := podOf(i, 1+i%4)
		p.Resources.Shares += 102 // of the sidecar
		p.Resources.Quota += 10000
		if i%3 > 0 {
			p.QoS, p.Resources = pools.QoSBurstable, pools.Resources{}
		}
		if i%3 == 1 {
			p.Namespace = "kube-system"
			p.Annotations = map[string]string{
				workload.Names{}.TargetKey("management"): `{"effect":"PreferredDuringScheduling"}`,
				workload.Names{}.ResourcesKey("app"):     `{"cpushares":409}`,
				"kubernetes.io/config.source":            "api",
			}
		}
		second := p.Containers[0]
		second.ID, second.Name, second.Resources = fmt.Sprint("d", i), "sidecar", pools.Resources{Shares: 102}
		pause := pools.Container{ID: fmt.Sprint("s", i), Name: "POD", Kind: pools.Infra, State: pools.Running, CreatedAt: int64(i)}
		p.Containers = append(p.Containers, second, pause)
		in.Pods = append(in.Pods, p)
	}
	return in
}

func BenchmarkBuild(b *testing.B) {
	for _, cpus := range []int{64, 1024} {
		for _, containers := range []int{100, 500} {
			in := loadedNode(topologyOf(cpus), containers)
			b.Run(fmt.Sprintf("%dcpu/%dcontainers/cold", cpus, containers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					pools.Build(in)
				}
			})
			in.Previous = pools.Build(in).Assignments
			b.Run(fmt.Sprintf("%dcpu/%dcontainers/settled", cpus, containers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					pools.Build(in)
				}
			})
			// The daemon gives the planner equal values in new slices.
			same := in
			same.Pods = slices.Clone(in.Pods)
			for i := range same.Pods {
				same.Pods[i].Containers = slices.Clone(same.Pods[i].Containers)
			}
			b.Run(fmt.Sprintf("%dcpu/%dcontainers/unchanged", cpus, containers), func(b *testing.B) {
				var p pools.Planner
				p.Build(in)
				b.ReportAllocs()
				for b.Loop() {
					p.Build(same)
				}
			})
		}
	}
}

// BenchmarkBuildScale is a plan from nothing on machines of all sizes.
func BenchmarkBuildScale(b *testing.B) {
	for _, m := range []struct {
		name string
		hardware.Machine
	}{
		{"8cpu/1node", hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}},
		{"64cpu/2nodes", hardware.Machine{Packages: 2, Nodes: 1, L3s: 2, Cores: 8, Threads: 2}},
		{"256cpu/4nodes", hardware.Machine{Packages: 2, Nodes: 2, L3s: 4, Cores: 8, Threads: 2}},
		{"1024cpu/8nodes", hardware.Machine{Packages: 2, Nodes: 4, L3s: 8, Cores: 8, Threads: 2}},
		{"2048cpu/16nodes", hardware.Machine{Packages: 4, Nodes: 4, L3s: 8, Cores: 8, Threads: 2}},
	} {
		in := loadedNode(m.Topology(), 250)
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pools.Build(in)
			}
		})
	}
}

// BenchmarkBuildExclusive is the largest amount of work of a plan. All containers are
// new and request exclusive CPUs, every other one an odd number.
func BenchmarkBuildExclusive(b *testing.B) {
	t := topologyOf(1024)
	in := pools.Input{Machine: allocate.New(t), Pools: pools.Pools{Shared: cpuset.Of(0), Guaranteed: cpuset.Range(1, 1023)}}
	for i := range 500 {
		in.Pods = append(in.Pods, podOf(i, 1+i%3))
	}
	run := func(name string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pools.Build(in)
			}
		})
	}
	run("list")
	in.Pools = pools.Pools{Shared: t.Online, Guaranteed: t.Online, FromShared: true, Floor: 8}
	run("from-shared")
	in.Pools.Options.OneOwnerPerCore = true
	run("one-owner-per-core")
	in.Pools.Options = allocate.Options{}
	for i := range in.Pods {
		in.Pods[i].Resources.Shares += 1024
		in.Pods[i].Resources.Quota += 100000
	}
	run("reserves")
}

func BenchmarkAllocate(b *testing.B) {
	t := topologyOf(1024)
	half := t.Online
	for id := range t.Online.All() {
		if id%4 < 2 {
			half = half.Difference(cpuset.Of(id))
		}
	}
	a := pools.NewAllocator(t, half)
	b.Run("8of1024", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Allocate(8)
		}
	})
}
