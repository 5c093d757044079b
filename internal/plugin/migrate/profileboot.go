package migrate

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// boot notes the kernel arguments that the operator makes of a profile, with their values
// (assets/performanceprofile/tuned/openshift-node-performance of cluster-node-tuning-operator 4.20).
// A configuration has no key for them, whether the guaranteed pool is a list or from: shared.
func (f *facts) boot(file string, spec *yaml.Node, c cpuSection) {
	isolated := c.sets["isolated"]
	if !isolated.IsEmpty() {
		f.bootIsolated(c, isolated, at(spec, "cpu"))
	}
	hints := file + ": spec.workloadHints."
	hint := func(name string) (on, there bool) { return f.flag(hints+name, at(spec, "workloadHints", name)) }
	realTime, there := hint("realTime")
	if realTime = realTime || !there; realTime {
		arguments := "tsc=reliable nosoftlockup nmi_watchdog=0 mce=off skew_tick=1 rcutree.kthread_prio=11"
		if !isolated.IsEmpty() {
			arguments = "nohz_full=" + isolated.String() + " " + arguments
		}
		f.bootNote(hints+"realTime", arguments, "")
	}
	if power, _ := hint("highPowerConsumption"); power {
		arguments := "processor.max_cstate=1 intel_idle.max_cstate=0"
		if realTime {
			arguments += " idle=poll"
		}
		f.bootNote(hints+"highPowerConsumption", arguments, ", or write power: [cStates] in the configuration, and let pods ask")
	}
	if power, _ := hint("perPodPowerManagement"); power {
		f.bootNote(hints+"perPodPowerManagement", "intel_pstate=passive", "")
	}
	var additional []string
	for _, item := range f.list(file+": spec.additionalKernelArgs", at(spec, "additionalKernelArgs"), "") {
		additional = append(additional, target(item).Value)
	}
	if len(additional) > 0 {
		f.bootNote(file+": spec.additionalKernelArgs", strings.Join(additional, " "), "")
	}
	f.list(file+": spec.hugepages.pages", at(spec, "hugepages", "pages"), "")
	if pages := hugepages(at(spec, "hugepages")); pages != "" {
		f.bootNote(file+": spec.hugepages", pages, "")
	}
}

// bootIsolated notes the arguments for the isolated CPUs, and CPUs that can be exclusive without
// these arguments.
func (f *facts) bootIsolated(c cpuSection, isolated cpuset.Set, cpu *yaml.Node) {
	list := isolated.String()
	kind := "managed_irq,"
	if balanced, there := f.flag(c.source+".balanceIsolated", at(cpu, "balanceIsolated")); there && !balanced {
		kind = "domain,managed_irq,"
	}
	rest := f.present.Difference(isolated)
	if f.present.IsEmpty() {
		for name, set := range c.sets {
			if name != "isolated" {
				rest = rest.Union(set)
			}
		}
	}
	arguments := "nohz=on rcu_nocbs=" + list + " isolcpus=" + kind + list
	if !rest.IsEmpty() {
		arguments += " systemd.cpu_affinity=" + rest.String()
	}
	// Profiles of the processor's vendor have these (openshift-node-performance-intel-x86, -amd-x86).
	f.bootNote(c.source+".isolated", arguments, ", and intel_iommu=on iommu=pt on Intel or iommu=pt on AMD")
	f.afterwards = append(f.afterwards, func() {
		if f.said[keyGuaranteed].value != fromShared {
			return
		}
		other := f.present
		if shared, said := f.said[keyShared]; said {
			other = parsed(shared.value)
		}
		for name, set := range c.sets {
			if name != "shared" || f.said[keyMixed].value != "" {
				other = other.Difference(set)
			}
		}
		if !other.IsEmpty() {
			f.note(c.source+".isolated", "CPUs "+other.String()+" are shared and can become exclusive, too, as with the kubelet; the kernel arguments do not name them",
				"write shared.cpus: "+list+" to take exclusive CPUs from the isolated ones alone")
		}
	})
}

// list returns the items of a list. Another kind of value is an error. of names the items for it, behind a blank.
func (f *facts) list(source string, n *yaml.Node, of string) []*yaml.Node {
	if n = target(n); n != nil && n.Kind != yaml.SequenceNode {
		f.fail("%s: is not a list%s; write one", source, of)
	}
	return items(n)
}

func (f *facts) bootNote(source, arguments, more string) {
	f.note(source, "the operator boots the kernel with "+arguments+", and a daemon cannot", "keep these arguments in the boot loader"+more)
}

// hugepages returns the arguments for huge pages. Pages of one NUMA node have no argument: a unit
// of the operator reserves them after the boot.
func hugepages(n *yaml.Node) string {
	var all []string
	if size, ok := text(n, "defaultHugepagesSize"); ok {
		all = append(all, "default_hugepagesz="+size)
	}
	for _, page := range items(at(n, "pages")) {
		size, _ := text(page, "size")
		count, _ := text(page, "count")
		if at(page, "node") == nil {
			all = append(all, "hugepagesz="+size, "hugepages="+cmp.Or(count, "0"))
		}
	}
	return strings.Join(all, " ")
}
