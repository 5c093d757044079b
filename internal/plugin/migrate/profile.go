package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// cpuSection is spec.cpu of a PerformanceProfile.
type cpuSection struct {
	sets map[string]cpuset.Set // by key; a missing list has no entry
	// pinning is workloads.enablePinning. pins is true if the profile has the key.
	pinning, pins bool
	source        string
}

// profile takes a PerformanceProfile (performance.openshift.io/v2).
func (f *facts) profile(o object, reading Reading) {
	file, spec := o.file, at(o.doc, "spec")
	for _, p := range pairs(spec) {
		f.profileKey(file+": spec."+p.key, p)
	}
	mixed, _ := f.flag(file+": spec.workloadHints.mixedCpus", at(spec, "workloadHints", "mixedCpus"))
	cpu, ok := f.cpuSection(file, spec)
	if !ok {
		return
	}
	if mixed && cpu.sets["shared"].IsEmpty() {
		f.fail("%s: spec.workloadHints.mixedCpus %w", file, ErrNoShared)
		return
	}
	if reading == Documents {
		f.asDocumented(cpu, mixed)
	} else {
		f.asImplemented(cpu, mixed)
	}
	f.besides(cpu, mixed)
	f.boot(file, spec, cpu)
	f.experimental(o)
	policy, ok := text(spec, "numa", "topologyPolicy")
	if !ok {
		policy = "best-effort" // the operator's default
	}
	f.topologyPolicy(policy, file+": spec.numa.topologyPolicy")
	f.profileVersion(o)
	if _, said := f.said[keyOptions+"full-pcpus-only"]; !said && policy == "single-numa-node" {
		f.say(keyOptions+"full-pcpus-only", "true", file+": spec.numa.topologyPolicy")
	}
}

// profileVersion reads the version. In older versions, the operator moves interrupts away.
func (f *facts) profileVersion(o object) {
	source := o.file + ": apiVersion"
	switch version, _ := text(o.doc, "apiVersion"); version {
	case "", "performance.openshift.io/v2":
	case "performance.openshift.io/v1", "performance.openshift.io/v1alpha1":
		if at(o.doc, "spec", "globallyDisableIrqLoadBalancing") == nil {
			f.say(keyAway, "exclusive", source)
			f.note(source, "the operator makes version 2 of it, with globallyDisableIrqLoadBalancing: true", "")
		}
	default:
		f.note(source, shorten(version)+" is not known, and is read as performance.openshift.io/v2", "compare the configuration with the operator's result")
	}
}

// experimental reads the annotation with parts of a KubeletConfiguration. The operator
// overwrites its policy, reserved CPUs and topology policy.
func (f *facts) experimental(o object) {
	const key = "kubeletconfig.experimental"
	snippet, ok := text(o.doc, "metadata", "annotations", key)
	if !ok {
		return
	}
	source := o.file + ": metadata.annotations." + key
	docs, err := documents([]byte(snippet))
	if err != nil || len(docs) != 1 || docs[0].Kind != yaml.MappingNode {
		f.fail("%s: %w as an object of a KubeletConfiguration", source, ErrSyntax)
		return
	}
	s := merged([]object{{file: source, doc: docs[0]}})
	f.kubeletOptions(s)
	f.kubeletBesides(s, true)
	for _, key := range []string{"cpuManagerPolicy", "reservedSystemCPUs", "topologyManagerPolicy"} {
		if _, source, ok := s.text(key); ok {
			f.note(source, "the operator writes its own over it", "")
		}
	}
}

// cpuSection reads the sets, which must not overlap. The documents let isolated be left
// out with enablePinning, and then pods are pinned to the whole machine.
func (f *facts) cpuSection(file string, spec *yaml.Node) (c cpuSection, ok bool) {
	c = cpuSection{sets: map[string]cpuset.Set{}, source: file + ": spec.cpu"}
	before := len(f.errs)
	n := at(spec, "cpu")
	if n == nil || n.Kind != yaml.MappingNode {
		f.fail("%s %w: a profile must list CPUs", c.source, ErrRequired)
		return c, false
	}
	for _, path := range [][]string{{"workloads"}, {"cpu", "workloads"}} {
		workloads := at(spec, path...)
		source := file + ": spec." + strings.Join(path, ".")
		if on, there := f.flag(source+".enablePinning", at(workloads, "enablePinning")); there {
			c.pinning, c.pins = on, true
		}
		f.others(source, workloads, "enablePinning")
	}
	names := []string{"reserved", "isolated", "shared", "offlined", "ovsDpdk"}
	for _, name := range names {
		if value := at(n, name); value != nil && value.Kind == yaml.SequenceNode {
			f.fail("%s.%s: is a list of YAML; write a text such as %s: \"0-3\"", c.source, name, name)
			continue
		}
		list, there := text(n, name)
		required := (name == "reserved" || name == "isolated") && !c.pinning
		if required && list == "" {
			f.fail("%s.%s %w; write a list such as 0-3", c.source, name, ErrRequired)
			continue
		}
		if there {
			c.sets[name] = f.cpus(c.source+"."+name, list)
		}
	}
	for i, a := range names {
		for _, b := range names[:i] {
			if both := c.sets[a].Intersection(c.sets[b]); !both.IsEmpty() {
				f.fail("%s.%s and %s %w: %s", c.source, b, a, ErrOverlap, both)
			}
		}
	}
	return c, len(f.errs) == before
}

// asImplemented: the operator pins to reserved, and the kubelet gives CPUs away that it
// shares otherwise.
func (f *facts) asImplemented(c cpuSection, mixed bool) {
	reserved := c.sets["reserved"]
	f.say(partitionKey("management"), listOrAll(reserved), c.source+".reserved")
	f.say(keyGuaranteed, fromShared, c.source+".isolated")
	if !reserved.IsEmpty() {
		f.say(keyInfra, reserved.String(), c.source+".reserved")
	}
	f.afterwards = append(f.afterwards, func() {
		if !f.partitioned && !reserved.IsEmpty() {
			f.note(c.source+".reserved", "it becomes the management pool by assumption: a profile does not show whether the cluster was installed with cpuPartitioningMode: AllNodes",
				"leave out partitions and infraContainers if it was not, or give the nodes' 99-workload-pinning.conf, too")
		}
	})
	if c.pins {
		f.note(c.source+".workloads.enablePinning", "is not a field of today's operator, which pins to reserved when the cluster was installed with cpuPartitioningMode: AllNodes",
			"--reading documents pins as the enhancement states")
	}
	if mixed {
		f.say(keyMixed, c.sets["shared"].String(), c.source+".shared")
	} else if !c.sets["shared"].IsEmpty() {
		f.note(c.source+".shared", "CPUs "+c.sets["shared"].String()+" change nothing today without workloadHints.mixedCpus, and are in the shared pool like all CPUs in no list",
			"--reading documents makes them the shared pool, and isolated the guaranteed one")
	}
}

// asDocumented makes three pools with a shared set (shared-and-guaranteed-cpu-pools). Without
// one, enablePinning pins to isolated (wide-availability-workload-partitioning).
func (f *facts) asDocumented(c cpuSection, mixed bool) {
	reserved, isolated, shared := c.sets["reserved"], c.sets["isolated"], c.sets["shared"]
	management := partitionKey("management")
	switch {
	case !shared.IsEmpty() && !mixed && !isolated.IsEmpty():
		f.say(management, listOrAll(reserved), c.source+".reserved")
		f.say(keyShared, shared.String(), c.source+".shared")
		f.say(keyGuaranteed, isolated.String(), c.source+".isolated")
		if c.pins {
			f.note(c.source+".workloads.enablePinning", "a shared set overrides it: management pods are pinned to reserved, as shared-and-guaranteed-cpu-pools states",
				"leave out cpu.shared to pin them to isolated, as wide-availability-workload-partitioning states")
		}
	case c.pinning:
		f.byText = true
		f.say(management, listOrAll(isolated), c.source+".isolated")
		f.say(keyGuaranteed, fromShared, c.source)
		f.note(c.source+".reserved", "by the documents management pods are pinned to isolated, not to reserved; reserved CPUs are in the shared pool here",
			"--reading implementation pins to reserved, as today's operator does")
	case c.pins:
		f.byText = true
		f.say(management, allCPUs, c.source+".workloads.enablePinning")
		f.say(keyGuaranteed, fromShared, c.source+".isolated")
		f.say(keyFloor, strconv.Itoa(reserved.Len()), c.source+".reserved")
		f.note(c.source+".reserved", "without pinning management pods run everywhere; as many CPUs as reserved has stay shared, but not these",
			"write them as cpus of the partition to keep them")
	default:
		f.say(management, listOrAll(reserved), c.source+".reserved")
		f.say(keyGuaranteed, fromShared, c.source+".isolated")
	}
	if mixed {
		f.say(keyMixed, shared.String(), c.source+".shared")
	}
}

// besides reads the sets that make no pool. If one has CPUs, the shared pool must be a list
// without them. Otherwise it has all CPUs that the kubelet does not reserve, also CPUs in
// no set.
func (f *facts) besides(c cpuSection, mixed bool) {
	if set := c.sets["offlined"]; !set.IsEmpty() {
		f.note(c.source+".offlined", "cpupoold takes no CPU offline; "+set.String()+" are in no pool while they are, and in the shared pool if it has the rest",
			"keep what takes them offline, such as a systemd unit that writes to /sys/devices/system/cpu/cpuN/online")
	}
	set := c.sets["ovsDpdk"]
	if _, said := f.said[keyShared]; !said && (mixed || !set.IsEmpty()) {
		f.sharedBeside(c, mixed)
	}
	if set.IsEmpty() {
		return
	}
	f.say(keyBesides, set.String(), c.source+".ovsDpdk")
	f.note(c.source+".ovsDpdk", "CPUs "+set.String()+" are in no pool here, so that no pod runs there", "pin OVS to them as before, or name its unit in units")
}

func (f *facts) sharedBeside(c cpuSection, mixed bool) {
	shared := c.sets["isolated"]
	if shared.IsEmpty() {
		return
	}
	if f.present.IsEmpty() {
		f.note(c.source+".isolated", "it is the shared pool, and CPUs of the machine in none of the sets are in no pool here", "give the machine with --topology to have them in it, such as --topology 1s16c2t")
	} else {
		shared = f.present.Difference(c.sets["reserved"]).Difference(c.sets["ovsDpdk"]).Difference(c.sets["offlined"])
		if mixed {
			shared = shared.Difference(c.sets["shared"])
		}
	}
	f.say(keyShared, shared.String(), c.source+".isolated")
}

func (f *facts) others(source string, n *yaml.Node, known ...string) {
	for _, p := range pairs(n) {
		if !slices.Contains(known, p.key) {
			f.note(source+"."+p.key, "is not known", "")
		}
	}
}

// profileKey reads, or notes, a key of spec other than cpu and numa.
func (f *facts) profileKey(source string, p pair) {
	switch p.key {
	case "realTimeKernel":
		if on, _ := f.flag(source+".enabled", at(p.value, "enabled")); on {
			f.note(source, "which kernel runs is the operating system's", "install the real-time kernel as the distribution does")
		}
	case "hugepages":
		for n, page := range items(at(p.value, "pages")) {
			if at(page, "node") != nil {
				f.note(fmt.Sprintf("%s.pages[%d]", source, n), described(target(page))+"a unit reserves these pages on one NUMA node after the boot", "keep such a unit: /sys/devices/system/node/nodeN/hugepages has the files")
			}
		}
	case "net":
		f.note(source, "queues of network devices are not cpupoold's", "set them with ethtool -L; interrupts.away keeps their interrupts off exclusive CPUs")
	case "additionalKernelArgs": // read by boot
	case "nodeSelector", "machineConfigLabel", "machineConfigPoolSelector":
		f.note(source, "a configuration is for one node, and selects no nodes", "give it to these nodes, by a DaemonSet with such a nodeSelector or as a file")
	case "kernelPageSize", "hardwareTuning":
		f.note(source, "is not about CPU pools", "set it where the machine boots, as before")
	case "globallyDisableIrqLoadBalancing":
		if on, _ := f.flag(source, p.value); on {
			f.say(keyAway, "exclusive", source)
		}
	case "cpu":
		if on, there := f.flag(source+".balanceIsolated", at(p.value, "balanceIsolated")); there && !on {
			f.note(source+".balanceIsolated", "load balancing is off on all isolated CPUs there (isolcpus=domain), and here container by container",
				"write guaranteed.isolation: partition, and annotate pods with cpu-load-balancing.workload.openshift.io/CONTAINER: disable")
		}
		f.others(source, p.value, "reserved", "isolated", "shared", "offlined", "ovsDpdk", "balanceIsolated", "workloads")
	case "workloads": // read with cpu
	case "workloadHints":
		if on, _ := f.flag(source+".perPodPowerManagement", at(p.value, "perPodPowerManagement")); on {
			f.say(keyPower, "[cStates, governor]", source+".perPodPowerManagement")
		}
		f.others(source, p.value, "realTime", "highPowerConsumption", "perPodPowerManagement", "mixedCpus")
	case "numa":
		f.others(source, p.value, "topologyPolicy")
	default:
		f.note(source, "is not known", "")
	}
}
