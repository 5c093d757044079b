package simulate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/nodekind"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Member is a node of a cluster, as the API shows it.
type Member struct {
	Name string
	// CPUs is status.capacity.cpu; 0 if it is absent.
	CPUs int
	// Labels are the labels that ResourceSlices can select.
	Labels map[string]string
}

// addNode adds a node. The daemon runs on Linux only, and not on virtual nodes, whose number of CPUs
// is no machine's.
func (o *Objects) addNode(object *manifest.Object) error {
	var k corev1.Node
	if err := object.Decode(&k); err != nil {
		return err
	}
	if system := nodekind.System(&k); system != string(corev1.Linux) {
		o.Notes = append(o.Notes, fmt.Sprintf("node %s is left out: its operating system is %s", object.Name, system))
		return nil
	}
	if nodekind.IsVirtual(&k) {
		o.Notes = append(o.Notes, fmt.Sprintf("node %s is left out: it is virtual, and its pods run elsewhere", object.Name))
		return nil
	}
	if slices.ContainsFunc(o.Nodes, func(m Member) bool { return m.Name == object.Name }) {
		return fmt.Errorf("node %s occurs twice", object.Name)
	}
	if q := k.Status.Capacity.Cpu(); q.Sign() < 0 || q.CmpInt64(cpuset.MaxCPUs) > 0 {
		return fmt.Errorf("status.capacity.cpu: %s is no number of CPUs of a node; write 1 to %d", q, cpuset.MaxCPUs)
	}
	o.Nodes = append(o.Nodes, Member{object.Name, int(k.Status.Capacity.Cpu().Value()), object.Labels})
	return nil
}

// member returns a node of the files, without a name if there is no such node.
func (o *Objects) member(name string) (m Member) {
	if i := slices.IndexFunc(o.Nodes, func(m Member) bool { return m.Name == name }); i >= 0 {
		m = o.Nodes[i]
	}
	return m
}

// Names returns the names of the nodes in the files, sorted. If the files hold no nodes, it
// returns the nodes to which pods are bound, and the nodes of ResourceSlices.
func (o *Objects) Names() []string {
	var names []string
	for _, m := range o.Nodes {
		names = append(names, m.Name)
	}
	if len(names) == 0 {
		names = o.Claims.Nodes()
		for i := range o.Pods {
			if node := o.Pods[i].Node; node != "" {
				names = append(names, node)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Choose returns the names of the nodes to simulate, sorted: the asked nodes, or all nodes.
func (o *Objects) Choose(asked []string) ([]string, error) {
	all := o.Names()
	if len(asked) == 0 {
		return all, nil
	}
	for _, node := range asked {
		if len(all) > 0 && !slices.Contains(all, node) {
			return nil, fmt.Errorf("--node %s: no node or pod of the files is of it; there are %s", node, some(all))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(asked))), nil
}

// On returns the objects with the pods of one node, followed by the pods of manifests. It
// does not change the pods of o, and must be called after [Objects.Read]. A node can be without pods.
func (o *Objects) On(node string) (*Objects, error) {
	if o.places == nil {
		o.places = o.place()
	}
	on := *o
	on.node = node
	on.places, on.Notes = nil, slices.Clone(o.Notes)
	on.Pods = slices.Clone(o.places.pods[""])
	if node != "" {
		on.Pods = append(on.Pods, o.places.pods[node]...)
	}
	if o.places.strange > 0 {
		on.Notes = append(on.Notes, fmt.Sprintf("pods of nodes that the files do not list are left out: %d", o.places.strange))
	}
	if o.places.free > 0 && o.places.nodes > 1 {
		on.Notes = append(on.Notes, fmt.Sprintf("pods of manifests are on no node; each node gets them after its own pods: %d", o.places.free))
	}
	if err := on.order(); err != nil {
		if node == "" {
			return nil, err
		}
		return nil, fmt.Errorf("node %s: %w", node, err)
	}
	return &on, nil
}

// places are the pods by node, the number of nodes, and the numbers of pods on nodes that the files
// do not list and of pods of manifests. They are made once: a cluster has thousands of nodes.
type places struct {
	pods                 map[string][]Pod
	nodes, strange, free int
}

func (o *Objects) place() *places {
	names := o.Names()
	at := &places{pods: make(map[string][]Pod), nodes: len(names)}
	for i := range o.Pods {
		p := &o.Pods[i]
		at.pods[p.Node] = append(at.pods[p.Node], *p)
		_, listed := slices.BinarySearch(names, p.Node)
		switch {
		case p.Node != "" && !listed:
			at.strange++
		case p.Node == "" && !p.saved:
			at.free++
		}
	}
	return at
}

// Machine returns the machine of a node of the files, and a note about the assumption behind
// it. The API holds the number of CPUs alone: an even number is taken for cores of two
// threads, all on one NUMA node.
func (o *Objects) Machine(node string) (*topology.Topology, string, error) {
	cpus := o.member(node).CPUs
	if cpus == 0 {
		return nil, "", fmt.Errorf("node %s: status.capacity.cpu is not in the files; describe the machine with --topology %s=2s8c2t", node, node)
	}
	text, shape := fmt.Sprintf("%dc", cpus), "1 thread in each core"
	if cpus%2 == 0 {
		text, shape = fmt.Sprintf("%dc2t", cpus/2), "2 threads in each core"
	}
	t, err := Describe(text)
	if err != nil {
		return nil, "", fmt.Errorf("node %s: %w", node, err)
	}
	return t, fmt.Sprintf("the API does not hold the shape of the machine; %d CPUs are taken for 1 NUMA node with %s; --topology %s=%s changes it", t.Online.Len(), shape, node, text), nil
}

// Differs returns a note if a machine has another number of CPUs than the node in the files.
// It is empty for the same number, or if the files do not hold the number.
func (o *Objects) Differs(node string, t *topology.Topology) string {
	if cpus := o.member(node).CPUs; cpus > 0 && cpus != t.Online.Len() {
		return fmt.Sprintf("the topology has %d online CPUs, status.capacity.cpu is %d", t.Online.Len(), cpus)
	}
	return ""
}
