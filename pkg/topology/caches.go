package topology

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// readCaches reads the last-level caches. If the kernel shows no cache, as in many virtual
// machines, or if the CPUs disagree about the CPUs that share it, the cache is not known.
func (r *scan) readCaches() error {
	shared := make([]cpuset.Set, len(r.places))
	for i := range r.places {
		set, err := r.lastLevel(r.places[i].ID)
		if err != nil {
			return err
		}
		r.places[i].L3, shared[i] = -1, set.Intersection(r.online)
	}
	for i, of := range shared {
		// Each cache is examined once, at its lowest CPU.
		if of.First() == r.places[i].ID && r.sameForAll(shared, of) {
			for id := range of.All() {
				r.places[r.index(id)].L3 = of.First()
			}
		}
	}
	return nil
}

func (r *scan) sameForAll(shared []cpuset.Set, of cpuset.Set) bool {
	for id := range of.All() {
		if !shared[r.index(id)].Equal(of) {
			return false
		}
	}
	return true
}

// lastLevel returns the CPUs that share a CPU's data cache of the highest level, which is
// level 2 for some small cores. The number in indexN is not the level. It returns the empty
// set if the kernel shows no cache.
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
