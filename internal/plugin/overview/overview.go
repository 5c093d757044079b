// Package overview computes the pools, requests and health of nodes. Its input are objects
// of the API server: Nodes with their extended resources and conditions, Pods with their
// requests, and ResourceSlices and ResourceClaims with their CPUs. The package is pure.
package overview

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Version is the version of the document.
const Version = 1

// Conditions that the daemon keeps (internal/node/nodestatus).
const (
	readyType    corev1.NodeConditionType = "CPUPoolsReady"
	allAsPlanned                          = "AsPlanned" // reason of readyType without anything to report
	pressureType corev1.NodeConditionType = "NodeCPUPressure"
)

// Document is an overview as JSON.
type Document struct {
	Version int    `json:"version"`
	Nodes   []Node `json:"nodes"`
}

// Health of a node's pools.
const (
	Ready    = "ready"     // the node is in the desired state
	NotReady = "not ready" // the daemon reports a fault
	Depleted = "depleted"  // the shared pool is below its floor
	Stale    = "stale"     // the node's reports have stopped
	NoPools  = "no pools"  // no daemon has reported pools
	Untold   = "untold"    // resources without a condition: the daemon writes none
	Unknown  = "unknown"   // the daemon does not report it
)

// Node is a node with its pools.
type Node struct {
	Name string `json:"name"`
	// Health is one of the constants. Message is the daemon's reason. Code is the
	// reason of the condition that decides.
	Health  string `json:"health"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// AsOf is the time of the daemon's last report; zero without a report.
	AsOf  time.Time `json:"asOf,omitzero"`
	Pools []Pool    `json:"pools"`
	// Claims are the CPUs for ResourceClaims. Absent if cpupool-dra publishes no slice of the node.
	Claims *Claims `json:"claims,omitempty"`
}

// Pool is a pool as the scheduler counts it.
type Pool struct {
	// Name is management, shared or guaranteed; Type the workload type of a management
	// pool.
	Name     string `json:"name"`
	Type     string `json:"type,omitempty"`
	Resource string `json:"resource"`
	// Capacity is the amount that the node offers to pods. Requested is the sum of requests of
	// pods that have not ended. Free is the difference, below zero if the pool has shrunk. All
	// are thousandths of a CPU.
	Capacity  int64 `json:"capacityMilli"`
	Requested int64 `json:"requestedMilli"`
	Free      int64 `json:"freeMilli"`
	Pods      []Pod `json:"pods,omitempty"`
}

// Pod is a pod that asks for CPUs of a pool.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Requested int64  `json:"requestedMilli"`
}

// Of returns the nodes by name, as of now, with their pools: management ones first, by type.
func Of(nodes []corev1.Node, pods []corev1.Pod, names workload.Names, now time.Time) []Node {
	byNode := make(map[string][]*corev1.Pod)
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
		}
	}
	all := make([]Node, 0, len(nodes))
	for _, n := range nodes {
		at := Node{Name: n.Name, Pools: poolsOf(&n, names)}
		for j := range at.Pools {
			at.Pools[j].ask(byNode[n.Name])
		}
		at.say(&n, now)
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func poolsOf(n *corev1.Node, names workload.Names) []Pool {
	pools := []Pool{}
	for name, amount := range n.Status.Allocatable {
		p := Pool{Resource: string(name), Capacity: amount.Value()}
		switch typ, cores := names.CoresType(p.Resource); {
		case cores:
			p.Name, p.Type = "management", typ
		case p.Resource == names.SharedResource():
			p.Name = "shared"
		case p.Resource == names.GuaranteedResource():
			p.Name = "guaranteed"
		default:
			continue
		}
		pools = append(pools, p)
	}
	order := map[string]int{"management": 0, "shared": 1, "guaranteed": 2}
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Or(order[a.Name]-order[b.Name], strings.Compare(a.Type, b.Type)) })
	return pools
}

// ask counts as the scheduler does: sidecars with the containers, init containers as far
// as they ask for more than all others.
func (p *Pool) ask(pods []*corev1.Pod) {
	for _, pod := range pods {
		amount := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceName(p.Resource)]
		if amount.IsZero() {
			continue
		}
		p.Requested += amount.Value()
		p.Pods = append(p.Pods, Pod{pod.Namespace, pod.Name, amount.Value()})
	}
	p.Free = p.Capacity - p.Requested
	slices.SortFunc(p.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(b.Requested, a.Requested), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
}

// silent is how old a condition of depletion may be: the daemon writes it every 5 minutes
// (docs/how-to/handle-depletion.md), and the evictor ignores an older one.
const silent = 15 * time.Minute

// say sets the health from the daemon's conditions, unless they are too old.
func (at *Node) say(n *corev1.Node, now time.Time) {
	conditions := make(map[corev1.NodeConditionType]*corev1.NodeCondition)
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		conditions[c.Type] = c
		if (c.Type == readyType || c.Type == pressureType) && c.LastHeartbeatTime.After(at.AsOf) {
			at.AsOf = c.LastHeartbeatTime.UTC()
		}
	}
	at.Health, at.Code, at.Message = at.health(conditions[readyType], conditions[pressureType], conditions[corev1.NodeReady], now)
}

// health returns the health from conditions, which are nil if the node does not have them.
func (at *Node) health(ready, pressure, kubelet *corev1.NodeCondition, now time.Time) (state, code, message string) {
	depleted := pressure != nil && pressure.Status == corev1.ConditionTrue
	notReady := ready != nil && ready.Status == corev1.ConditionFalse
	switch {
	case len(at.Pools) == 0 && ready == nil:
		return NoPools, "", ""
	case kubelet != nil && kubelet.Status == corev1.ConditionUnknown:
		return Stale, kubelet.Reason, kubelet.Message
	case depleted && now.Sub(pressure.LastHeartbeatTime.Time) > silent:
		return Stale, pressure.Reason, "the daemon was depleted, and has said nothing since " + pressure.LastHeartbeatTime.UTC().Format(time.RFC3339) + ": " + pressure.Message
	case notReady && depleted:
		return NotReady, ready.Reason, ready.Message + "; depleted: " + pressure.Message
	case depleted:
		return Depleted, pressure.Reason, pressure.Message
	case ready == nil:
		return Untold, "", ""
	case ready.Status == corev1.ConditionTrue && ready.Reason == allAsPlanned:
		return Ready, ready.Reason, ""
	case ready.Status == corev1.ConditionTrue: // for example, the daemon has refused a new configuration
		return Ready, ready.Reason, ready.Message
	case ready.Status == corev1.ConditionFalse:
		return NotReady, ready.Reason, ready.Message
	}
	return Unknown, ready.Reason, ready.Message
}
