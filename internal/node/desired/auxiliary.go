package desired

import (
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// auxiliary returns the cgroups in pods that belong to no container, with their CPUs. With a
// static kubelet, only cgroups in management pods have CPUs.
func (in *Input) auxiliary(d *Decision) []auxiliary.Cgroup {
	f := auxiliary.Facts{Inventory: in.Inventory, Plan: &d.Plan, Owned: d.Owned.Union(in.Leaving), Read: in.Read,
		Wrote: func(p cgroup.Path) bool { return in.Journal.HasOriginal(p, cgroup.FileCPUs) }}
	if !in.Settings.Pools.Kubelet {
		f.Shared = d.Plan.Shared.Difference(f.Owned)
	}
	return in.Auxiliary.Place(f)
}

// sandbox returns the cgroup of a pause container in which the pod's containers run.
func (in *Input) sandbox(pod *pools.PodPlan, c *pools.Placement) (auxiliary.Cgroup, bool) {
	if c.Kind != pools.Infra || c.State == pools.Exited || !in.Inventory.HostsContainers(c.ID) {
		return auxiliary.Cgroup{}, false
	}
	e := in.Inventory.Pod(c.ID)
	if e.Pause == "" || in.Auxiliary.HasSandbox(in.Inventory, e) {
		return auxiliary.Cgroup{}, false
	}
	g, ok := auxiliary.SandboxOf(in.Inventory, pod, c.ID)
	g.Path = e.Pause
	return g, ok
}

// podTarget returns the desired state of a container's cgroup, unless a sandbox hosts it.
func (in *Input) podTarget(pod *pools.PodPlan, c *pools.Placement) (cgroup.Target, bool) {
	if c.Kind == pools.App && in.Inventory.IsHosted(c.ID) {
		return cgroup.Target{}, false
	}
	t, ok := in.containerTarget(pod, c)
	if g, hosts := in.sandbox(pod, c); ok && hosts {
		t.CPUs, t.Exclusive, t.Group, t.Mixed, t.Reason = g.CPUs, g.Exclusive, "", g.Mixed, g.Reason
	}
	return t, ok && !t.CPUs.IsEmpty()
}
