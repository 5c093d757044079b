package vm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// topology is a machine's shape. NUMA nodes have equal parts of the memory and consecutive CPUs.
type topology struct {
	sockets, cores, threads int // cores per socket, threads per core
	nodes                   int
	split                   *split // nil: a socket is one die with one L3
}

// split divides each socket into dies, and each die into modules, which have an L3 each.
type split struct{ dies, modules int }

// topologies returns the machines that Config.Topology can name.
func topologies() map[string]topology {
	return map[string]topology{
		"2c1n":    {sockets: 1, cores: 2, threads: 1, nodes: 1},
		"4c1n":    {sockets: 1, cores: 4, threads: 1, nodes: 1},
		"8c2n":    {sockets: 2, cores: 4, threads: 1, nodes: 2},
		"16c2s2t": {sockets: 2, cores: 4, threads: 2, nodes: 2},
		"32c4n":   {sockets: 2, cores: 8, threads: 2, nodes: 4},                                     // two nodes per socket, as with sub-NUMA clustering
		"16c2d4l": {sockets: 1, cores: 8, threads: 2, nodes: 2, split: &split{dies: 2, modules: 2}}, // a node is a die
	}
}

func findTopology(name string) (topology, error) {
	all := topologies()
	t, ok := all[name]
	if !ok {
		return topology{}, fmt.Errorf("find topology %q: not one of %s", name, known(all))
	}
	return t, nil
}

// known lists the names of a table for an error message.
func known[V any](table map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

func (t topology) cpus() int { return t.sockets * t.cores * t.threads }

// args returns QEMU's description of the machine with that much memory in MiB.
func (t topology) args(memory int) []string {
	args := append(t.smp(), "-m", fmt.Sprintf("%dM", memory))
	cpus, part := t.cpus()/t.nodes, memory/t.nodes
	for n := range t.nodes {
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=mem%d,size=%dM", n, part),
			"-numa", fmt.Sprintf("node,nodeid=%d,cpus=%d-%d,memdev=mem%d", n, n*cpus, (n+1)*cpus-1, n))
	}
	for n := range t.nodes {
		for m := n + 1; m < t.nodes; m++ {
			args = append(args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=20", n, m))
		}
	}
	return args
}

// smp returns QEMU's description of the CPUs. TCG's own CPU is an AMD model, and its dies and caches below the socket do not reach Linux.
// With the vendor of Intel they are in CPUID's leaves 4 and 0x1f. SeaBIOS reads leaf 0x1f in a way that makes QEMU 10.0 abort
// (encode_topo_cpuid1f); qboot does not read it.
func (t topology) smp() []string {
	if t.split == nil {
		return []string{"-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", t.cpus(), t.sockets, t.cores, t.threads)}
	}
	dies, modules := t.split.dies, t.split.modules
	cores := t.cores / dies / modules
	return []string{
		"-smp", fmt.Sprintf("%d,sockets=%d,dies=%d,modules=%d,cores=%d,threads=%d", t.cpus(), t.sockets, dies, modules, cores, t.threads),
		"-machine", "smp-cache.0.cache=l3,smp-cache.0.topology=module",
		"-cpu", guestCPU + ",vendor=GenuineIntel,family=6,model=143,stepping=8",
		"-bios", "qboot.rom",
	}
}
