package pools

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Annotations of CRI-O's high-performance handler on pods written for it
// (cri-o, pkg/annotations/v2). Each counts for all containers of the pod. With "/" and a
// name it counts for that container, and takes precedence.
const (
	quotaKey         = "cpu-quota.crio.io"
	loadBalancingKey = "cpu-load-balancing.crio.io"
)

// crioSwitch reads one of CRI-O's switches: off for the value "disable", or "true"
// in its deprecated form. An empty container stands for the pod's own annotation.
func crioSwitch(annotations map[string]string, key, container string) (off, found, valid bool) {
	value, found := annotations[key+"/"+container]
	if container == "" || !found {
		value, found = annotations[key]
	}
	switch value {
	case "disable", "true":
		return true, found, true
	case "enable":
		return false, found, true
	}
	return false, found, !found
}

// KeepsQuota reports whether an exclusive container of a pod with these annotations keeps
// its quota although its CPUs bound it.
func KeepsQuota(annotations map[string]string, container string) bool {
	if len(annotations) == 0 {
		return false
	}
	off, found, valid := crioSwitch(annotations, quotaKey, container)
	return found && valid && !off
}

// checkSwitches reports features of CRI-O that a Guaranteed pod requests and that are unavailable.
func (c *classifier) checkSwitches(p *Pod) {
	for key, value := range p.Annotations {
		name, _, _ := strings.Cut(key, "/")
		switch {
		case c.in.Names.AsksAboutInterrupts(key):
			c.checkInterrupts(p, key, value)
		case name != quotaKey && name != loadBalancingKey:
		case value != "disable" && value != "true" && value != "enable":
			c.report(p, "", CodeSwitchInvalid, "annotation "+clip(key)+": "+clip(value)+" is neither disable nor enable; it is ignored")
		case name != loadBalancingKey || value == "enable":
		case !c.in.Partitions:
			c.report(p, "", CodeSwitchIgnored, "annotation "+clip(key)+": load balancing stays on, because exclusive CPUs are no cpuset partitions here")
		case value != "disable":
			c.report(p, "", CodeSwitchIgnored, "annotation "+clip(key)+": load balancing stays on, because only disable switches it off")
		}
	}
}

// checkInterrupts reports what a pod asks of interrupts and cannot have.
func (c *classifier) checkInterrupts(p *Pod, key, value string) {
	asked, known := workload.ParseInterrupts(value)
	switch {
	case !known:
		c.report(p, "", CodeSwitchInvalid, "annotation "+clip(key)+": "+clip(value)+" is none of disable, housekeeping and enable; it is ignored")
	case asked != workload.InterruptsStay && !c.in.Interrupts:
		c.report(p, "", CodeSwitchIgnored, "annotation "+clip(key)+": interrupts stay where they are, because interrupts.away is off here")
	}
}
