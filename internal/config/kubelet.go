package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// besideKubelet refuses what cannot be had where the kubelet gives containers their
// CPUs: it chooses them, and the shared pool is what it leaves.
func (d *decoder) besideKubelet(c *Config) {
	if !c.Pools.Guaranteed.Kubelet {
		return
	}
	const beside = " beside guaranteed.exclusive: kubelet"
	for _, key := range slices.Sorted(maps.Keys(d.origins.lines)) {
		if parentKey(key) == "guaranteed" && key != "guaranteed.exclusive" {
			d.fail(key, "", "has no meaning"+beside+", with which the kubelet chooses CPUs and keeps them; remove one of the two")
		}
	}
	if c.Pools.Shared != nil {
		d.fail("shared.cpus", c.Pools.Shared.String(), "is not for cpupoold to say"+beside+": the kubelet's default set is the shared pool; remove it")
	}
	if c.Pools.Infra != "" {
		d.fail("infraContainers", c.Pools.Infra, "has no place"+beside+": the kubelet gives pause containers no CPUs, and they run where their pods may; remove it")
	}
	for i, p := range c.Pools.Partitions {
		key, remedy := fmt.Sprintf("partitions[%d].cpus", i), "; write a list that the kubelet reserves (reservedSystemCPUs), or remove the partition"
		switch {
		case p.All:
			d.fail(key, "all", "has no place"+beside+": it would change with each container that the kubelet gives CPUs to"+remedy)
		case p.Auto:
			d.fail(key, "auto", "has no place"+beside+", which may give these CPUs to containers"+remedy)
		}
	}
	for _, u := range c.Pools.Units {
		switch {
		case u.CPUs > 0:
			d.fail("units."+u.Name+".cpus", fmt.Sprint(u.CPUs), "cannot be had"+beside+", which knows of no units; write pool: with the type of a partition")
		case u.Pool == string(pools.Shared):
			d.fail("units."+u.Name+".pool", u.Pool, "cannot be kept"+beside+", which gives CPUs of it away without asking; write the type of a partition")
		}
	}
	if !c.HasRuntime() {
		d.fail("containerRuntimeEndpoint", NoRuntime, "makes no sense"+beside+": the kubelet has no containers without a runtime; remove one of the two")
	}
}

// PlacesPods says that pods may ask for a workload type, and not host services alone.
func (c *Config) PlacesPods() bool {
	listed := func(p pools.PartitionSpec) bool { return len(p.Namespaces) > 0 }
	others := c.StaticPods.All || len(c.StaticPods.Namespaces) > 0 || c.NamespacePermission == PermissionAnnotation
	return slices.ContainsFunc(c.Pools.Partitions, listed) || others && len(c.Pools.Partitions) > 0
}
