package pools_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// FuzzOverrides gives a pod arbitrary annotations. The pod is placed in every case, and
// each mistake has one line.
func FuzzOverrides(f *testing.F) {
	f.Add("cpupoold.io/full-pcpus-only", "true", "cpupoold.io/topology-policy", "single-numa-node", true)
	f.Add("cpupoold.io/core-type", "prefer-efficiency", "cpu-quota.crio.io/app", "enable", false)
	f.Add("cpupoold.io/", "", "cpu-load-balancing.crio.io", "x\ny", true)
	f.Add("cpupoold.io/distribute-cpus-across-cores", "true", "cpupoold.io/full-pcpus-only", "true", true)
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string, allowed bool) {
		top := hardware.Machine{Packages: 1, Nodes: 2, L3s: 1, Cores: 4, Threads: 2}.Topology()
		spec := poolspec.Spec{Guaranteed: poolspec.Guaranteed{FromShared: true}}
		if allowed {
			spec.Guaranteed.Overrides = allocate.OptionNames()
		}
		in := pools.Input{Machine: allocate.New(top), Pools: must(spec.Resolve(top))(t), Pods: []pools.Pod{podOf(0, 2)}}
		in.Pods[0].Annotations = map[string]string{key1: value1, key2: value2}
		plan := checkedBuild(t, in)
		for _, p := range plan.Problems {
			if strings.ContainsFunc(p.Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("text = %q; want one printable line", p.Text)
			}
		}
		c := plan.Pods[0].Containers[0]
		if !c.Exclusive && c.Refused == nil {
			t.Errorf("container without CPUs and refusal: %s", c.Reason.Text)
		}
	})
}

// TestOneOwnerPerCore starts and ends random containers, all of which have their
// cores to themselves.
func TestOneOwnerPerCore(t *testing.T) {
	top := hardware.Machine{Packages: 2, Nodes: 1, L3s: 2, Cores: 3, Threads: 2}.Topology()
	spec := poolspec.Spec{Guaranteed: poolspec.Guaranteed{FromShared: true, Floor: 3, Options: allocate.Options{OneOwnerPerCore: true}}}
	in := pools.Input{Machine: allocate.New(top), Pools: must(spec.Resolve(top))(t)}
	r := rand.New(rand.NewPCG(5, 5))
	owners := 0
	for i := range 400 {
		if n := len(in.Pods); n > 5 || n > 0 && r.IntN(3) == 0 {
			gone := r.IntN(n)
			in.Pods = append(in.Pods[:gone:gone], in.Pods[gone+1:]...)
		} else {
			in.Pods = append(in.Pods, podOf(i, 1+r.IntN(5)))
		}
		plan := checkedBuild(t, in)
		in.Previous = plan.Assignments
		ofCore := make(map[int]string)
		for _, a := range plan.Assignments {
			owners++
			for cpu := range a.CPUs.All() {
				core := top.ThreadSiblings(cpu).First()
				if other := ofCore[core]; other != "" && other != a.PodUID {
					t.Fatalf("step %d: %s and %s have a part of the core of CPU %d:\n%s", i, other, a.PodUID, core, format(plan))
				}
				ofCore[core] = a.PodUID
				if plan.Shared.Overlaps(top.ThreadSiblings(cpu)) {
					t.Fatalf("step %d: the shared pool has a part of the core of CPU %d of %s:\n%s", i, cpu, a.PodUID, format(plan))
				}
			}
		}
	}
	if owners < 400 {
		t.Errorf("owners in all steps = %d; want at least 400", owners)
	}
}

// TestReserveIsOfUse lets the containers of a pod start one after the other. Containers
// in between would take everything. The pod never lacks its total, whichever container
// has a part of it.
func TestReserveIsOfUse(t *testing.T) {
	top := hardware.Machine{Packages: 1, Nodes: 2, L3s: 1, Cores: 6, Threads: 2}.Topology()
	options := map[string]allocate.Options{
		"any": {}, "one-owner-per-core": {OneOwnerPerCore: true}, "full-pcpus-only": {FullPCPUsOnly: true},
		"both": {OneOwnerPerCore: true, FullPCPUsOnly: true}, "single-numa-node": {TopologyPolicy: allocate.SingleNUMANode},
		"one-owner-per-core, spread": {OneOwnerPerCore: true, DistributeCPUsAcrossCores: true},
	}
	for name, o := range options {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				r := rand.New(rand.NewPCG(seed, 11))
				p := pools.Pools{Shared: cpuset.Of(0, 12), Guaranteed: top.Online.Difference(cpuset.Of(0, 12)), Options: o}
				if r.IntN(2) == 0 {
					p.Shared, p.Guaranteed, p.FromShared, p.Floor = top.Online, top.Online, true, 2
				}
				reserveIsOfUse(t, r, pools.Input{Machine: allocate.New(top), Pools: p})
			}
		})
	}
}

func reserveIsOfUse(t *testing.T, r *rand.Rand, in pools.Input) {
	unit := 1
	if in.Pools.Options.FullPCPUsOnly {
		unit = 2
	}
	left := 4 + r.IntN(2)
	pod := podOf(99, left)
	pod.Containers = nil
	in.Pods = []pools.Pod{pod}
	for i := 1; left >= unit; i++ {
		in.Previous = checkedBuild(t, in).Assignments
		n := unit * (1 + r.IntN(left/unit))
		left -= n
		c := podOf(50+i, n).Containers[0]
		c.Name = fmt.Sprint("c", i)
		in.Pods = append(slices.Clone(in.Pods), podOf(i, unit*(1+r.IntN(4))))
		in.Pods[0].Containers = append(slices.Clone(in.Pods[0].Containers), c)
		in.Pods[0].Settled = r.IntN(3) == 0
		plan := checkedBuild(t, in)
		for _, p := range plan.Pods {
			for _, c := range p.Containers {
				if p.UID == pod.UID && !c.Exclusive {
					t.Fatalf("container %s: %s; before:\n%v\nafter:\n%s", c.Name, c.Reason.Text, in.Previous, format(plan))
				}
			}
		}
	}
}
