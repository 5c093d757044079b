package topology

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// localDistance is a node's distance to itself by definition (ACPI SLIT).
const localDistance = 10

// readNodes reads the NUMA nodes. If the directory is missing, the kernel does not support
// NUMA, and all CPUs are in one node.
func (r *scan) readNodes() error {
	if _, ok, err := optional(fs.Stat(r.fs, nodeDir)); err != nil {
		return fmt.Errorf("read %s: %w", nodeDir, err)
	} else if !ok {
		r.nodes = []Node{{Distances: []int{localDistance}, HasMemory: true}}
		return nil
	}
	online, err := r.list(path.Join(nodeDir, "online"))
	if err != nil {
		return err
	}
	withMemory, err := r.list(path.Join(nodeDir, "has_memory"))
	if err != nil {
		return err
	}
	var placed, repeated, repeating cpuset.Set
	for id := range online.All() {
		node := Node{ID: id, HasMemory: withMemory.Contains(id)}
		cpus, err := r.list(nodeFile(id, "cpulist"))
		if err != nil {
			return err
		}
		if node.Distances, err = r.distances(id, online.Len()); err != nil {
			return err
		}
		r.nodes = append(r.nodes, node)
		cpus = cpus.Intersection(r.online)
		if twice := cpus.Intersection(placed); !twice.IsEmpty() {
			repeated, repeating = repeated.Union(twice), repeating.Union(cpuset.Of(id))
		}
		for cpu := range cpus.Difference(placed).All() {
			r.places[r.index(cpu)].Node = id
		}
		placed = placed.Union(cpus)
	}
	if stray := r.online.Difference(placed); !stray.IsEmpty() {
		return fmt.Errorf("read %s/node*/cpulist: CPUs %s are online but in no online node", nodeDir, stray)
	}
	if !repeated.IsEmpty() {
		r.warn("CPUs %s are in several NUMA nodes: each belongs to its first node, and nodes %s have these CPUs no more. "+
			"Remove numa=fake from the kernel command line, or correct the firmware's NUMA settings", repeated, repeating)
	}
	return nil
}

// distances reads a row of the distance table. It has one column for each online
// node, in ascending order of their numbers, and no columns for offline nodes.
func (s sysfs) distances(id, columns int) ([]int, error) {
	name := nodeFile(id, "distance")
	text, err := s.text(name)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(text)
	if len(fields) != columns {
		return nil, fmt.Errorf("read %s: %d distances for %d online nodes", name, len(fields), columns)
	}
	row := make([]int, columns)
	for i, field := range fields {
		distance, err := strconv.ParseUint(field, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("read %s: %q is not a distance", name, field)
		}
		row[i] = int(distance)
	}
	return row, nil
}
