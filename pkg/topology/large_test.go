package topology_test

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

const (
	largeCores   = 2048
	largeThreads = 2 * largeCores
)

// large is two packages of 1,024 cores with two threads, numbered as large x86
// machines are: packages alternate, and the second threads follow after all the
// first ones. Each core has three caches, and its package one. The lists of the packages
// are longer than a page.
func large() *txtar.Archive {
	sys := &txtar.Archive{}
	set := func(name, format string, args ...any) {
		sys.Files = append(sys.Files, txtar.File{Name: "devices/system/" + name, Data: fmt.Appendf(nil, format+"\n", args...)})
	}
	for _, mask := range []string{"possible", "present", "online"} {
		set("cpu/"+mask, "0-%d", largeThreads-1)
	}
	set("node/online", "0-1")
	set("node/has_memory", "0-1")
	for pkg := range 2 {
		var cpus []int
		for cpu := pkg; cpu < largeThreads; cpu += 2 {
			cpus = append(cpus, cpu)
		}
		list := cpuset.Of(cpus...).String()
		set(fmt.Sprintf("node/node%d/cpulist", pkg), "%s", list)
		set(fmt.Sprintf("node/node%d/distance", pkg), "%s", [...]string{"10 21", "21 10"}[pkg])
		for _, cpu := range cpus {
			dir := fmt.Sprintf("cpu/cpu%d/", cpu)
			core := cpu % largeCores
			pair := fmt.Sprintf("%d,%d", core, core+largeCores)
			set(dir+"topology/core_cpus_list", "%s", pair)
			set(dir+"topology/core_id", "%d", core/2)
			set(dir+"topology/physical_package_id", "%d", pkg)
			set(dir+"topology/die_id", "0")
			for i, c := range []struct {
				level        int
				kind, shared string
			}{{1, "Data", pair}, {1, "Instruction", pair}, {2, "Unified", pair}, {3, "Unified", list}} {
				index := fmt.Sprintf("%scache/index%d/", dir, i)
				set(index+"level", "%d", c.level)
				set(index+"type", "%s", c.kind)
				set(index+"shared_cpu_list", "%s", c.shared)
			}
			set(dir+"cpufreq/cpuinfo_max_freq", "3000000")
		}
	}
	return sys
}

func TestReadOver1024CPUs(t *testing.T) {
	sys := large()
	odd := section(t, sys, "devices/system/node/node1/cpulist").Data
	if len(odd) <= os.Getpagesize() {
		t.Fatalf("length of cpulist = %d; want more than a page", len(odd))
	}
	counted := &countingFS{FS: archiveFS(t, sys)}
	got, err := topology.Read(counted)
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, got)
	for name, n := range map[string][2]int{
		"CPUs":     {len(got.CPUs), largeThreads},
		"cores":    {len(got.Cores), largeCores},
		"L3s":      {len(got.L3s), 2},
		"packages": {len(got.Packages), 2},
		"threads":  {got.ThreadsPerCore(), 2},
	} {
		if n[0] != n[1] {
			t.Errorf("%d %s; want %d", n[0], name, n[1])
		}
	}
	if siblings := got.ThreadSiblings(largeThreads - 1); siblings.String() != "2047,4095" {
		t.Errorf("ThreadSiblings(%d) = %s; want 2047,4095", largeThreads-1, siblings)
	}
	if got.L3s[1].CPUs.String() != strings.TrimSpace(string(odd)) {
		t.Errorf("L3s[1] = %s; want the odd CPUs", got.L3s[1].CPUs)
	}
	// Siblings and last cache of each CPU; package, die and frequency of each core. Opening files is the largest cost.
	if counted.opened > 2*largeThreads+3*largeCores+100 {
		t.Errorf("%d files opened for %d CPUs; want 2 for each, and 3 for each core", counted.opened, largeThreads)
	}
}

// countingFS counts the files that are opened.
type countingFS struct {
	fs.FS

	opened int
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.opened++
	return c.FS.Open(name)
}

func BenchmarkRead(b *testing.B) {
	sys := archiveFS(b, large())
	for b.Loop() {
		if _, err := topology.Read(sys); err != nil {
			b.Fatal(err)
		}
	}
}
