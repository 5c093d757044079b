package demo

import (
	"fmt"
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// shape holds the cores and NUMA nodes of the machine, as /sys of the kernel describes them.
type shape struct {
	cores map[int]cpuset.Set // the threads of each core; the key is the lowest of them
	nodes []numaNode
}

// numaNode is a NUMA node: a set that contains only its number, and the set of its CPUs.
type numaNode struct{ id, cpus cpuset.Set }

// parseShape returns the shape that the files thread_siblings_list and cpulist of /sys describe. It
// skips all other files, and NUMA nodes without CPUs.
func parseShape(f files) (shape, error) {
	s := shape{cores: make(map[int]cpuset.Set)}
	for name, content := range f {
		dir, file := path.Split(name)
		if file != "thread_siblings_list" && file != "cpulist" {
			continue
		}
		cpus, err := cpuset.Parse(strings.TrimSpace(string(content)))
		if err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case cpus.IsEmpty(): // a node of memory alone
		case file == "thread_siblings_list":
			s.cores[cpus.First()] = cpus
		default:
			id, err := cpuset.Parse(strings.TrimPrefix(path.Base(dir), "node"))
			if err != nil {
				return s, fmt.Errorf("%s: %w", name, err)
			}
			s.nodes = append(s.nodes, numaNode{id, cpus})
		}
	}
	return s, nil
}

// wholeCores returns the number of physical cores whose threads are all in the set.
func (s shape) wholeCores(set cpuset.Set) int {
	n := 0
	for _, threads := range s.cores {
		if threads.IsSubsetOf(set) {
			n++
		}
	}
	return n
}

// nodesOf returns the numbers of the NUMA nodes with a CPU in the set.
func (s shape) nodesOf(set cpuset.Set) cpuset.Set {
	var ids cpuset.Set
	for _, n := range s.nodes {
		if n.cpus.Overlaps(set) {
			ids = ids.Union(n.id)
		}
	}
	return ids
}
