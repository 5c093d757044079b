package nodestatus

import (
	"maps"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Topology is what a NodeResourceTopology object (topology.node.k8s.io/v1alpha2) says
// of a node, for schedulers that look into nodes.
type Topology struct {
	// Policy says how CPUs of an owner are aligned, in the kubelet's words: none,
	// best-effort, restricted or single-numa-node.
	Policy string
	Zones  []Zone
	// Pods are those that run here.
	Pods []PodName
}

// Zone is a NUMA node.
type Zone struct {
	// ID is the kernel's number.
	ID int
	// Distances to all zones, itself too, in units of ACPI SLIT, where 10 is local; by
	// their IDs.
	Distances map[int]int
	// Resources are by name: those of pools in thousandths of a CPU, cpu likewise.
	Resources map[string]Room
}

// Room is how much there is of a resource: in all, for pods, and for pods to come.
type Room struct{ Capacity, Allocatable, Available int64 }

// PodName is a pod's.
type PodName struct{ Namespace, Name string }

// NUMANode is a NUMA node with its online CPUs, of which there may be none.
type NUMANode struct {
	ID        int
	CPUs      cpuset.Set
	Distances map[int]int
}

// Zones are the node's. Free are the guaranteed CPUs that have no owner. Beside the
// guaranteed pool there is cpu, without which schedulers would find room for no pod:
// of that, CPUs with an owner are gone, and what else pods ask for is counted for the
// whole node only.
func (l Layout) Zones(nodes []NUMANode, free cpuset.Set, guaranteed string) []Zone {
	milli := func(cpus ...cpuset.Set) int64 {
		all := cpus[0]
		for _, c := range cpus[1:] {
			all = all.Intersection(c)
		}
		return int64(all.Len()) * 1000
	}
	owned := l.Guaranteed.Difference(free)
	pods := l.Shared.Union(l.Guaranteed).Difference(l.Taken)
	zones := make([]Zone, 0, len(nodes))
	for _, n := range nodes {
		z := Zone{ID: n.ID, Distances: n.Distances, Resources: map[string]Room{
			"cpu": {milli(n.CPUs), milli(n.CPUs, pods), milli(n.CPUs, pods.Difference(owned))},
		}}
		if l.HasGuaranteed {
			z.Resources[guaranteed] = Room{
				milli(n.CPUs, l.Guaranteed), milli(n.CPUs, l.Guaranteed.Difference(l.Taken)), milli(n.CPUs, free.Difference(l.Taken)),
			}
		}
		zones = append(zones, z)
	}
	return zones
}

// The names are those of scheduler-plugins' NodeResourceTopologyMatch, and of the API's
// own helpers.
type (
	attribute struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	zoneCost struct {
		Name  string `json:"name"`
		Value int    `json:"value"`
	}
	zoneResource struct {
		Name        string `json:"name"`
		Capacity    string `json:"capacity"`
		Allocatable string `json:"allocatable"`
		Available   string `json:"available"`
	}
	zoneObject struct {
		Name      string         `json:"name"`
		Type      string         `json:"type"`
		Costs     []zoneCost     `json:"costs,omitempty"`
		Resources []zoneResource `json:"resources,omitempty"`
	}
)

// topologyAPI is the group and version of the objects, topologyPath where they are.
const (
	topologyAPI  = "topology.node.k8s.io/v1alpha2"
	topologyPath = "/apis/" + topologyAPI + "/noderesourcetopologies/"
)

// apply is the object as it is to be, for server-side apply. It goes with the Node that
// has this UID. Memory is by zone, in bytes: without it schedulers would find room for
// no pod that asks for memory.
func (t *Topology) apply(name, uid string, memory map[int]map[string]int64) []byte {
	pods := fingerprint(t.Pods)
	zones := make([]zoneObject, 0, len(t.Zones))
	for _, z := range t.Zones {
		o := zoneObject{Name: zoneName(z.ID), Type: "Node"}
		for _, id := range slices.Sorted(maps.Keys(z.Distances)) {
			o.Costs = append(o.Costs, zoneCost{zoneName(id), z.Distances[id]})
		}
		for _, resource := range slices.Sorted(maps.Keys(z.Resources)) {
			room, unit := z.Resources[resource], ""
			if resource == "cpu" {
				unit = "m"
			}
			text := func(n int64) string { return strconv.FormatInt(n, 10) + unit }
			o.Resources = append(o.Resources, zoneResource{resource, text(room.Capacity), text(room.Allocatable), text(room.Available)})
		}
		for _, resource := range slices.Sorted(maps.Keys(memory[z.ID])) {
			text := strconv.FormatInt(memory[z.ID][resource], 10)
			o.Resources = append(o.Resources, zoneResource{resource, text, text, text})
		}
		zones = append(zones, o)
	}
	return encode(map[string]any{
		"apiVersion": topologyAPI,
		"kind":       "NodeResourceTopology",
		"metadata": map[string]any{
			"name":        name,
			"annotations": map[string]string{"topology.node.k8s.io/fingerprint": pods},
			"ownerReferences": []map[string]string{
				{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
			},
		},
		"attributes": []attribute{
			{"topologyManagerPolicy", t.Policy},
			{"topologyManagerScope", "container"},
			{"nodeTopologyPodsFingerprint", pods},
			{"nodeTopologyPodsFingerprintMethod", "all"},
		},
		"zones": zones,
	})
}

func zoneName(id int) string { return "node-" + strconv.Itoa(id) }
