package nodestatus

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Topology holds the content of a NodeResourceTopology object (topology.node.k8s.io/v1alpha2).
type Topology struct {
	// Policy is the topology policy in the kubelet's terms, from none to single-numa-node.
	Policy string
	Zones  []Zone
	// Pods holds the pods on this node.
	Pods []PodName
}

// Zone is a NUMA node.
type Zone struct {
	// ID is the number of the node in the kernel.
	ID int
	// Distances holds the distances to all zones by ID, in units of the ACPI SLIT: 10 is local.
	Distances map[int]int
	// Resources holds amounts by name: pools and cpu in thousandths of a CPU.
	Resources map[string]ZoneAmounts
}

// ZoneAmounts holds the amounts of a resource: total, usable by pods, and free for new pods.
type ZoneAmounts struct{ Capacity, Allocatable, Available int64 }

// PodName is the name of a pod.
type PodName struct{ Namespace, Name string }

// NUMANode is a NUMA node with its online CPUs; CPUs may be empty.
type NUMANode struct {
	ID        int
	CPUs      cpuset.Set
	Distances map[int]int
}

// Zones returns the zones of the node. free holds the guaranteed CPUs without an owner. Each
// zone has the resource cpu and the resource of the guaranteed pool, because schedulers place
// no pod on a zone without cpu. Owned CPUs reduce the free amount of cpu. Other requests of
// pods count only for the whole node.
func Zones(l *capacity.Layout, nodes []NUMANode, free cpuset.Set, guaranteed string) []Zone {
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
		z := Zone{ID: n.ID, Distances: n.Distances, Resources: map[string]ZoneAmounts{
			"cpu": {milli(n.CPUs), milli(n.CPUs, pods), milli(n.CPUs, pods.Difference(owned))},
		}}
		if l.HasGuaranteed {
			z.Resources[guaranteed] = ZoneAmounts{
				milli(n.CPUs, l.Guaranteed), milli(n.CPUs, l.Guaranteed.Difference(l.Taken)), milli(n.CPUs, free.Difference(l.Taken)),
			}
		}
		zones = append(zones, z)
	}
	return zones
}

// topologyAPI is the group and version of the objects, topologyPath their path.
const (
	topologyAPI  = "topology.node.k8s.io/v1alpha2"
	topologyPath = "/apis/" + topologyAPI + "/noderesourcetopologies/"
)

// manifest returns the object for server-side apply. memory holds bytes by zone and resource:
// schedulers place no pod that requests memory on a zone without it. The names of zones and attributes
// follow scheduler-plugins (NodeResourceTopologyMatch).
func (t *Topology) manifest(name, uid string, memory map[int]map[string]int64) []byte {
	type fields = map[string]any
	pods := fingerprint(t.Pods)
	zones := make([]fields, 0, len(t.Zones))
	for _, z := range t.Zones {
		zone := fields{"name": zoneName(z.ID), "type": "Node"}
		var costs, resources []fields
		for _, id := range slices.Sorted(maps.Keys(z.Distances)) {
			costs = append(costs, fields{"name": zoneName(id), "value": z.Distances[id]})
		}
		if len(costs) > 0 {
			zone["costs"] = costs
		}
		add := func(resource, unit string, a ZoneAmounts) {
			text := func(n int64) string { return strconv.FormatInt(n, 10) + unit }
			resources = append(resources, fields{"name": resource, "capacity": text(a.Capacity), "allocatable": text(a.Allocatable), "available": text(a.Available)})
		}
		for _, resource := range slices.Sorted(maps.Keys(z.Resources)) {
			unit := ""
			if resource == "cpu" {
				unit = "m"
			}
			add(resource, unit, z.Resources[resource])
		}
		for _, resource := range slices.Sorted(maps.Keys(memory[z.ID])) {
			n := memory[z.ID][resource]
			add(resource, "", ZoneAmounts{n, n, n})
		}
		zone["resources"] = resources
		zones = append(zones, zone)
	}
	return encode(fields{
		"apiVersion": topologyAPI,
		"kind":       "NodeResourceTopology",
		"metadata": fields{
			"name":            name,
			"annotations":     fields{"topology.node.k8s.io/fingerprint": pods},
			"ownerReferences": []fields{{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}},
		},
		"attributes": []fields{
			{"name": "topologyManagerPolicy", "value": t.Policy},
			{"name": "topologyManagerScope", "value": "container"},
			{"name": "nodeTopologyPodsFingerprint", "value": pods},
			{"name": "nodeTopologyPodsFingerprintMethod", "value": "all"},
		},
		"zones": zones,
	})
}

func zoneName(id int) string { return "node-" + strconv.Itoa(id) }

// fingerprint identifies the pods of the node. A scheduler compares it with its own, to learn
// whether the object includes the pods that it counts. It equals version v001 of
// github.com/k8stopologyawareschedwg/podfingerprint: XXH64 (little endian) over the sorted
// hashes of the names, each seeded with the hash of the namespace.
func fingerprint(pods []PodName) string {
	hashes := make([]uint64, 0, len(pods))
	for _, p := range pods {
		h := xxhash.NewWithSeed(xxhash.Sum64String(p.Namespace))
		_, _ = h.WriteString(p.Name) // never fails
		hashes = append(hashes, h.Sum64())
	}
	slices.Sort(hashes)
	all := make([]byte, 0, 8*len(hashes))
	for _, h := range hashes {
		all = binary.LittleEndian.AppendUint64(all, h)
	}
	return "pfp0v001" + hex.EncodeToString(binary.BigEndian.AppendUint64(nil, xxhash.Sum64(all)))
}
