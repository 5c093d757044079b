package defrag

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Room is the free capacity for a new owner. Each number is the number of CPUs of the
// largest request that fits completely.
type Room struct {
	Free int `json:"free"` // free CPUs of the machine
	// OnNode is within one NUMA node, InL3 within one L3 group, and InWholeCores in
	// whole cores of one node.
	OnNode       int        `json:"onNode"`
	InL3         int        `json:"inL3"`
	InWholeCores int        `json:"inWholeCores"`
	Nodes        []NodeRoom `json:"nodes"` // same for each node that has CPUs of the pool
}

// NodeRoom is the room on a NUMA node.
type NodeRoom struct {
	Node         int `json:"node"`
	Free         int `json:"free"`
	InL3         int `json:"inL3"`
	InWholeCores int `json:"inWholeCores"`
}

// Vacant is the room that owners leave now: that of Analyse, without its search for
// moves.
func Vacant(in Input) Room { return newNode(in).room() }

func (n *node) room() Room {
	free := n.available(noOwner)
	r := Room{Free: free.Len()}
	for i := range n.topology.Nodes {
		t := &n.topology.Nodes[i]
		if !t.CPUs.Overlaps(n.pool) {
			continue
		}
		here := free.Intersection(t.CPUs)
		on := NodeRoom{Node: t.ID, Free: here.Len(), InL3: n.largestL3(here), InWholeCores: n.wholeCores(here).Len()}
		r.OnNode, r.InWholeCores = max(r.OnNode, on.Free), max(r.InWholeCores, on.InWholeCores)
		r.Nodes = append(r.Nodes, on)
	}
	r.InL3 = n.largestL3(free)
	return r
}

// largestL3 is how many of cpus are in the L3 group that has the most.
func (n *node) largestL3(cpus cpuset.Set) int {
	most := 0
	for i := range n.topology.L3s {
		most = max(most, n.topology.L3s[i].CPUs.Intersection(cpus).Len())
	}
	return most
}
