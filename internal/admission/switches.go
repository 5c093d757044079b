package admission

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// A Switch is what an administrator says about a workload type or about the
// resource of a pool.
type Switch string

// With SwitchOff, pods that ask for it lose it, and are told. SwitchAuto is SwitchOff
// until the first moment when every schedulable node advertises the resource, and
// SwitchOn from then on: a latch. A node that joins later without it changes nothing;
// pods that ask for the resource do not go there.
const (
	SwitchOn   Switch = "on"
	SwitchOff  Switch = "off"
	SwitchAuto Switch = "auto"
)

// Switches are all switches of a cluster. A switch that is not set is off.
type Switches struct {
	Names                      workload.Names
	Types                      map[string]Switch
	SharedCPUs, GuaranteedCPUs Switch
	// TolerateDepletion is Settings.TolerateDepletion.
	TolerateDepletion bool
}

// A Node is what decides about switches.
type Node struct {
	// Unschedulable is the node's spec.unschedulable. Taints do not make a node
	// unschedulable here: somebody tolerates them.
	Unschedulable bool
	Allocatable   corev1.ResourceList
}

// Resources returns the resources with a switch, and how it stands.
func (s Switches) Resources() map[string]Switch {
	all := map[string]Switch{s.Names.SharedResource(): s.SharedCPUs, s.Names.GuaranteedResource(): s.GuaranteedCPUs}
	for typ, is := range s.Types {
		all[s.Names.CoresResource(typ)] = is
	}
	return all
}

// Latch says whether the latch of a resource closes: every schedulable node
// advertises some of it, and there is one. A node that advertises 0 may have been
// registered anew a moment ago; the kubelet does that to all extended resources.
func Latch(resource string, nodes []Node) bool {
	schedulable := 0
	for _, n := range nodes {
		if n.Unschedulable {
			continue
		}
		schedulable++
		if q := n.Allocatable[corev1.ResourceName(resource)]; q.Sign() <= 0 {
			return false
		}
	}
	return schedulable > 0
}

// Settings returns what holds for pods that are made now. latched are the resources
// whose latch has closed.
//
// Almost every pod asks for the shared resource, DaemonSets' pods among them, which
// run on one certain node or nowhere. While a schedulable node lacks it, even a
// switch that is on is off.
func (s Switches) Settings(latched map[string]bool, nodes []Node) Settings {
	on := func(is Switch, resource string) bool { return is == SwitchOn || is == SwitchAuto && latched[resource] }
	settings := Settings{
		Names:             s.Names,
		Types:             map[string]bool{},
		SharedCPUs:        on(s.SharedCPUs, s.Names.SharedResource()) && everywhere(s.Names.SharedResource(), nodes),
		GuaranteedCPUs:    on(s.GuaranteedCPUs, s.Names.GuaranteedResource()),
		TolerateDepletion: s.TolerateDepletion,
	}
	for typ, is := range s.Types {
		if on(is, s.Names.CoresResource(typ)) {
			settings.Types[typ] = true
		}
	}
	return settings
}

// everywhere says that every schedulable node has the resource, in whatever amount,
// and that there is such a node: of one that is yet to come nothing is known.
func everywhere(resource string, nodes []Node) bool {
	schedulable := 0
	for _, n := range nodes {
		if n.Unschedulable {
			continue
		}
		schedulable++
		if _, has := n.Allocatable[corev1.ResourceName(resource)]; !has {
			return false
		}
	}
	return schedulable > 0
}
