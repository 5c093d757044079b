package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeDepleted is the code of a shared pool with fewer CPUs than depletion.floor.
const codeDepleted pools.Code = "SharedDepleted"

// Node derives from a plan the state that the cluster and metrics show of the node.
type Node struct {
	Settings *desired.Settings
	Plan     *pools.Plan
	Planned  bool // false: there is no plan yet
	Objects  *inventory.Objects
	Lost     cpuset.Set // CPUs that are online and in no cgroup
}

func (n Node) shared() cpuset.Set {
	if !n.Planned {
		return n.Settings.Pools.Shared
	}
	return n.Plan.Shared
}

// Pools returns the amounts that the scheduler may allocate.
func (n Node) Pools() []capacity.Pool { return n.layout().Pools(n.Settings.Names) }

func (n Node) layout() capacity.Layout {
	return capacity.Of(&n.Settings.Config.Pools, &n.Settings.Pools, n.Plan, n.Settings.Topology.Online, n.Lost)
}

// Pods returns the pods that a scheduler has placed, with the resources that they use.
func (n Node) Pods() []nodestatus.Pod {
	var pods []nodestatus.Pod
	for i := range n.Plan.Pods {
		if plan := &n.Plan.Pods[i]; plan.UID != "" {
			pods = append(pods, n.pod(plan))
		}
	}
	return pods
}

// PodName returns namespace/name of a pod of the plan. It is empty if the plan lacks the pod.
func (n Node) PodName(uid string) string {
	i := slices.IndexFunc(n.Plan.Pods, func(p pools.PodPlan) bool { return p.UID == uid })
	if i < 0 || uid == "" {
		return ""
	}
	return n.Plan.Pods[i].Namespace + "/" + n.Plan.Pods[i].Name
}

func (n Node) pod(plan *pools.PodPlan) nodestatus.Pod {
	pod := nodestatus.Pod{UID: plan.UID, Resource: n.Settings.Names.SharedResource(), Rest: n.rest(plan.UID)}
	for i := range plan.Containers {
		c := &plan.Containers[i]
		resource := n.resource(c)
		if c.Pool == pools.Management {
			pod.Resource = resource
		}
		if c.Kind == pools.Infra {
			continue
		}
		counted := nodestatus.Container{Name: c.Name, Resource: resource, Presumed: c.Pool != pools.Management, Annotated: c.Shares > 0}
		shares := c.Shares
		if e := n.Objects.Container(c.ID); e != nil && shares == 0 {
			shares = e.Request().Shares
		}
		counted.Claimed = c.Pool == pools.Guaranteed && len(c.Claims) > 0
		if c.State == pools.Exited || c.Unread || c.Pool == pools.Other || c.Reason.Code == pools.CodeWaiting || counted.Claimed {
			counted.Resource = "" // its pool is not known yet
		}
		if c.State != pools.Exited {
			counted.Milli = requestOf(shares)
		}
		pod.Containers = append(pod.Containers, counted)
	}
	n.divide(&pod)
	return pod
}

// rest returns the resource for exclusive CPUs that the pod holds and none of its containers
// does. It returns "" if there are no such CPUs.
func (n Node) rest(uid string) string {
	a := n.ofPod(uid)
	if a.CPUs.IsEmpty() && a.Away.IsEmpty() {
		return ""
	}
	return n.exclusiveResource()
}

// ofPod returns the assignment of a pod as a whole, empty without one.
func (n Node) ofPod(uid string) pools.Assignment {
	key := pools.Key{PodUID: uid}
	i, found := slices.BinarySearchFunc(n.Plan.Assignments, key, func(a pools.Assignment, key pools.Key) int { return a.Compare(key) })
	if !found {
		return pools.Assignment{}
	}
	return n.Plan.Assignments[i]
}

// divide corrects requests of containers in a pod with pod-level resources. The kubelet gives
// the shares of the pod to each container without a request, so together these have the part
// of the pod's total that no other container requests. The first one gets this part.
func (n Node) divide(pod *nodestatus.Pod) {
	e, sharers := n.Objects.PodByUID(pod.UID), n.ofPod(pod.UID).Sharers
	if e == nil || len(sharers) == 0 {
		return
	}
	total := requestOf(e.Pod.Resources.Shares)
	isFull := func(c *nodestatus.Container) bool { return c.Milli >= total && slices.Contains(sharers, c.Name) }
	left := total
	for i := range pod.Containers {
		if c := &pod.Containers[i]; !isFull(c) {
			left -= c.Milli
		}
	}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; total > 0 && isFull(c) && !c.Annotated {
			c.Milli, left = max(left, 0), 0
		}
	}
}

// resource returns the resource that counts a container. Exclusive CPUs from the shared
// pool count there.
func (n Node) resource(c *pools.Placement) string {
	names := n.Settings.Names
	switch c.Pool {
	case pools.Management:
		return names.CoresResource(c.Type)
	case pools.Guaranteed:
		return n.exclusiveResource()
	}
	return names.SharedResource()
}

func (n Node) exclusiveResource() string {
	if n.Settings.Pools.FromShared {
		return n.Settings.Names.SharedResource()
	}
	return n.Settings.Names.GuaranteedResource()
}

// Topology returns the zones of the node for schedulers that count CPUs by NUMA node.
func (n Node) Topology() *nodestatus.Topology {
	all := n.Settings.Topology.Nodes
	nodes := make([]nodestatus.NUMANode, 0, len(all))
	for _, node := range all {
		distances := make(map[int]int, len(all))
		for i, d := range node.Distances {
			distances[all[i].ID] = d
		}
		nodes = append(nodes, nodestatus.NUMANode{ID: node.ID, CPUs: node.CPUs, Distances: distances})
	}
	layout := n.layout()
	var pods []nodestatus.PodName
	for _, p := range n.Plan.Pods {
		// In the API a pod runs when one of its containers does.
		runs := slices.ContainsFunc(p.Containers, func(c pools.Placement) bool { return c.Kind != pools.Infra && c.State == pools.Running })
		if runs && p.UID != "" {
			pods = append(pods, nodestatus.PodName{Namespace: p.Namespace, Name: p.Name})
		}
	}
	return &nodestatus.Topology{
		Policy: string(cmp.Or(n.Settings.Config.Pools.Guaranteed.Options.TopologyPolicy, allocate.BestEffort)),
		Zones:  nodestatus.Zones(&layout, nodes, n.Plan.Free, n.Settings.Names.GuaranteedResource()),
		Pods:   pods,
	}
}

// ownShared returns the CPUs that only the shared pool uses now. A pool that has lost all
// its CPUs runs on the CPUs of other pools, and is depleted nevertheless. CPUs that ResourceClaims
// lend do not count, because the next claim gets them.
func (n Node) ownShared() cpuset.Set {
	configured := n.Settings.Config.Pools
	others := n.Lost.Union(configured.Guaranteed.CPUs, configured.Guaranteed.Claims.CPUs, capacity.UnitCPUs(n.Plan))
	if configured.StrictReservation {
		for _, p := range configured.Partitions {
			others = others.Union(p.CPUs)
		}
	}
	return n.shared().Difference(others)
}

// Depletion returns the size of the shared pool, from which package nodestatus decides
// about taint and eviction.
func (n Node) Depletion() *nodestatus.Depletion {
	d := n.Settings.Config.Depletion
	return &nodestatus.Depletion{
		CPUs: n.ownShared().Len(), Floor: d.Floor, ClearAfter: d.ClearAfter, Show: d.Shows(), Evict: d.Action == config.DepletionEvict,
	}
}

// Depleted returns the problem that the shared pool is depleted; nil if it is not.
func (n Node) Depleted() *pools.Problem {
	d, own := n.Settings.Config.Depletion, n.ownShared()
	if own.Len() >= d.Floor {
		return nil
	}
	text := fmt.Sprintf("the shared pool has %d CPUs that no other pool uses, and should have %d (depletion.floor); pods without a CPU request run only on them", own.Len(), d.Floor)
	if d.Action != config.DepletionWarn && d.DryRun {
		text += fmt.Sprintf("; with depletion.dryRun: false the node would be tainted (depletion.action: %s)", d.Action)
	}
	return &pools.Problem{Reason: pools.Reason{Code: codeDepleted, Text: text}}
}
