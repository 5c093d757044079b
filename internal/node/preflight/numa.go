package preflight

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/nodecheck"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// strictness returns the rank of a topology policy: a higher one refuses more.
func strictness(policy string) int {
	order := []allocate.Policy{allocate.None, allocate.BestEffort, allocate.Restricted, allocate.SingleNUMANode}
	return max(slices.Index(order, allocate.Policy(policy)), 0)
}

func (e *evidence) topologyPolicy() string {
	return string(cmp.Or(e.config.Pools.Guaranteed.Options.TopologyPolicy, allocate.BestEffort))
}

// requiresHints reports whether the policy refuses CPUs that do not match the hints.
func (e *evidence) requiresHints() bool {
	return strictness(e.topologyPolicy()) >= strictness(string(allocate.Restricted))
}

// checkKubeletTopology compares the topology policies. The kubelet aligns devices, and memory if the
// memory manager is static. It refuses pods before cpupoold receives them.
func checkKubeletTopology(e *evidence) {
	theirs, ours := cmp.Or(e.kubelet.topology.value, string(allocate.None)), e.topologyPolicy()
	key := e.file + ": guaranteed.options.topology-policy"
	switch {
	case strictness(theirs) > strictness(ours) && strictness(theirs) >= strictness(string(allocate.Restricted)):
		e.report(nodecheck.StricterTopology(key, ours, theirs))
	case e.requiresHints() && strictness(theirs) < strictness(ours):
		e.add(Warning, key,
			fmt.Sprintf("is %s, but the kubelet's topologyManagerPolicy is %s: it may give a container devices of several NUMA nodes, and cpupoold then refuses exclusive CPUs",
				ours, theirs),
			"set the kubelet's topologyManagerPolicy: "+ours)
	case strictness(theirs) > 0:
		e.add(Info, e.kubelet.topology.source,
			fmt.Sprintf("%s is %s: it aligns devices with each other, and with memory if memoryManagerPolicy is Static; cpupoold aligns CPUs with them (topology-policy %s)",
				e.kubelet.topology.key, theirs, ours), "")
	}
}

// checkKubeletMemory compares memory settings. The kubelet's memory manager writes cpuset.mems.
func checkKubeletMemory(e *evidence) {
	const static = "Static"
	policy := cmp.Or(e.kubelet.memory.value, "None")
	if policy == static && e.config.Pools.Guaranteed.BindMemory {
		e.add(Warning, e.file+": guaranteed.memory",
			fmt.Sprintf("is bind, but the kubelet's memoryManagerPolicy is %s: both write cpuset.mems, and cpupoold may bind memory to another node than the kubelet counts",
				policy),
			"set guaranteed.memory: any, and topology-policy: restricted or single-numa-node for CPUs at the memory")
	}
	if policy != static && e.requiresHints() {
		e.add(Info, "kubelet",
			fmt.Sprintf("memoryManagerPolicy is %s: the NUMA nodes of memory and hugepages are unknown, so topology-policy %s applies only to devices",
				policy, e.topologyPolicy()),
			"set memoryManagerPolicy: Static with reservedMemory if hugepages must be on the same NUMA node")
	}
}

// checkPodResources reports a missing socket, which the kubelet serves with every policy.
func checkPodResources(e *evidence) {
	severity, without := Info, "cpupoold chooses CPUs without the NUMA nodes of devices and memory"
	if e.requiresHints() {
		severity, without = Error, fmt.Sprintf("topology-policy %s cannot be enforced", e.topologyPolicy())
	}
	fault, remedy := "is none", "remove the key, or set topology-policy: best-effort"
	if socket := e.config.PodResourcesSocket; socket != "" {
		fault, remedy = e.socketFault(socket), "set the key to the socket in the kubelet's --root-dir; in a container mount its directory"
	} else if !e.requiresHints() {
		return // disabled, and not required
	}
	if fault != "" {
		e.add(severity, e.file+": podResourcesSocket", fault+": "+without, remedy)
	}
}

// checkCoreType reports a core type that no guaranteed CPU has, or that the kernel lacks.
func checkCoreType(e *evidence) {
	o := e.config.Pools.Guaranteed.Options
	var hybrid, have bool
	for _, cpu := range e.topology.CPUs {
		hybrid = hybrid || cpu.Kind != topology.Unknown
		have = have || cpu.Kind.String() == string(o.CoreType) && e.pools.Guaranteed.Contains(cpu.ID)
	}
	key := e.file + ": guaranteed.options.core-type"
	switch {
	case o.CoreType == "" || have:
	case hybrid && o.CoreTypePreference == allocate.Require:
		e.add(Error, key,
			fmt.Sprintf("requires %s cores, but none of CPUs %s is one: no exclusive CPUs are allocated", o.CoreType, e.pools.Guaranteed),
			fmt.Sprintf("give the guaranteed pool such cores (cpupoold topology shows them), or write prefer-%s", o.CoreType))
	case hybrid:
		e.add(Info, key,
			fmt.Sprintf("prefers %s cores, but none of CPUs %s is one: the option has no effect", o.CoreType, e.pools.Guaranteed),
			"give the guaranteed pool such cores; cpupoold topology shows them")
	default:
		e.add(Info, key,
			fmt.Sprintf("requests %s cores, but this machine has one kind of core: the option has no effect", o.CoreType),
			"remove the key, unless the file is for other machines too")
	}
}

// checkIsolatedOption reports isolated CPUs that the pool lacks: isolcpus= needs a boot.
func checkIsolatedOption(e *evidence) {
	if e.config.Pools.Guaranteed.Options.Isolated != allocate.Require || e.pools.Guaranteed.Overlaps(e.topology.Isolated) {
		return
	}
	found := "requires CPUs that are isolated at boot, but the kernel was booted without isolcpus=: no exclusive CPUs are allocated"
	if !e.topology.Isolated.IsEmpty() {
		found = fmt.Sprintf("requires CPUs that are isolated at boot, but those (%s) are not among CPUs %s: no exclusive CPUs are allocated",
			e.topology.Isolated, e.pools.Guaranteed)
	}
	e.add(Error, e.file+": guaranteed.options.isolated-cpus", found,
		fmt.Sprintf("boot with isolcpus=%s, or write prefer", e.pools.Guaranteed))
}
