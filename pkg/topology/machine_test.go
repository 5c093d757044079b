package topology_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// wantFile is the section of an archive that holds the expected result.
const wantFile = "want.txt"

var update = flag.Bool("update", false, "rewrite "+wantFile+" in testdata/*.txtar")

// TestRead reads the archives in testdata, one machine each. The comment of an archive
// describes the special properties of the machine and its source.
func TestRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("glob testdata: %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive := load(t, file)
			got, err := topology.Read(archiveFS(t, archive))
			if err != nil {
				t.Fatalf("Read: %v", err)
			}
			checkInvariants(t, got)
			text := describe(got)
			want := section(t, archive, wantFile)
			if *update {
				want.Data = []byte(text)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), text); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
		})
	}
}

func load(t testing.TB, file string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func archiveFS(t testing.TB, archive *txtar.Archive) fs.FS {
	t.Helper()
	sys, err := txtar.FS(archive)
	if err != nil {
		t.Fatal(err)
	}
	return sys
}

func section(t testing.TB, archive *txtar.Archive, name string) *txtar.File {
	t.Helper()
	for i := range archive.Files {
		if archive.Files[i].Name == name {
			return &archive.Files[i]
		}
	}
	t.Fatalf("no section %s", name)
	return nil
}

// describe renders every field of a topology for a reader's eye.
func describe(t *topology.Topology) string {
	var b bytes.Buffer
	for _, mask := range []struct {
		name string
		set  cpuset.Set
	}{
		{"possible", t.Possible}, {"present", t.Present}, {"online", t.Online},
		{"isolated", t.Isolated}, {"nohz_full", t.NohzFull},
	} {
		fmt.Fprintf(&b, "%s %s\n", mask.name, orNone(mask.set))
	}
	fmt.Fprintf(&b, "threads per core %d\n", t.ThreadsPerCore())
	for _, level := range []struct {
		name   string
		groups []topology.Group
	}{
		{"package", t.Packages}, {"die", t.Dies}, {"l3", t.L3s}, {"core", t.Cores},
	} {
		for i, group := range level.groups {
			fmt.Fprintf(&b, "%s[%d] id %d: %s\n", level.name, i, group.ID, orNone(group.CPUs))
		}
	}
	for i, node := range t.Nodes {
		fmt.Fprintf(&b, "node[%d] id %d: %s, memory %t, distances %d\n", i, node.ID, orNone(node.CPUs), node.HasMemory, node.Distances)
	}
	for _, cpu := range t.CPUs {
		fmt.Fprintf(&b, "cpu %d: package[%d] die[%d] l3[%d] core[%d] node[%d] %s capacity %d\n",
			cpu.ID, cpu.Package, cpu.Die, cpu.L3, cpu.Core, cpu.Node, cpu.Kind, cpu.Capacity)
	}
	return b.String()
}

func orNone(set cpuset.Set) string {
	if set.IsEmpty() {
		return "none"
	}
	return set.String()
}

// checkInvariants checks the documented properties of every topology.
func checkInvariants(t testing.TB, topo *topology.Topology) {
	t.Helper()
	var ids []int
	for _, cpu := range topo.CPUs {
		ids = append(ids, cpu.ID)
		if got, ok := topo.CPU(cpu.ID); !ok || got != cpu {
			t.Errorf("CPU(%d) = %v, %t; want %v", cpu.ID, got, ok, cpu)
		}
		if !topo.ThreadSiblings(cpu.ID).Equal(topo.Cores[cpu.Core].CPUs) {
			t.Errorf("ThreadSiblings(%d) = %s; want %s", cpu.ID, topo.ThreadSiblings(cpu.ID), topo.Cores[cpu.Core].CPUs)
		}
	}
	if diff := cmp.Diff(topo.Online, cpuset.Of(ids...)); diff != "" {
		t.Errorf("CPUs are not Online (-online +cpus):\n%s", diff)
	}
	nodes := make([]topology.Group, len(topo.Nodes))
	for i, node := range topo.Nodes {
		nodes[i] = topology.Group{ID: node.ID, CPUs: node.CPUs}
		if len(node.Distances) != len(topo.Nodes) {
			t.Errorf("distances of node %d = %d; want %d", node.ID, len(node.Distances), len(topo.Nodes))
		}
	}
	for name, level := range map[string]struct {
		groups []topology.Group
		index  func(topology.CPU) int
	}{
		"core":    {topo.Cores, func(c topology.CPU) int { return c.Core }},
		"l3":      {topo.L3s, func(c topology.CPU) int { return c.L3 }},
		"die":     {topo.Dies, func(c topology.CPU) int { return c.Die }},
		"package": {topo.Packages, func(c topology.CPU) int { return c.Package }},
		"node":    {nodes, func(c topology.CPU) int { return c.Node }},
	} {
		total := 0
		for _, group := range level.groups {
			total += group.CPUs.Len()
		}
		if total != topo.Online.Len() {
			t.Errorf("the %ss have %d CPUs; want %d", name, total, topo.Online.Len())
		}
		for _, cpu := range topo.CPUs {
			if i := level.index(cpu); i < 0 || i >= len(level.groups) || !level.groups[i].CPUs.Contains(cpu.ID) {
				t.Errorf("CPU %d has %s %d, which lacks the CPU", cpu.ID, name, i)
			}
		}
	}
}
