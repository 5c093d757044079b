// Package machines describes real machines, for tests of packages that read or use a topology.
// The descriptions are the text files in this directory. README.md states their form.
package machines

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

//go:embed *.txt
var files embed.FS

// Machine is the description of a machine.
type Machine struct {
	// Name is the name of the file, without its extension.
	Name string
	// Warnings are parts of the warnings that the reader of the machine gives, in their order.
	Warnings []string

	online, offline, isolated, nohzFull cpuset.Set

	oldNames                     bool // of the files that kernels from 5.3 on have under two names
	packages, books, dies, cores []group
	caches                       []group // number is the level
	nodes                        []group
	noMemory                     cpuset.Set // numbers of nodes
	distances                    [][]int
	capacities, frequencies      []group // number is the value
	pmus                         map[string]cpuset.Set

	want                    map[string][]group // expected groups by key, if they are not those above
	performance, efficiency cpuset.Set
}

// group is a set of CPUs with the kernel's number for it.
type group struct {
	number int
	cpus   cpuset.Set
}

// unnumbered is the number that the kernel shows for packages and dies without a number.
const unnumbered = -1

// All returns all machines, in the order of their names.
func All(t testing.TB) []*Machine {
	t.Helper()
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	machines := make([]*Machine, len(entries))
	for i, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		if machines[i], err = Parse(strings.TrimSuffix(path.Base(entry.Name()), ".txt"), string(text)); err != nil {
			t.Fatal(err)
		}
	}
	return machines
}

// Parse returns the machine that a text describes.
func Parse(name, text string) (*Machine, error) {
	m := &Machine{Name: name, pmus: make(map[string]cpuset.Set), want: make(map[string][]group)}
	hasSource := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || line == "" {
			hasSource = hasSource || strings.HasPrefix(line, "# Source: https://")
			continue
		}
		if err := m.add(line); err != nil {
			return nil, fmt.Errorf("machine %s: line %q: %w", name, line, err)
		}
	}
	if !hasSource {
		return nil, fmt.Errorf(`machine %s: no comment "# Source: https://…"`, name)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	return m, nil
}

// check returns an error if lines are missing, or if lines contradict each other without a
// line that states the expected result.
func (m *Machine) check() error {
	if m.online.IsEmpty() {
		return fmt.Errorf("no line cpus")
	}
	if both := m.online.Intersection(m.offline); !both.IsEmpty() {
		return fmt.Errorf("CPUs %s are online and offline", both)
	}
	all := m.online.Union(m.offline)
	for key, groups := range map[string][]group{"package": m.packages, "book": m.books, "die": m.dies, "core": m.cores, "node": m.nodes} {
		var placed cpuset.Set
		for _, g := range groups {
			if strange := g.cpus.Difference(all); !strange.IsEmpty() {
				return fmt.Errorf("%s: CPUs %s are neither in the line cpus nor in the line offline", key, strange)
			}
			if twice := g.cpus.Intersection(placed); !twice.IsEmpty() && m.want[key] == nil {
				return fmt.Errorf("%s: CPUs %s are in two groups, and no line want-%s states the expected ones", key, twice, key)
			}
			placed = placed.Union(g.cpus)
		}
		if missing := m.online.Difference(placed); len(groups) > 0 && key != "core" && !missing.IsEmpty() {
			return fmt.Errorf("%s: CPUs %s are in no group", key, missing)
		}
	}
	if missing := m.online.Difference(union(m.caches)); !missing.IsEmpty() && m.want["cache"] == nil {
		return fmt.Errorf("cache: CPUs %s have no cache, and no line want-cache states the expected groups", missing)
	}
	if len(m.distances) > 0 && len(m.distances) != len(m.nodes) {
		return fmt.Errorf("distance: %d rows for %d nodes", len(m.distances), len(m.nodes))
	}
	return nil
}

func union(groups []group) cpuset.Set {
	var all cpuset.Set
	for _, g := range groups {
		all = all.Union(g.cpus)
	}
	return all
}
