package inspect

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Claims are the devices and the ResourceClaims of a node: the answer to GET /v1/claims.
type Claims struct {
	Version  int       `json:"version"`
	Started  time.Time `json:"started"`  // of the daemon
	Sequence uint64    `json:"sequence"` // Seq of the last event that the answer includes
	// Ready reports that containers with claims are recognised. Problem is the reason if they are not;
	// then no claim should be allocated.
	Ready   bool          `json:"ready"`
	Problem string        `json:"problem,omitempty"`
	Devices []ClaimDevice `json:"devices"` // by NUMA node and type of core
	Claims  []Claim       `json:"claims"`  // by UID
}

// ClaimDevice is a part of the node of which claims get CPUs.
type ClaimDevice struct {
	Name     string `json:"name"`
	Node     int    `json:"node"`               // NUMA node
	CoreType string `json:"coreType,omitempty"` // on a machine with several types of cores
	// CPUs are the online CPUs that claims can get. Their number is the capacity. Step is the number of
	// which each amount is a multiple.
	CPUs cpuset.Set `json:"cpus"`
	Step int        `json:"step"`
	Free cpuset.Set `json:"free"` // CPUs without a claim
	// Packages, L3s and ThreadsPerCore describe the part of the machine.
	Packages       []int `json:"packages"`
	L3s            int   `json:"l3s"`
	ThreadsPerCore int   `json:"threadsPerCore"`
}

// Claim is a ResourceClaim with CPUs.
type Claim struct {
	UID        string      `json:"uid"`
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	PodUID     string      `json:"podUID"`
	Pod        string      `json:"pod,omitempty"` // namespace/name. Empty if the pod is not on the node.
	Containers []string    `json:"containers"`    // Names of the containers that use the claim.
	CPUs       cpuset.Set  `json:"cpus"`          // CPUs that its containers can use.
	Away       cpuset.Set  `json:"away,omitzero"` // its other CPUs: offline, or needed by another pool
	Parts      []ClaimPart `json:"parts"`
	Problems   []string    `json:"problems,omitempty"`
}

// ClaimPart is a result of the allocation of a claim.
type ClaimPart struct {
	Request string     `json:"request"`
	Device  string     `json:"device"`
	ShareID string     `json:"shareID,omitempty"`
	CPUs    cpuset.Set `json:"cpus"` // all its CPUs, online and offline
}

// ClaimDevices returns the devices of a machine. taken are the CPUs of claims.
func ClaimDevices(p *pools.Pools, m *allocate.Machine, taken cpuset.Set) []ClaimDevice {
	all := []ClaimDevice{}
	for _, d := range p.Devices(m) {
		all = append(all, deviceOf(m.Topology(), d, taken))
	}
	return all
}

// deviceOf returns the document of a device.
func deviceOf(t *topology.Topology, d pools.Device, taken cpuset.Set) ClaimDevice {
	shown := ClaimDevice{Name: d.Name, Node: d.Node, CPUs: d.CPUs, Step: d.Step, Free: d.CPUs.Difference(taken), Packages: []int{}}
	if d.CoreType != topology.Unknown {
		shown.CoreType = d.CoreType.String()
	}
	caches := make(map[int]bool)
	for id := range d.CPUs.All() {
		cpu, _ := t.CPU(id)
		caches[cpu.L3] = true
		shown.ThreadsPerCore = max(shown.ThreadsPerCore, t.ThreadSiblings(id).Len())
		if p := t.Packages[cpu.Package].ID; !slices.Contains(shown.Packages, p) {
			shown.Packages = append(shown.Packages, p)
		}
	}
	shown.L3s = len(caches)
	slices.Sort(shown.Packages)
	return shown
}
