package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// strictness orders topology policies by how much they refuse.
func strictness(policy string) int {
	order := []allocate.Policy{allocate.None, allocate.BestEffort, allocate.Restricted, allocate.SingleNUMANode}
	return max(slices.Index(order, allocate.Policy(policy)), 0)
}

// topologyPolicy is that of the configuration.
func (e *evidence) topologyPolicy() string {
	if p := e.config.Pools.Guaranteed.Options.TopologyPolicy; p != "" {
		return string(p)
	}
	return string(allocate.BestEffort)
}

// demandsHints says that containers are refused what does not fit to their hints.
func (e *evidence) demandsHints() bool {
	return strictness(e.topologyPolicy()) >= strictness(string(allocate.Restricted))
}

// or returns what the kubelet does where the setting is not set.
func (s setting) or(def string) string {
	if s.value == "" {
		return def
	}
	return s.value
}

// checkKubeletTopology: without the kubelet's CPU manager its topology manager
// aligns devices with each other, and with memory where the memory manager is
// static. It knows nothing of the CPUs that cpupoold chooses, and refuses pods
// before cpupoold sees them.
func checkKubeletTopology(e *evidence) []Finding {
	theirs, ours := e.kubelet.topology.or(string(allocate.None)), e.topologyPolicy()
	key := e.file + ": guaranteed.options.topology-policy"
	switch {
	case strictness(theirs) > strictness(ours) && strictness(theirs) >= strictness(string(allocate.Restricted)):
		return []Finding{{
			Severity: Warning,
			Subject:  key,
			Found: fmt.Sprintf("is %s, but the kubelet's topologyManagerPolicy is %s: it refuses pods whose devices are not aligned, and their CPUs may then be elsewhere",
				ours, theirs),
			Remedy: "set topology-policy: " + theirs,
		}}
	case e.demandsHints() && strictness(theirs) < strictness(ours):
		return []Finding{{
			Severity: Warning,
			Subject:  key,
			Found: fmt.Sprintf("is %s, but the kubelet's topologyManagerPolicy is %s: it may give a container devices of several NUMA nodes, which then gets no CPUs of its own",
				ours, theirs),
			Remedy: "set the kubelet's topologyManagerPolicy: " + ours,
		}}
	case strictness(theirs) > 0:
		return []Finding{{
			Severity: Info,
			Subject:  e.kubelet.topology.source,
			Found: fmt.Sprintf("%s is %s: it aligns devices with each other, and with memory if memoryManagerPolicy is Static; CPUs are aligned with them by cpupoold (topology-policy %s)",
				e.kubelet.topology.key, theirs, ours),
		}}
	}
	return nil
}

// checkKubeletMemory: the memory manager is the only one that tells the nodes of
// memory and hugepages, and it writes cpuset.mems.
func checkKubeletMemory(e *evidence) []Finding {
	const static = "Static"
	policy := e.kubelet.memory.or("None")
	var findings []Finding
	if policy == static && e.config.Pools.Guaranteed.BindMemory {
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  e.file + ": guaranteed.memory",
			Found: fmt.Sprintf("is bind, but the kubelet's memoryManagerPolicy is %s: both write cpuset.mems, and what cpupoold binds elsewhere the kubelet counts on its own node",
				policy),
			Remedy: "set guaranteed.memory: any, and topology-policy: restricted or single-numa-node for CPUs at the memory",
		})
	}
	if policy != static && e.demandsHints() {
		findings = append(findings, Finding{
			Severity: Info,
			Subject:  "kubelet",
			Found: fmt.Sprintf("memoryManagerPolicy is %s: the NUMA nodes of memory and hugepages are not known, and topology-policy %s concerns devices only",
				policy, e.topologyPolicy()),
			Remedy: "set memoryManagerPolicy: Static with reservedMemory, where hugepages must be near",
		})
	}
	return findings
}

// checkPodResources: the kubelet serves the socket whatever its policies are.
func checkPodResources(e *evidence) []Finding {
	severity, without := Info, "CPUs are chosen without regard for devices and memory"
	if e.demandsHints() {
		severity, without = Error, fmt.Sprintf("topology-policy %s has nothing to hold CPUs against", e.topologyPolicy())
	}
	socket := e.config.PodResourcesSocket
	if socket == "" {
		if !e.demandsHints() {
			return nil // switched off, and not missed
		}
		return []Finding{{
			Severity: severity,
			Subject:  e.file + ": podResourcesSocket",
			Found:    "is none: " + without,
			Remedy:   "leave the key out, or set topology-policy: best-effort",
		}}
	}
	_, err := fs.Stat(e.root, relative(socket))
	if err == nil {
		return nil
	}
	f := Finding{
		Severity: severity,
		Subject:  e.file + ": podResourcesSocket",
		Found:    fmt.Sprintf("%s cannot be used (%s): %s", socket, cause(err), without),
		Remedy:   "set the key to the socket in the kubelet's --root-dir; in a container mount its directory",
	}
	if errors.Is(err, fs.ErrNotExist) {
		f.Found = fmt.Sprintf("%s does not exist: %s", socket, without)
	}
	return []Finding{f}
}

// checkCoreType: on a machine with one kind of core nobody tells of kinds, and
// the option counts for nothing.
func checkCoreType(e *evidence) []Finding {
	o := e.config.Pools.Guaranteed.Options
	var hybrid, have bool
	for _, cpu := range e.topology.CPUs {
		hybrid = hybrid || cpu.Kind != topology.Unknown
		have = have || cpu.Kind.String() == string(o.CoreType) && e.pools.Guaranteed.Contains(cpu.ID)
	}
	if o.CoreType == "" || have {
		return nil
	}
	f := Finding{
		Severity: Info,
		Subject:  e.file + ": guaranteed.options.core-type",
		Found:    fmt.Sprintf("asks for %s cores, but this machine has one kind of core: it changes nothing", o.CoreType),
		Remedy:   "remove the key, unless the file is for other machines too",
	}
	switch {
	case hybrid && o.CoreTypeWish == allocate.Require:
		f.Severity = Error
		f.Found = fmt.Sprintf("requires %s cores, but none of CPUs %s is one: nobody gets CPUs of its own", o.CoreType, e.pools.Guaranteed)
		f.Remedy = fmt.Sprintf("give the guaranteed pool such cores (cpupoold topology shows them), or write prefer-%s", o.CoreType)
	case hybrid:
		f.Found = fmt.Sprintf("prefers %s cores, but none of CPUs %s is one: it changes nothing", o.CoreType, e.pools.Guaranteed)
		f.Remedy = "give the guaranteed pool such cores; cpupoold topology shows them"
	}
	return []Finding{f}
}

// checkIsolatedOption: isolcpus= takes effect at boot only.
func checkIsolatedOption(e *evidence) []Finding {
	if e.config.Pools.Guaranteed.Options.Isolated != allocate.Require || e.pools.Guaranteed.Overlaps(e.topology.Isolated) {
		return nil
	}
	found := "requires CPUs that are isolated at boot, and the kernel was booted without isolcpus=: nobody gets CPUs of its own"
	if !e.topology.Isolated.IsEmpty() {
		found = fmt.Sprintf("requires CPUs that are isolated at boot, but those (%s) are not among CPUs %s: nobody gets CPUs of its own",
			e.topology.Isolated, e.pools.Guaranteed)
	}
	return []Finding{{
		Severity: Error,
		Subject:  e.file + ": guaranteed.options.isolated-cpus",
		Found:    found,
		Remedy:   fmt.Sprintf("boot with isolcpus=%s, or write prefer", e.pools.Guaranteed),
	}}
}
