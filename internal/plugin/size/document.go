package size

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Version is the version of the document. Fields may be added; existing fields keep their meaning.
const Version = 1

// Document holds the nodes that pods need.
type Document struct {
	Version int `json:"version"`
	// Pods is the number of pods on nodes, without the pods of DaemonSets.
	Pods int `json:"pods"`
	// Bound is the number of nodes that no packing is below.
	Bound    Bound     `json:"bound"`
	Machines []Machine `json:"machines"`
	Nodes    []Node    `json:"nodes"`
	// Unplaced are pods that fit on no kind of node.
	Unplaced []Unplaced `json:"unplaced"`
	// Refused are requests that the nodes do not grant, and that are not a matter of room. Pods of
	// one shape have one entry.
	Refused []Refused `json:"refused"`
	// Savings are other sizes of a pool with fewer nodes, or with fewer unplaced pods, the best
	// first. Tried are the keys of the pools that were compared.
	Savings []Saving `json:"savings"`
	Tried   []string `json:"tried"`
	Notes   []string `json:"notes"`
}

// Refused is a refusal of the first of Count pods.
type Refused struct {
	simulate.Refusal

	Count int `json:"count"`
}

// Bound is a lower bound of the number of nodes.
type Bound struct {
	Nodes int `json:"nodes"`
	// Resource is the name of the amount that decides; empty without pods.
	Resource string `json:"resource,omitempty"`
}

// Machine is a kind of node.
type Machine struct {
	Name string `json:"name"`
	CPUs int    `json:"cpus"`
	// File is the name of the configuration; empty without a file.
	File  string `json:"file,omitempty"`
	Nodes int    `json:"nodes"`
	// Daemons is the number of pods of DaemonSets on each node.
	Daemons int    `json:"daemons"`
	Pools   []Pool `json:"pools"`
}

// Pool is a pool on all nodes of a kind. Amounts are in thousandths of a CPU.
type Pool struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	// CPUs are the CPUs of the pool on an empty node.
	CPUs cpuset.Set `json:"cpus"`
	// Milli is the size of the pool on all nodes. RequestedMilli is the part that pods request or
	// own, and UnusedMilli the rest.
	Milli          int64 `json:"milli"`
	RequestedMilli int64 `json:"requestedMilli"`
	UnusedMilli    int64 `json:"unusedMilli"`
}

// Node is a node with its pods.
type Node struct {
	Name    string `json:"name"`
	Machine string `json:"machine"`
	// Opened is the pod that no earlier node has room for.
	Opened Cause `json:"opened"`
	Pods   []Pod `json:"pods"`
	// Free are the CPUs of the guaranteed pool without an owner.
	Free cpuset.Set `json:"free"`
	// Allocatable is the number of these CPUs that pods can own: the shared pool keeps its floor.
	Allocatable int `json:"allocatable"`
}

// Cause is a pod that needs a new node, with the reason.
type Cause struct {
	Pod      string `json:"pod"`
	Resource string `json:"resource,omitempty"`
	Text     string `json:"text"`
}

// Pod is a pod on a node.
type Pod struct {
	Name string `json:"name"`
	// Daemon is true for a pod of a DaemonSet.
	Daemon bool `json:"daemon,omitempty"`
	// CPUs are the exclusive CPUs of the pod.
	CPUs cpuset.Set `json:"cpus"`
}

// Unplaced are pods of one shape that fit on no kind of node.
type Unplaced struct {
	// Pod is the first of Count pods. With Daemon they are of a DaemonSet, one on each node.
	Pod     string   `json:"pod"`
	Daemon  bool     `json:"daemon,omitempty"`
	Count   int      `json:"count"`
	Reasons []Reason `json:"reasons"`
}

// Reason is the reason why a pod does not fit on an empty node of a kind.
type Reason struct {
	Machine string `json:"machine"`
	Text    string `json:"text"`
}

// Saving is another size of a pool.
type Saving struct {
	Machine string `json:"machine"`
	Key     string `json:"key"`
	Was     string `json:"was"`
	Value   string `json:"value"`
	// Nodes is the number of all nodes with Value, and Saved the difference.
	Nodes int `json:"nodes"`
	Saved int `json:"saved"`
	// Unplaced is the number of pods that fit on no kind with Value.
	Unplaced int `json:"unplaced"`
}

func (p *packing) document() (*Document, error) {
	d := &Document{Version: Version, Bound: p.bound(), Notes: slices.Clone(p.notes)}
	counts, sums := make(map[*kind]int), make(map[*kind]map[string]int64)
	seen := make(map[refusalOf]int)
	for _, n := range p.nodes {
		counts[n.kind]++
		n.name = fmt.Sprintf("%s-%d", n.kind.Name, counts[n.kind])
		at, refused, err := n.finish()
		if err != nil {
			return d, fmt.Errorf("node %s: %w", n.name, err)
		}
		d.Nodes, d.Pods = append(d.Nodes, *at), d.Pods+len(n.pods)
		d.refuse(n, refused, seen)
		if sums[n.kind] == nil {
			sums[n.kind] = make(map[string]int64)
		}
		n.sum(at, sums[n.kind])
	}
	for _, k := range p.kinds {
		m := Machine{Name: k.Name, CPUs: k.Topology.Online.Len(), File: k.File, Nodes: counts[k], Daemons: len(k.daemons)}
		m.Pools = k.poolsOf(counts[k], sums[k])
		d.Machines = append(d.Machines, m)
		d.noteKind(k)
		for _, pool := range m.Pools {
			if pool.UnusedMilli < 0 {
				d.Notes = append(d.Notes, fmt.Sprintf("pods request %s CPUs of the %s pools of %s, which have %s", cpus(pool.RequestedMilli), inspect.FullPool(pool.Name, pool.Type), k.Name, cpus(pool.Milli)))
			}
		}
		for _, s := range p.daemons {
			if t, tried := k.trials[s]; tried && t.reason != "" {
				d.Unplaced = append(d.Unplaced, Unplaced{Pod: s.pods[0].Name(), Daemon: true, Count: max(counts[k], 1), Reasons: []Reason{{k.Name, t.reason}}})
			}
		}
	}
	for _, s := range p.unplaced {
		u := Unplaced{Pod: s.pods[0].Name(), Count: len(s.pods)}
		for _, k := range p.kinds {
			u.Reasons = append(u.Reasons, Reason{k.Name, k.trials[s].reason})
		}
		d.Unplaced = append(d.Unplaced, u)
	}
	return d, nil
}

// refusalOf identifies the refusals of a shape.
type refusalOf struct {
	*shape

	container, code string
}

// refuse adds the refusals of a node. seen has the indexes of earlier ones.
func (d *Document) refuse(n *node, refused []simulate.Refusal, seen map[refusalOf]int) {
	if len(refused) == 0 {
		return
	}
	shapes := make(map[string]*shape)
	for _, pod := range n.all() {
		shapes[pod.Name()] = pod.shape
	}
	for _, r := range refused {
		of := refusalOf{shapes[r.Pod], r.Container, r.Code}
		i, known := seen[of]
		if !known {
			i, seen[of] = len(d.Refused), len(d.Refused)
			d.Refused = append(d.Refused, Refused{Refusal: r})
		}
		d.Refused[i].Count++
	}
}

// finish adds the pods that cannot own CPUs to the planner, and returns the node.
func (n *node) finish() (*Node, []simulate.Refusal, error) {
	var rest simulate.Objects
	for _, pod := range n.all() {
		if n.kind.trials[pod.shape].plain {
			rest.Pods = append(rest.Pods, *pod.Pod)
		}
	}
	if _, err := n.plan.Run(&rest, nil); err != nil {
		return nil, nil, err
	}
	status := n.plan.Document("")
	owned := make(map[string]cpuset.Set)
	for _, c := range status.Containers {
		if c.Pool == inspect.Guaranteed {
			name := c.Namespace + "/" + c.Pod
			owned[name] = owned[name].Union(c.CPUs)
		}
	}
	at := &Node{Name: n.name, Machine: n.kind.Name, Opened: n.opened, Allocatable: n.plan.Allocatable()}
	for i, pod := range n.all() {
		at.Pods = append(at.Pods, Pod{Name: pod.Name(), Daemon: i < len(n.kind.daemons), CPUs: owned[pod.Name()]})
	}
	slices.SortFunc(at.Pods[:len(n.kind.daemons)], func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pool := range status.Pools {
		if pool.Name == inspect.Guaranteed {
			at.Free = pool.Free
		}
	}
	return at, status.Refused, nil
}

// sum adds the requests of a node to the sums of its kind, by the full name of the pool.
func (n *node) sum(at *Node, sums map[string]int64) {
	owned := int64(0)
	for _, pod := range at.Pods {
		owned += int64(pod.CPUs.Len()) * 1000
	}
	sums[inspect.Guaranteed] += owned
	sums[inspect.Shared] -= owned
	for typ, milli := range n.managed() {
		isOf := func(part pools.Partition) bool { return part.Type == typ }
		if slices.ContainsFunc(n.kind.pools.Partitions, isOf) {
			sums[inspect.FullPool(inspect.Management, typ)] += milli
			continue
		}
		sums[inspect.Shared] += milli
	}
}

func (k *kind) poolsOf(nodes int, sums map[string]int64) []Pool {
	var all []Pool
	add := func(name, typ string, cpus cpuset.Set) {
		p := Pool{Name: name, Type: typ, CPUs: cpus, Milli: int64(cpus.Len()*nodes) * 1000, RequestedMilli: max(sums[inspect.FullPool(name, typ)], 0)}
		p.UnusedMilli = p.Milli - p.RequestedMilli
		all = append(all, p)
	}
	for _, part := range k.pools.Partitions {
		add(inspect.Management, part.Type, part.CPUs)
	}
	add(inspect.Shared, "", k.pools.Shared)
	switch {
	case k.pools.FromShared: // owners take CPUs out of the shared pool
		shared := &all[len(all)-1]
		owned := sums[inspect.Guaranteed]
		shared.Milli, shared.UnusedMilli = shared.Milli-owned, shared.UnusedMilli-owned
		all = append(all, Pool{Name: inspect.Guaranteed, CPUs: k.pools.Guaranteed, Milli: owned, RequestedMilli: owned})
	case !k.pools.Guaranteed.IsEmpty():
		add(inspect.Guaranteed, "", k.pools.Guaranteed)
	}
	return all
}

func (d *Document) noteKind(k *kind) {
	if k.Node == nil {
		d.Notes = append(d.Notes, fmt.Sprintf("nodes of %s have no labels but kubernetes.io/os, no taints and no other resources; %d pods fit on each, and memory and storage are not compared; --node %s=FILE names a Node with them", k.Name, mostPods, k.Name))
	} else if q, given := k.Node.Status.Capacity[corev1.ResourceCPU]; given && q.CmpInt64(int64(k.Topology.Online.Len())) != 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("the machine of %s has %d online CPUs, status.capacity.cpu of its Node is %s", k.Name, k.Topology.Online.Len(), q.String()))
	}
	if key, value := k.Config.AdvertisesNone(); key != "" {
		d.Notes = append(d.Notes, fmt.Sprintf("%s of %s is %s: its daemons advertise no resources, so the scheduler does not count CPUs by pool", key, k.Name, value))
	}
	if k.pools.Kubelet {
		d.Notes = append(d.Notes, fmt.Sprintf("guaranteed.exclusive of %s is kubelet: allocations of the kubelet are not planned", k.Name))
	}
}
