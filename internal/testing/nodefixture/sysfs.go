package nodefixture

import (
	"fmt"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Sysfs returns the sysfs of n CPUs in two NUMA nodes, with two threads a core.
func Sysfs(n int) fstest.MapFS {
	fs := fstest.MapFS{}
	put := func(name, value string) { fs[name] = &fstest.MapFile{Data: []byte(value + "\n")} }
	all := fmt.Sprintf("0-%d", n-1)
	for _, name := range []string{"possible", "present", "online"} {
		put("devices/system/cpu/"+name, all)
	}
	for cpu := range n {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		half := cpu / (n / 2)
		put(dir+"physical_package_id", fmt.Sprint(half))
		put(dir+"core_id", fmt.Sprint(cpu/2))
		put(dir+"core_cpus_list", fmt.Sprintf("%d-%d", cpu&^1, cpu|1))
		put(dir+"package_cpus_list", fmt.Sprintf("%d-%d", half*n/2, (half+1)*n/2-1))
	}
	put("devices/system/node/online", "0-1")
	put("devices/system/node/has_memory", "0-1")
	for i := range 2 {
		put(fmt.Sprintf("devices/system/node/node%d/cpulist", i), fmt.Sprintf("%d-%d", i*n/2, (i+1)*n/2-1))
		put(fmt.Sprintf("devices/system/node/node%d/distance", i), []string{"10 21", "21 10"}[i])
	}
	return fs
}

// withOnline removes the CPUs that are not online from a sysfs, and returns it.
func withOnline(fs fstest.MapFS, online cpuset.Set) fstest.MapFS {
	fs["devices/system/cpu/online"] = &fstest.MapFile{Data: []byte(online.String() + "\n")}
	for name := range fs {
		var cpu int
		if _, err := fmt.Sscanf(name, "devices/system/cpu/cpu%d/", &cpu); err == nil && !online.Contains(cpu) {
			delete(fs, name)
		}
	}
	return fs
}
