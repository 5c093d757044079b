package machines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Sysfs returns the files about CPUs, caches and nodes that the kernel of the machine shows
// below /sys.
func (m *Machine) Sysfs() fstest.MapFS {
	sys := fstest.MapFS{}
	put := func(name, format string, args ...any) {
		sys["devices/"+name] = &fstest.MapFile{Data: fmt.Appendf(nil, format+"\n", args...)}
	}
	all := m.online.Union(m.offline)
	for name, set := range map[string]cpuset.Set{"possible": all, "present": all, "online": m.online, "isolated": m.isolated, "nohz_full": m.nohzFull} {
		put("system/cpu/"+name, "%s", set)
	}
	siblings, packageCPUs := "core_cpus_list", "package_cpus_list"
	if m.oldNames {
		siblings, packageCPUs = "thread_siblings_list", "core_siblings_list"
	}
	for cpu := range m.online.All() {
		dir := fmt.Sprintf("system/cpu/cpu%d/", cpu)
		put(dir+"topology/"+siblings, "%s", m.of(m.cores, cpu, cpuset.Of(cpu)).cpus)
		pkg := m.of(m.packages, cpu, m.online)
		put(dir+"topology/physical_package_id", "%d", pkg.number)
		put(dir+"topology/"+packageCPUs, "%s", pkg.cpus)
		for name, groups := range map[string][]group{"topology/book_id": m.books, "topology/die_id": m.dies, "cpu_capacity": m.capacities, "cpufreq/cpuinfo_max_freq": m.frequencies} {
			if len(groups) > 0 {
				put(dir+name, "%d", m.of(groups, cpu, cpuset.Set{}).number)
			}
		}
		index := 0
		for _, c := range m.caches {
			if c.cpus.Contains(cpu) {
				cache := fmt.Sprintf("%scache/index%d/", dir, index)
				put(cache+"level", "%d", c.number)
				put(cache+"type", "%s", map[bool]string{true: "Data", false: "Unified"}[c.number == 1])
				put(cache+"shared_cpu_list", "%s", c.cpus.Intersection(m.online))
				index++
			}
		}
	}
	for name, cpus := range m.pmus {
		put(name+"/cpus", "%s", cpus)
	}
	m.putNodes(put)
	return sys
}

func (m *Machine) putNodes(put func(name, format string, args ...any)) {
	if len(m.nodes) == 0 {
		return
	}
	nodes := sorted(m.nodes)
	var ids cpuset.Set
	for i, n := range nodes {
		ids = ids.Union(cpuset.Of(n.number))
		dir := fmt.Sprintf("system/node/node%d/", n.number)
		put(dir+"cpulist", "%s", n.cpus.Intersection(m.online))
		put(dir+"distance", "%s", strings.Trim(fmt.Sprint(m.row(i)), "[]"))
	}
	put("system/node/online", "%s", ids)
	put("system/node/has_memory", "%s", ids.Difference(m.noMemory))
}

// row returns the distances of the node at a position. If the source does not show them, the
// distances are LOCAL_DISTANCE and REMOTE_DISTANCE (include/linux/topology.h), as on a machine
// without a table.
func (m *Machine) row(i int) []int {
	if len(m.distances) > 0 {
		return m.distances[i]
	}
	row := slices.Repeat([]int{20}, max(1, len(m.nodes)))
	row[i] = 10
	return row
}

// of returns the group of a CPU, with its online CPUs, or a group 0 of other CPUs.
func (m *Machine) of(groups []group, cpu int, other cpuset.Set) group {
	for _, g := range groups {
		if g.cpus.Contains(cpu) {
			return group{g.number, g.cpus.Intersection(m.online)}
		}
	}
	return group{0, other}
}

// sorted returns groups in the order of their numbers.
func sorted(groups []group) []group {
	return slices.SortedFunc(slices.Values(groups), func(a, b group) int { return cmp.Compare(a.number, b.number) })
}
