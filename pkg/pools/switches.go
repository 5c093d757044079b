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

// KeepsQuota reports whether an exclusive container of a pod with these annotations keeps
// its quota although its CPUs bound it.
func KeepsQuota(annotations map[string]string, container string) bool {
	if len(annotations) == 0 {
		return false
	}
	value, found := annotations[quotaKey+"/"+container]
	if !found {
		value = annotations[quotaKey]
	}
	return value == "enable"
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

// checkInterrupts reports interrupt requests of a pod that have no effect.
func (c *classifier) checkInterrupts(p *Pod, key, value string) {
	asked, known := workload.ParseInterrupts(value)
	switch {
	case !known:
		c.report(p, "", CodeSwitchInvalid, "annotation "+clip(key)+": "+clip(value)+" is none of disable, housekeeping and enable; it is ignored")
	case asked != workload.InterruptsStay && !c.in.Interrupts:
		c.report(p, "", CodeSwitchIgnored, "annotation "+clip(key)+": interrupts stay where they are, because interrupts.away is off here")
	}
}
