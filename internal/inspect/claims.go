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

// ClaimsWithoutNRI is the reason why the preparation of claims waits for NRI.
const ClaimsWithoutNRI = "NRI is not connected, so containers with claims are not recognised; enable NRI in the container runtime, and check nriSocket"

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
	Containers []string    `json:"containers"`    // Names of the containers that use the claim, or have used it.
	CPUs       cpuset.Set  `json:"cpus"`          // CPUs that its containers can use.
	Away       cpuset.Set  `json:"away,omitzero"` // its other CPUs: offline, or needed by another pool
	Parts      []ClaimPart `json:"parts"`
	Code       string      `json:"code"`   // stable name of the reason: Claim, or why it lacks CPUs
	Reason     string      `json:"reason"` // the sentence
	Problems   []string    `json:"problems,omitempty"`
}

// ClaimPart is a result of the allocation of a claim.
type ClaimPart struct {
	Request string     `json:"request"`
	Device  string     `json:"device"`
	ShareID string     `json:"shareID,omitempty"`
	CPUs    cpuset.Set `json:"cpus"` // all its CPUs, online and offline
}

// ClaimedPool is the name of the pool of which ResourceClaims get CPUs (guaranteed.claims). The
// containers that use claims are in the guaranteed pool.
const ClaimedPool = "claims"

// Full returns namespace/name.
func (c *Claim) Full() string { return c.Namespace + "/" + c.Name }

// IsUsedBy reports whether the container uses the claim.
func (c *Claim) IsUsedBy(at *Container) bool {
	return !at.Unit && at.PodUID == c.PodUID && slices.Contains(at.Claims, c.Full()) && slices.Contains(c.Containers, at.Name)
}

// ClaimsOf returns the claims of a plan by UID, with their problems.
func ClaimsOf(plan *pools.Plan, problems []pools.Problem) []Claim {
	all := []Claim{}
	names := podNames(plan)
	for _, p := range plan.Claims {
		c := Claim{UID: p.UID, Namespace: p.Namespace, Name: p.Name, PodUID: p.PodUID, Pod: names[p.PodUID], Containers: append([]string{}, p.Containers...),
			CPUs: p.CPUs, Away: p.Away, Parts: ClaimParts(p.Parts), Code: string(p.Reason.Code), Reason: p.Reason.Text}
		for _, problem := range problems {
			if problem.Claim == c.Full() {
				c.Problems = append(c.Problems, problem.Text)
			}
		}
		all = append(all, c)
	}
	return all
}

// ClaimParts returns the parts of a plan as documents.
func ClaimParts(plan []pools.ClaimPartPlan) (all []ClaimPart) {
	for _, p := range plan {
		all = append(all, ClaimPart{Request: p.Request, Device: p.Device, ShareID: p.ShareID, CPUs: p.On.Union(p.Away)})
	}
	return all
}

// TakenByClaims returns the CPUs that no new claim can get: the CPUs of all claims of a plan, and the CPUs
// of other managers.
func TakenByClaims(plan *pools.Plan) cpuset.Set {
	taken := plan.Theirs
	for i := range plan.Claims {
		taken = taken.Union(plan.Claims[i].CPUs, plan.Claims[i].Away)
	}
	return taken
}

// ClaimDevices returns the devices of a machine. taken are the CPUs of claims.
func ClaimDevices(p *pools.Pools, m *allocate.Machine, taken cpuset.Set) []ClaimDevice {
	all := []ClaimDevice{}
	for _, d := range p.Devices(m) {
		all = append(all, deviceOf(m.Topology(), d, taken))
	}
	return all
}

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

// PoolOfClaims returns the pool of which claims get CPUs, without the number of its containers. It is
// nil without such a pool and without claims.
func PoolOfClaims(p *pools.Pools, plan *pools.Plan) *Pool {
	if p.Claims.CPUs.IsEmpty() && p.Claims.Away.IsEmpty() && len(plan.Claims) == 0 {
		return nil
	}
	c := &Pool{Name: ClaimedPool}
	for i := range plan.Claims {
		c.Owned = c.Owned.Union(plan.Claims[i].CPUs)
	}
	c.CPUs, c.Free = p.Claims.CPUs.Union(c.Owned), p.Claims.CPUs.Difference(c.Owned).Difference(plan.Theirs)
	if p.Claims.Lend {
		c.Lent = c.Free.Intersection(plan.Shared)
	}
	return c
}

// podNames returns namespace/name by the UIDs of pods.
func podNames(plan *pools.Plan) map[string]string {
	names := make(map[string]string, len(plan.Pods))
	for i := range plan.Pods {
		names[plan.Pods[i].UID] = plan.Pods[i].Namespace + "/" + plan.Pods[i].Name
	}
	return names
}

// claimNames returns namespace/name by the UIDs of claims.
func claimNames(plan *pools.Plan) map[string]string {
	names := make(map[string]string, len(plan.Claims))
	for i := range plan.Claims {
		names[plan.Claims[i].UID] = plan.Claims[i].Namespace + "/" + plan.Claims[i].Name
	}
	return names
}

// namesOf returns the names of the claims with these UIDs, nil without any.
func namesOf(uids []string, names map[string]string) (of []string) {
	for _, uid := range uids {
		of = append(of, names[uid])
	}
	return of
}
