package simulate

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Node is a node that is simulated. Make it with NewNode; it is for one goroutine.
type Node struct {
	// Defaults states which values of spec.resources the API server sets in pods that come.
	// NewNode assumes the newest API server.
	Defaults admission.Defaults
	// NUMAAttributes are other attributes of devices of CPUs that hold their NUMA node.
	NUMAAttributes []string
	// Progress is called for each pod with the number of all pods; nil without progress.
	Progress func(all int)

	config   *config.Config
	whole    *topology.Topology // with all CPUs that may be online
	topology *topology.Topology // as it is now
	offline  cpuset.Set
	adapted  []string
	input    pools.Input // without pods
	pods     []*running
	plan     pools.Plan
	now      int64 // the trace's time, in nanoseconds
	clock    int64 // number of the last event, for the order of containers
	refusals refusals
	allocation
}

// NewNode is a node without pods. A configuration that does not fit the machine is an
// error, with one *config.Problem for each thing.
func NewNode(c *config.Config, t *topology.Topology, namespaces map[string]map[string]string) (*Node, error) {
	fixed := *c
	fixed.Pools = c.Pools.On(t) // cpus: auto stays on its CPUs when others go offline, as in the daemon
	c = &fixed
	resolved, err := c.Resolve(t)
	if err != nil {
		return nil, err
	}
	n := &Node{config: c, whole: t, topology: t}
	n.input = pools.Input{
		Machine: allocate.New(t), Pools: resolved, Names: c.Names(), StaticPods: c.StaticPods,
		Namespaces: rights(c, namespaces),
		Partitions: c.Isolation != config.IsolationCPUSet,
		Interrupts: c.Interrupts.Away != config.AwayOff,
	}
	n.build()
	return n, nil
}

// Resources returns the extended resources that the daemon advertises on the node while all its pods
// are counted.
func (n *Node) Resources() []capacity.Pool {
	if key, _ := n.config.AdvertisesNone(); key != "" {
		return nil
	}
	l := capacity.Of(&n.config.Pools, &n.input.Pools, &n.plan, n.topology.Online, cpuset.Set{})
	return l.Pools(n.config.Names())
}

// rights returns the permissions of namespaces, from their annotations.
func rights(c *config.Config, namespaces map[string]map[string]string) pools.NamespaceRights {
	r := pools.NamespaceRights{Asked: c.NamespacePermission == config.PermissionAnnotation, Current: true, Permissions: workload.Permissions{}}
	for name, annotations := range namespaces {
		r.Permissions = r.With(c.Names(), name, annotations, 0)
	}
	return r
}

// build runs the planner, as the daemon does after each event when no update is pending.
func (n *Node) build() {
	in := n.in()
	n.plan = pools.Build(in)
	n.input.Previous = n.plan.Assignments
}

func (n *Node) in() pools.Input {
	in := n.input
	in.Pods = make([]pools.Pod, len(n.pods))
	for i, r := range n.pods {
		in.Pods[i] = r.pod
	}
	return in
}

func (n *Node) tick() int64 {
	n.clock++
	return n.clock
}

func (n *Node) find(name string) (*running, error) {
	for _, r := range n.pods {
		if r.name() == name {
			return r, nil
		}
	}
	return nil, fmt.Errorf("pod %q is not on the node at that time", name)
}

// Add lets a pod come and start, as a kubelet starts it: one init container after the
// other, each until its end, and then the others.
func (n *Node) Add(p *Pod) error {
	if there, _ := n.find(p.Name()); there != nil || slices.ContainsFunc(n.pending, func(w pending) bool { return w.pod.Name() == p.Name() }) {
		return fmt.Errorf("pod %q is on the node already", p.Name())
	}
	n.begin(p)
	return nil
}

// begin starts a pod with a name that the node does not have, if its claims have devices. It returns
// all exclusive CPUs that the pod has had until all its containers have started.
func (n *Node) begin(p *Pod) cpuset.Set {
	uses, ok := n.schedule(p)
	if !ok {
		return cpuset.Set{}
	}
	r := begin(p, n.Defaults, n.tick())
	r.changed, r.uses = n.now, uses
	n.pods = append(n.pods, r)
	return n.startAll(r)
}

// startAll starts the containers of a pod. The order matters only for containers that can get
// exclusive CPUs. It returns all exclusive CPUs that the pod has had.
func (n *Node) startAll(r *running) (had cpuset.Set) {
	n.startEach(r, func() {
		if r.pod.QoS == pools.QoSGuaranteed {
			n.build()
			had = had.Union(n.ownedBy(r.pod.UID))
		}
	})
	n.build()
	return had.Union(n.ownedBy(r.pod.UID))
}

// startEach starts the containers of a pod one after the other, and calls build after each change.
func (n *Node) startEach(r *running, build func()) {
	build() // reserves the CPUs of the pod
	for _, c := range r.asked.Containers {
		r.pod.Containers = append(r.pod.Containers, pools.Container{
			ID: r.name() + "/" + c.Name, Name: c.Name, State: pools.Running, CreatedAt: n.tick(), Resources: resourcesOf(c.Amounts),
		})
		n.useClaims(r, c.Name)
		build()
		if c.Init {
			for _, now := range refusedNow(n, r.pod.UID) { // maybe only until the container ends
				n.refusals.note(now)
			}
			made := &r.pod.Containers[len(r.pod.Containers)-1]
			made.State, made.FinishedAt = pools.Exited, n.tick()
			build()
		}
	}
}

// ownedBy returns the exclusive CPUs of a pod.
func (n *Node) ownedBy(uid string) (cpus cpuset.Set) {
	for i := range n.plan.Assignments {
		if a := &n.plan.Assignments[i]; a.PodUID == uid {
			cpus = cpus.Union(a.CPUs)
		}
	}
	return cpus
}

// Remove ends a pod.
func (n *Node) Remove(name string) error {
	if i := slices.IndexFunc(n.pending, func(w pending) bool { return w.pod.Name() == name }); i >= 0 {
		n.pending = slices.Delete(n.pending, i, i+1)
		return nil
	}
	r, err := n.find(name)
	if err != nil {
		return err
	}
	n.pods = slices.DeleteFunc(n.pods, func(other *running) bool { return other == r })
	n.release(r)
	n.build()
	n.retry()
	return nil
}

// Resize gives a container of a pod another amount of CPU.
func (n *Node) Resize(name, container string, cpu resource.Quantity) error {
	r, err := n.find(name)
	if err != nil {
		return err
	}
	if err := r.resize(container, cpu); err != nil {
		return err
	}
	n.build()
	return nil
}

// Plug takes CPUs offline, or brings them back.
func (n *Node) Plug(cpus cpuset.Set, online bool) error {
	offline := n.offline.Union(cpus)
	if online {
		offline = n.offline.Difference(cpus)
	}
	switch strange := cpus.Difference(n.whole.Online); {
	case !strange.IsEmpty():
		return fmt.Errorf("CPUs %s: the topology does not contain them; it has %s", strange, n.whole.Online)
	case n.whole.Online.IsSubsetOf(offline):
		return errors.New("no CPU is left")
	}
	n.offline, n.topology = offline, n.whole.Without(offline)
	n.adapted = nil
	resolved, err := n.config.Resolve(n.topology)
	if err != nil { // as the daemon does when CPUs go offline: it adapts the pools
		var differences []error
		resolved, differences = n.config.Pools.Adapt(n.topology)
		for _, d := range differences {
			n.adapted = append(n.adapted, d.Error())
		}
	}
	n.input.Machine, n.input.Pools = allocate.New(n.topology), resolved
	n.build()
	n.publish()
	n.retry()
	return nil
}

// settle marks pods without a change after since as settled: no further container of them
// is expected.
func (n *Node) settle(since int64) {
	news := false
	for _, r := range n.pods {
		if !r.pod.Settled && r.changed <= since {
			r.pod.Settled, news = true, true
		}
	}
	if news {
		n.build()
	}
}
