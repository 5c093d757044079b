package main

import (
	"cmp"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// auxiliaryLines describes the cgroups in pods that belong to no container. A node has a
// monitor for each container, so cgroups of one kind on the same CPUs share a line.
func auxiliaryLines(all []inspect.Auxiliary) (lines []string) {
	names := map[string]string{"monitor": "conmon", "sandbox": "the containers of a pod in one cgroup"}
	type key struct{ kind, cpus string }
	counts := make(map[key]int)
	for i := range all {
		counts[key{all[i].Kind, all[i].CPUs.String()}]++
	}
	for i := range all {
		g := &all[i]
		k := key{g.Kind, g.CPUs.String()}
		n := counts[k]
		delete(counts, k)
		name := cmp.Or(names[g.Kind], "a cgroup of no container")
		switch {
		case n == 1:
			lines = append(lines, fmt.Sprintf("%s on CPUs %s (%s %s)", name, g.CPUs, cmp.Or(g.Pod, "unknown pod"), g.Cgroup))
		case n > 1:
			lines = append(lines, fmt.Sprintf("%d times %s on CPUs %s", n, name, g.CPUs))
		}
	}
	return lines
}
