// Package bench compares cpupoold's packages with others for the same task, on the same
// input in the same run. bench/kubelet compares the kubelet's CPU manager.
package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/procfs/sysfs"
	kubernetes "k8s.io/utils/cpuset"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// list is every other CPU of n, and a range: the longest that a node's lists get.
func list(n int) string {
	text := fmt.Sprintf("0-%d", n/4)
	for cpu := n/4 + 2; cpu < n; cpu += 2 {
		text += fmt.Sprintf(",%d", cpu)
	}
	return text
}

func BenchmarkCPUSet(b *testing.B) {
	for _, n := range []int{8, 64, 512, 2048} {
		text := list(n)
		ours, err := cpuset.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		theirs, err := kubernetes.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		half, theirHalf := cpuset.Range(0, n/2), kubernetes.New()
		for cpu := range n/2 + 1 {
			theirHalf = theirHalf.Union(kubernetes.New(cpu))
		}
		if ours.String() != theirs.String() || ours.Union(half).String() != theirs.Union(theirHalf).String() || ours.Difference(half).String() != theirs.Difference(theirHalf).String() {
			b.Fatal("results differ")
		}
		for _, c := range []struct {
			name         string
			ours, theirs func()
		}{
			{"parse", func() { _, _ = cpuset.Parse(text) }, func() { _, _ = kubernetes.Parse(text) }},
			{"format", func() { _ = ours.String() }, func() { _ = theirs.String() }},
			{"union", func() { ours.Union(half) }, func() { theirs.Union(theirHalf) }},
			{"difference", func() { ours.Difference(half) }, func() { theirs.Difference(theirHalf) }},
			{"subset", func() { ours.IsSubsetOf(half) }, func() { theirs.IsSubsetOf(theirHalf) }},
			{"equal", func() { ours.Equal(ours) }, func() { theirs.Equals(theirs) }},
		} {
			run(b, fmt.Sprintf("%s/%d/cpupoold", c.name, n), c.ours)
			run(b, fmt.Sprintf("%s/%d/k8s.io-utils", c.name, n), c.theirs)
		}
	}
}

// BenchmarkTopology reads the same tree: each CPU's core, package and siblings. Ours also
// reads caches, dies and NUMA nodes, and checks that they agree.
func BenchmarkTopology(b *testing.B) {
	for _, cpus := range []int{8, 64, 512} {
		root := tree(b, cpus)
		run(b, fmt.Sprintf("%d/cpupoold", cpus), func() {
			if t, err := topology.Read(os.DirFS(root)); err != nil || t.Online.Len() != cpus {
				b.Fatal(err)
			}
		})
		run(b, fmt.Sprintf("%d/procfs", cpus), func() {
			fs, err := sysfs.NewFS(root)
			if err != nil {
				b.Fatal(err)
			}
			all, err := fs.CPUs()
			if err != nil || len(all) != cpus {
				b.Fatal(err)
			}
			for _, cpu := range all {
				if _, err := cpu.Topology(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func run(b *testing.B, name string, do func()) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			do()
		}
	})
}

// tree is a sysfs of two packages with two threads to a core.
func tree(b *testing.B, cpus int) string {
	b.Helper()
	root := b.TempDir()
	set := func(name, format string, args ...any) {
		name = filepath.Join(root, "devices/system", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, fmt.Appendf(nil, format+"\n", args...), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for _, mask := range []string{"possible", "present", "online"} {
		set("cpu/"+mask, "0-%d", cpus-1)
	}
	set("node/online", "0-1")
	set("node/has_memory", "0-1")
	cores := cpus / 2
	for pkg := range 2 {
		first, last := pkg*cores/2, (pkg+1)*cores/2-1
		siblings := fmt.Sprintf("%d-%d,%d-%d", first, last, first+cores, last+cores)
		set(fmt.Sprintf("node/node%d/cpulist", pkg), "%s", siblings)
		set(fmt.Sprintf("node/node%d/distance", pkg), "%s", [...]string{"10 21", "21 10"}[pkg])
		for core := first; core <= last; core++ {
			for _, cpu := range []int{core, core + cores} {
				dir := fmt.Sprintf("cpu/cpu%d/", cpu)
				for _, name := range []string{"core_cpus_list", "thread_siblings_list"} {
					set(dir+"topology/"+name, "%d,%d", core, core+cores)
				}
				for _, name := range []string{"package_cpus_list", "core_siblings_list"} {
					set(dir+"topology/"+name, "%s", siblings)
				}
				set(dir+"topology/core_id", "%d", core)
				set(dir+"topology/physical_package_id", "%d", pkg)
				set(dir+"topology/die_id", "0")
				set(dir+"cache/index3/level", "3")
				set(dir+"cache/index3/type", "Unified")
				set(dir+"cache/index3/shared_cpu_list", "%s", siblings)
			}
		}
	}
	return root
}
