package podresources

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// maxNodes bounds the IDs of NUMA nodes to 0..maxNodes-1. The kernel has at most
// 1<<CONFIG_NODES_SHIFT of them, which no architecture lets be above 10.
const maxNodes = 1024

// Container is a container whose pod the kubelet has admitted. Pods have no UID
// here: a pod that is going and its successor of the same name are one.
type Container struct {
	Namespace, Pod, Name string

	// Nodes are the IDs of the NUMA nodes of the container's devices and of its
	// memory and hugepages, all of them together. The empty set means that the
	// kubelet knows none: the device does not exist, or its plugin reports none.
	Nodes cpuset.Set

	// CPUs are the exclusive CPUs of the container; empty with every CPU manager policy
	// except static. Invalid numbers are left out.
	CPUs cpuset.Set

	// Err lists the nodes that are not in Nodes because their IDs are invalid; nil if
	// all are valid. A negative ID counts as no node: the kernel uses it for a device
	// without a node, and plugins pass it on.
	Err error
}

type name struct{ namespace, pod, container string }

func (n name) compare(o name) int {
	return cmp.Or(strings.Compare(n.namespace, o.namespace), strings.Compare(n.pod, o.pod), strings.Compare(n.container, o.container))
}

// containers returns the containers in the kubelet's reply, sorted: the
// kubelet's order changes from call to call.
func containers(r *v1.ListPodResourcesResponse) []Container {
	found := make(map[name]*nodes)
	for _, p := range r.GetPodResources() {
		for _, c := range p.GetContainers() {
			n := name{p.GetNamespace(), p.GetName(), c.GetName()}
			if found[n] == nil {
				found[n] = &nodes{}
			}
			found[n].addAll(c)
		}
	}
	all := make([]Container, 0, len(found))
	for _, n := range slices.SortedFunc(maps.Keys(found), name.compare) {
		all = append(all, Container{
			Namespace: n.namespace, Pod: n.pod, Name: n.container,
			Nodes: cpuset.Of(found[n].ids...), CPUs: cpuset.Of(found[n].cpus...), Err: found[n].err(),
		})
	}
	return all
}

// nodes collects the NUMA nodes of one container, and its CPUs.
type nodes struct {
	ids      []int
	cpus     []int
	problems []string
}

func (ns *nodes) addAll(c *v1.ContainerResources) {
	for _, id := range c.GetCpuIds() {
		if id >= 0 && id < cpuset.MaxCPUs {
			ns.cpus = append(ns.cpus, int(id))
		}
	}
	for _, d := range c.GetDevices() {
		ns.add("device", d.GetResourceName(), d.GetTopology())
	}
	for _, m := range c.GetMemory() {
		ns.add("memory", m.GetMemoryType(), m.GetTopology())
	}
}

func (ns *nodes) add(kind, name string, topology *v1.TopologyInfo) {
	for _, n := range topology.GetNodes() {
		switch id := n.GetID(); {
		case id >= maxNodes:
			ns.problems = append(ns.problems, fmt.Sprintf("NUMA node %d of %s %q is outside 0-%d", id, kind, name, maxNodes-1))
		case id >= 0:
			ns.ids = append(ns.ids, int(id))
		}
	}
}

func (ns *nodes) err() error {
	if len(ns.problems) == 0 {
		return nil
	}
	slices.Sort(ns.problems)
	return errors.New(strings.Join(slices.Compact(ns.problems), "; "))
}
