package topology

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// caches groups the CPUs by last-level cache. Where the kernel shows no cache, as
// in many virtual machines, or where the CPUs contradict each other about who
// shares it, the CPUs of one package and one node stand in for the group.
func (s sysfs) caches(t *Topology) error {
	shared := make([]cpuset.Set, len(t.CPUs))
	for i, cpu := range t.CPUs {
		set, err := s.lastLevel(cpu.ID)
		if err != nil {
			return err
		}
		shared[i] = set.Intersection(t.Online)
	}
	// Either the cache's lowest CPU, or package and node.
	type key struct{ cache, pkg, node int }
	g := newGrouping[key]()
	agreed := t.agreed(shared)
	for i, cpu := range t.CPUs {
		k := key{cache: shared[i].First()}
		if !agreed.Contains(cpu.ID) {
			k = key{cache: -1, pkg: cpu.Package, node: cpu.Node}
		}
		t.CPUs[i].L3 = g.add(cpu.ID, k, cpu.ID)
	}
	t.L3s = g.groups()
	return nil
}

// agreed returns the CPUs that share a cache with themselves and with others that
// say the same.
func (t *Topology) agreed(shared []cpuset.Set) cpuset.Set {
	var agreed cpuset.Set
	for i, cpu := range t.CPUs {
		// Each group is judged once, at its lowest CPU.
		if shared[i].First() == cpu.ID && t.sameForAll(shared, i) {
			agreed = agreed.Union(shared[i])
		}
	}
	return agreed
}

func (t *Topology) sameForAll(shared []cpuset.Set, i int) bool {
	for id := range shared[i].All() {
		if !shared[t.index(id)].Equal(shared[i]) {
			return false
		}
	}
	return true
}

// lastLevel returns who shares a CPU's data cache of the highest level, which is
// level 2 for some small cores. The number in indexN is not the level. The empty
// set means that the kernel does not tell.
func (s sysfs) lastLevel(id int) (cpuset.Set, error) {
	dir := cpuFile(id, "cache")
	entries, _, err := optional(fs.ReadDir(s.fs, dir))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("read %s: %w", dir, err)
	}
	var last cpuset.Set
	highest := 0
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "index") {
			continue
		}
		index := path.Join(dir, entry.Name())
		level, shared, err := s.dataCache(index)
		if err != nil {
			return cpuset.Set{}, err
		}
		if level > highest {
			highest, last = level, shared
		}
	}
	return last, nil
}

// dataCache returns level 0 for an instruction cache, and for one of which the
// kernel hides an attribute because it does not know it (drivers/base/cacheinfo.c
// cache_default_attrs_is_visible).
func (s sysfs) dataCache(index string) (level int, shared cpuset.Set, err error) {
	kind, ok, err := optional(s.text(path.Join(index, "type")))
	if !ok || kind != "Unified" && kind != "Data" {
		return 0, cpuset.Set{}, err
	}
	level, ok, err = optional(s.number(path.Join(index, "level")))
	if !ok {
		return 0, cpuset.Set{}, err
	}
	shared, ok, err = optional(s.list(path.Join(index, "shared_cpu_list")))
	if !ok {
		return 0, cpuset.Set{}, err
	}
	return level, shared, nil
}
