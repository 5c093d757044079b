package topology

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// localDistance is what a node's distance to itself is by definition (ACPI SLIT).
const localDistance = 10

// nodes reads the NUMA nodes. A kernel without NUMA has no directory for them;
// all CPUs are then in one node.
func (s sysfs) nodes(t *Topology) error {
	if _, ok, err := optional(fs.Stat(s.fs, nodeDir)); err != nil {
		return fmt.Errorf("read %s: %w", nodeDir, err)
	} else if !ok {
		t.Nodes = []Node{{CPUs: t.Online, Distances: []int{localDistance}, HasMemory: true}}
		return nil
	}
	online, err := s.list(path.Join(nodeDir, "online"))
	if err != nil {
		return err
	}
	withMemory, err := s.list(path.Join(nodeDir, "has_memory"))
	if err != nil {
		return err
	}
	for id := range online.All() {
		node := Node{ID: id, HasMemory: withMemory.Contains(id)}
		cpus, err := s.list(nodeFile(id, "cpulist"))
		if err != nil {
			return err
		}
		node.CPUs = cpus.Intersection(t.Online)
		if node.Distances, err = s.distances(id, online.Len()); err != nil {
			return err
		}
		t.Nodes = append(t.Nodes, node)
	}
	return t.placeInNodes()
}

// distances reads a row of the distance table. It has one column for each online
// node, in ascending order of their numbers; offline nodes have none.
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

// placeInNodes sets the node of each CPU.
func (t *Topology) placeInNodes() error {
	var placed cpuset.Set
	for i, node := range t.Nodes {
		if twice := placed.Intersection(node.CPUs); !twice.IsEmpty() {
			return fmt.Errorf("read %s: CPUs %s are in another node as well", nodeFile(node.ID, "cpulist"), twice)
		}
		placed = placed.Union(node.CPUs)
		for id := range node.CPUs.All() {
			t.CPUs[t.index(id)].Node = i
		}
	}
	if stray := t.Online.Difference(placed); !stray.IsEmpty() {
		return fmt.Errorf("read %s/node*/cpulist: CPUs %s are online but in no online node", nodeDir, stray)
	}
	return nil
}
