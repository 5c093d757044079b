package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// checkStaticKubelet refuses keys that conflict with a kubelet that allocates exclusive CPUs. Then the
// kubelet chooses the CPUs, and the shared pool is the kubelet's default set.
func (d *decoder) checkStaticKubelet(c *Config) {
	if !c.Pools.Guaranteed.Kubelet {
		return
	}
	const withStatic = " with guaranteed.exclusive: kubelet"
	for _, key := range slices.Sorted(maps.Keys(d.origins.lines)) {
		if parentKey(key) == "guaranteed" && key != "guaranteed.exclusive" {
			d.fail(key, "", "has no meaning"+withStatic+": the kubelet chooses the CPUs; remove one of the two")
		}
	}
	if c.Pools.Shared != nil {
		d.fail("shared.cpus", c.Pools.Shared.String(), "cannot be set"+withStatic+": the kubelet's default set is the shared pool; remove it")
	}
	if c.Pools.Infra != "" {
		d.fail("infraContainers", c.Pools.Infra, "cannot be set"+withStatic+": pause containers run on the CPUs of their pods; remove it")
	}
	for i, p := range c.Pools.Partitions {
		key, remedy := fmt.Sprintf("partitions[%d].cpus", i), "; write a list that the kubelet reserves (reservedSystemCPUs), or remove the partition"
		switch {
		case p.All:
			d.fail(key, "all", "cannot be used"+withStatic+": the list would change with each allocation of the kubelet"+remedy)
		case p.Auto:
			d.fail(key, "auto", "cannot be used"+withStatic+": the kubelet may allocate these CPUs to containers"+remedy)
		}
	}
	for _, u := range c.Pools.Units {
		switch {
		case u.CPUs > 0:
			d.fail("units."+u.Name+".cpus", fmt.Sprint(u.CPUs), "cannot be set"+withStatic+": the kubelet does not know units; write pool: with the type of a partition")
		case u.Pool == string(pools.Shared):
			d.fail("units."+u.Name+".pool", u.Pool, "cannot be used"+withStatic+": the kubelet takes CPUs from the shared pool without asking; write the type of a partition")
		}
	}
	if !c.HasRuntime() {
		d.fail("containerRuntimeEndpoint", NoRuntime, "cannot be used"+withStatic+": the kubelet has no containers without a runtime; remove one of the two")
	}
}

// PlacesPods reports whether pods may request a workload type. Otherwise only host services use
// the management pools.
func (c *Config) PlacesPods() bool {
	listed := func(p pools.PartitionSpec) bool { return len(p.Namespaces) > 0 }
	others := c.StaticPods.All || len(c.StaticPods.Namespaces) > 0 || c.NamespacePermission == PermissionAnnotation
	return slices.ContainsFunc(c.Pools.Partitions, listed) || others && len(c.Pools.Partitions) > 0
}
