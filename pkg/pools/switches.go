package pools

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Annotations of pods for CRI-O's high-performance handler (cri-o, pkg/annotations/v2), which cpupoold
// reads, too. Each counts for all containers of the pod. With "/" and a name it counts for
// that container, and takes precedence.
const (
	quotaKey         = "cpu-quota.crio.io"
	loadBalancingKey = "cpu-load-balancing.crio.io"
)

// KeepsQuota reports whether these annotations of a pod let an exclusive container keep its CFS quota.
// Only the value "enable" does: by default, exclusive containers have no quota.
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

// checkSwitches reports the annotations of CRI-O, and the annotations about interrupts, of a Guaranteed pod
// that are malformed or request an unavailable feature.
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

// checkInterrupts reports an annotation about interrupts that is malformed, or without effect on this node.
func (c *classifier) checkInterrupts(p *Pod, key, value string) {
	asked, known := workload.ParseInterrupts(value)
	switch {
	case !known:
		c.report(p, "", CodeSwitchInvalid, "annotation "+clip(key)+": "+clip(value)+" is none of disable, housekeeping and enable; it is ignored")
	case asked != workload.InterruptsStay && !c.in.Interrupts:
		c.report(p, "", CodeSwitchIgnored, "annotation "+clip(key)+": interrupts stay where they are, because interrupts.away is off here")
	}
}
