package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A Switch is the setting of an administrator for a workload type, or for the resource of
// a pool.
type Switch string

// With SwitchOff, pods lose the type or the resource, and get a warning. With SwitchOn,
// they keep it. SwitchAuto is SwitchOff until a latch closes, and SwitchOn from then on:
// see [Lack]. A node that joins later opens no latch.
const (
	SwitchOn   Switch = "on"
	SwitchOff  Switch = "off"
	SwitchAuto Switch = "auto"
)

// ReportedCondition is the type of the node condition that each daemon writes, together
// with the resources of its node. Package nodestatus has the same value; this package
// must not import it.
const ReportedCondition corev1.NodeConditionType = "CPUPoolsReady"

// Switches are all switches of a cluster. A switch that is not set is off.
type Switches struct {
	Types                      map[string]Switch
	SharedCPUs, GuaranteedCPUs Switch
	// Others has the settings without a switch.
	Others Settings
}

// A Node is the part of a Node that decides about switches.
type Node struct {
	Name string
	// Unschedulable is the node's spec.unschedulable. Taints do not make a node
	// unschedulable here: some pods tolerate them.
	Unschedulable bool
	Allocatable   corev1.ResourceList
	// Reported is true if the node has ReportedCondition, with any status.
	Reported bool
	// WithoutDaemon is true if no daemon can run on the node (package nodekind). Such a node
	// keeps no latch open, because it never advertises a resource.
	WithoutDaemon bool
}

// has reports whether a node has a resource, in any amount.
func (n *Node) has(resource string) bool {
	_, has := n.Allocatable[corev1.ResourceName(resource)]
	return has
}

// advertises reports whether a node has a resource that its daemon stands for. An amount
// of 0 can be old: a kubelet that registers its Node again sets all extended resources to
// 0, also where no daemon runs. With the condition it is the daemon's amount, of
// a pool that uncounted pods use completely.
func (n *Node) advertises(resource string) bool {
	q, has := n.Allocatable[corev1.ResourceName(resource)]
	return q.Sign() > 0 || has && n.Reported
}

// Resources returns the resources with a switch, and their switches.
func (s Switches) Resources() map[string]Switch {
	names := s.Others.Names
	all := map[string]Switch{names.SharedResource(): s.SharedCPUs, names.GuaranteedResource(): s.GuaranteedCPUs}
	for typ, is := range s.Types {
		all[names.CoresResource(typ)] = is
	}
	return all
}

// A Lack counts the nodes that keep the latch of a resource open. Only schedulable nodes on which a
// daemon can run count. The latch closes when such nodes exist, and none of them keeps it open.
//
// Pods that request a resource wait until a node has enough of it. So for the shared pool
// and for workload types each node must advertise the resource. A guaranteed pool is
// optional: one node that advertises it is enough, if the pools of all other nodes are
// known. Otherwise the first node of an installation would get all pods with whole CPUs.
type Lack struct {
	// Schedulable is the number of schedulable nodes on which a daemon can run.
	Schedulable int
	// Nodes is the number of schedulable nodes that keep the latch open.
	Nodes int
	// Example is the name of one of these, the first in alphabetical order.
	Example string
}

// Closes reports whether the latch closes.
func (l Lack) Closes() bool { return l.Schedulable > 0 && l.Nodes == 0 }

// Lacks returns the lack of each resource with a switch.
func (s Switches) Lacks(nodes []Node) map[string]Lack {
	all := map[string]Lack{}
	for resource := range s.Resources() {
		all[resource] = s.lack(resource, schedulable(nodes))
	}
	return all
}

// schedulable returns the schedulable nodes on which a daemon can run.
func schedulable(nodes []Node) []Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Unschedulable || n.WithoutDaemon })
}

// lack returns the lack of a resource among schedulable nodes.
func (s Switches) lack(resource string, nodes []Node) Lack {
	serves := func(n Node) bool { return n.advertises(resource) }
	if names := s.Others.Names; resource == names.GuaranteedResource() && slices.ContainsFunc(nodes, serves) {
		serves = func(n Node) bool {
			return n.advertises(resource) || n.has(names.SharedResource()) || n.Reported
		}
	}
	l := Lack{Schedulable: len(nodes)}
	for _, n := range nodes {
		if serves(n) {
			continue
		}
		if l.Nodes == 0 || n.Name < l.Example {
			l.Example = n.Name
		}
		l.Nodes++
	}
	return l
}

// Settings returns the settings for pods that are created now. latched are the resources
// with a closed latch.
//
// Almost all pods request the shared resource. Among them are pods of DaemonSets, which
// run on one node only. While a schedulable node lacks the resource, even a switch that is
// on is off.
func (s Switches) Settings(latched map[string]bool, nodes []Node) Settings {
	on := func(is Switch, resource string) bool { return is == SwitchOn || is == SwitchAuto && latched[resource] }
	settings, shared, able := s.Others, s.Others.Names.SharedResource(), schedulable(nodes)
	settings.Types, settings.Waits, settings.WithoutDaemon = map[string]bool{}, map[string]Lack{}, map[string]bool{}
	settings.SharedCPUs = on(s.SharedCPUs, shared) && len(able) > 0 && !slices.ContainsFunc(able, func(n Node) bool { return !n.has(shared) })
	settings.GuaranteedCPUs = on(s.GuaranteedCPUs, settings.Names.GuaranteedResource())
	for _, n := range nodes {
		if n.WithoutDaemon {
			settings.WithoutDaemon[n.Name] = true
		}
	}
	for typ, is := range s.Types {
		settings.Types[typ] = on(is, settings.Names.CoresResource(typ))
	}
	for resource, is := range s.Resources() {
		open := is == SwitchAuto && !latched[resource]
		if open || on(is, resource) && resource == shared && !settings.SharedCPUs {
			settings.Waits[resource] = s.lack(resource, able)
		}
	}
	return settings
}
