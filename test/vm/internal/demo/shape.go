package demo

import (
	"fmt"
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// shape holds the machine's cores and NUMA nodes in the kernel.
type shape struct {
	cores map[int]cpuset.Set // threads, by the first of them
	nodes []numaNode
}

// numaNode is the number of a node, alone in a set, and its CPUs.
type numaNode struct{ id, cpus cpuset.Set }

// parseShape finds the machine's shape among files of /sys.
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

// wholeCores is of how many physical cores a set has all threads.
func (s shape) wholeCores(set cpuset.Set) int {
	n := 0
	for _, threads := range s.cores {
		if threads.IsSubsetOf(set) {
			n++
		}
	}
	return n
}

// nodesOf are the NUMA nodes that a set has CPUs of.
func (s shape) nodesOf(set cpuset.Set) cpuset.Set {
	var ids cpuset.Set
	for _, n := range s.nodes {
		if n.cpus.Overlaps(set) {
			ids = ids.Union(n.id)
		}
	}
	return ids
}
