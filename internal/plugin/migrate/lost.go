package migrate

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Lost returns notes about the keys of a configuration that none of the rendered formats
// has; t is the machine of Render.
func Lost(c *config.Config, formats []Format, t *topology.Topology) []Note {
	c = on(c, t)
	var notes []Note
	lost := func(is bool, key, reason, remedy string) {
		if is {
			notes = append(notes, Note{key, reason, remedy})
		}
	}
	has := func(of ...Format) bool {
		return slices.ContainsFunc(of, func(f Format) bool { return slices.Contains(formats, f) })
	}
	g, usual := c.Pools.Guaranteed, config.Default()
	const stay = "no format has it; keep the configuration"
	namespaces, list, all := false, false, false
	for _, p := range c.Pools.Partitions {
		namespaces = namespaces || len(p.Namespaces) > 0
		list, all = list || !p.All, all || p.All
	}
	lost(namespaces, "partitions[].namespaces", "no file of a node has it", "annotate the namespaces with "+workload.Names{Domain: c.AnnotationDomain}.AllowedKey()+", as OpenShift's admission demands of its own domain")
	lost(list && all && has(Kubelet), "partitions[].cpus", "a partition with all has no CPUs that the kubelet could reserve", "")
	lost(c.Pools.Shared != nil, "shared.cpus", stay, "")
	lost(!g.FromShared && !g.CPUs.IsEmpty() && !has(Kernel, MachineConfig), "guaranteed.cpus", "these formats do not have it", "render machineconfig or kernel, too")
	lost(g.Floor > 0 || g.FloorPercent > 0, "guaranteed.floor", stay, "")
	lost(g.Options != allocate.Options{} || !c.Pools.StrictReservation || len(g.Overrides) > 0, "guaranteed.options, guaranteed.overrides", "cpuManagerPolicyOptions have no meaning with cpuManagerPolicy: none", "keep the configuration")
	lost(g.Mixed.Shared, "guaranteed.mixed.cpus", "CRI-O's shared_cpuset is a list, and the shared pool changes", "write a list")
	lost(len(g.Mixed.Namespaces) > 0, "guaranteed.mixed.namespaces", "no file of a node has it", "annotate the namespaces with workload.mixedcpus.openshift.io/allowed, as OpenShift's admission demands")
	lost(!g.Claims.CPUs.IsEmpty() && (!has(Kubelet) || !has(Kernel, MachineConfig)), "guaranteed.claims", "only kubelet together with kernel or machineconfig has these CPUs: reserved, and named to the kernel", "render both")
	lost(g.Claims.Lend, "guaranteed.claims.idle", stay, "")
	lost(len(c.Pools.Units) > 0, "units", stay, "or write CPUAffinity into the units")
	lost(c.HostSlices.Enabled, "hostSlices", "CPUAffinity is what processes begin with, and they can change it; a cpuset they cannot", "keep the configuration")
	lost(c.Isolation != usual.Isolation || c.Park, "guaranteed.isolation, guaranteed.park", stay, "")
	lost(len(c.Power) > 0 || c.Interrupts != usual.Interrupts || c.KernelThreads != usual.KernelThreads, "power, interrupts, kernelThreads", stay, "")
	s := source{Config: c, topology: t}
	for _, p := range c.Pools.Partitions {
		s.management = s.management.Union(p.CPUs)
		lost(p.All && p.Type == c.Pools.Infra && has(CRIO, MachineConfig), "infraContainers", "CRI-O's infra_ctr_cpuset is a list, and this partition has all CPUs", "give it a list")
	}
	own := s.fromPools()
	lost(g.FromShared && !own.IsEmpty() && has(Kernel, MachineConfig), "guaranteed.from", "the kernel arguments name all CPUs of the shared pool, "+own.String()+": each can become exclusive, and system calls and interrupts cost ordinary pods more time there", "write a list in guaranteed.cpus to name fewer CPUs")
	lost(g.FromShared && own.IsEmpty() && has(Kernel, MachineConfig), "guaranteed.from", "the CPUs that can become exclusive are not known, and no kernel argument names them", "give the machine with --topology and a list of CPUs to a partition, or write shared.cpus or guaranteed.cpus")
	lost(!s.exclusive().IsEmpty() && s.housekeeping().IsEmpty() && has(Kernel, MachineConfig), "irqaffinity", "which CPUs are left for interrupts is not known", "give the machine with --topology, or a partition a list")
	if has(CRIO, MachineConfig) {
		notes = append(notes, Note{"otherManagers.crioWorkloads", "CRI-O places pods by these tables itself, and cpupoold does not start with them by default", "use them instead of cpupoold, or write standDown"})
	}
	return notes
}
