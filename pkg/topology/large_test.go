package topology_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

const (
	largeCores   = 1024
	largeThreads = 2 * largeCores
)

// large is two packages of 512 cores with two threads, numbered as large x86
// machines are: packages alternate, and the second threads follow after all the
// first ones. Its lists are longer than a page.
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
			set(dir+"topology/core_cpus_list", "%d,%d", core, core+largeCores)
			set(dir+"topology/core_id", "%d", core/2)
			set(dir+"topology/physical_package_id", "%d", pkg)
			set(dir+"topology/die_id", "0")
			set(dir+"cache/index0/level", "3")
			set(dir+"cache/index0/type", "Unified")
			set(dir+"cache/index0/shared_cpu_list", "%s", list)
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
	got, err := topology.Read(archiveFS(t, sys))
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
	if siblings := got.ThreadSiblings(2047); siblings.String() != "1023,2047" {
		t.Errorf("ThreadSiblings(2047) = %s; want 1023,2047", siblings)
	}
	if got.L3s[1].CPUs.String() != strings.TrimSpace(string(odd)) {
		t.Errorf("L3s[1] = %s; want the odd CPUs", got.L3s[1].CPUs)
	}
}

func BenchmarkRead(b *testing.B) {
	sys := archiveFS(b, large())
	for b.Loop() {
		if _, err := topology.Read(sys); err != nil {
			b.Fatal(err)
		}
	}
}
