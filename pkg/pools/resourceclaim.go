package pools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # ResourceClaims
//
// The scheduler allocates CPUs to ResourceClaims (Dynamic Resource Allocation): a number of CPUs
// of a [Device]. The CPUs come from a list of their own. Containers and units never get CPUs of
// this list in another way, and claims get no other CPUs. So the sums of the scheduler and of the
// node agree. A claim keeps its CPUs until it ends: none of them moves.

// Claim is a ResourceClaim with CPUs that were allocated to it. Its pod is the only one that uses it.
type Claim struct {
	UID       string      `json:"uid"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	PodUID    string      `json:"podUID"`
	Parts     []ClaimPart `json:"parts"` // each with a key of its own
	// Containers are the names of the containers that use the claim, sorted, as far as the runtime has
	// reported them. Several containers share the CPUs.
	Containers []string `json:"containers"`
}

// UsedBy reports whether a container uses the claim.
func (c *Claim) UsedBy(podUID, container string) bool {
	return c.PodUID == podUID && slices.Contains(c.Containers, container)
}

// Equal reports whether c and o record the same.
func (c Claim) Equal(o Claim) bool {
	return c.UID == o.UID && c.PodUID == o.PodUID && c.Namespace == o.Namespace && c.Name == o.Name &&
		slices.Equal(c.Parts, o.Parts) && slices.Equal(c.Containers, o.Containers)
}

// ClaimPart is one result of an allocation (resource.k8s.io/v1, DeviceRequestAllocationResult).
type ClaimPart struct {
	Request string `json:"request"`          // name of the request in the claim
	Device  string `json:"device"`           // see Device.Name
	ShareID string `json:"shareID,omitzero"` // distinguishes the shares of one device
	CPUs    int    `json:"cpus"`
}

// key is the name of the part within its claim.
func (p *ClaimPart) key() string { return p.Request + "|" + p.Device + "|" + p.ShareID }

// ClaimPlan are the CPUs of a claim.
type ClaimPlan struct {
	UID        string          `json:"uid"`
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	PodUID     string          `json:"podUID"`
	Containers []string        `json:"containers"` // as in Claim
	Parts      []ClaimPartPlan `json:"parts"`      // in the order of their keys
	CPUs       cpuset.Set      `json:"cpus"`       // CPUs of all parts that containers can use
	Away       cpuset.Set      `json:"away"`       // other CPUs of all parts: see ClaimPartPlan
	// Refused is the reason why the claim has no CPUs, or fewer than it should; nil in all other
	// cases.
	Refused *allocate.Refusal `json:"refused,omitempty"`
	Reason  Reason            `json:"reason"`
}

// ClaimPartPlan are the CPUs of one part of a claim.
type ClaimPartPlan struct {
	ClaimPart
	On cpuset.Set `json:"on"` // CPUs of the part that its containers can use
	// Away are CPUs of the part that are offline, or that another pool cannot do without. They come
	// back to the part.
	Away cpuset.Set `json:"away"`
}

// noDevice is a code of refusals: the node has no device of this name.
const noDevice = "NoDevice"

// leaveClaims removes the CPUs of claims that are outside of the list for claims from the other pools. It returns
// the CPUs of claims that stay in another pool, because that pool would be empty otherwise.
func (in *Input) leaveClaims() (needed cpuset.Set) {
	var outside cpuset.Set // online CPUs of existing claims
	for _, a := range in.Previous {
		if a.Claim != "" && slices.ContainsFunc(in.Claims, func(c Claim) bool { return c.UID == a.Claim }) {
			outside = outside.Union(a.CPUs.Union(a.Away).Intersection(in.Machine.Topology().Online))
		}
	}
	outside = outside.Difference(in.Pools.Claims.CPUs)
	spared := in.Pools.spared(outside)
	in.Pools = in.Pools.without(spared, spared)
	return outside.Difference(spared)
}

type claimer struct {
	in      *Input
	devices []Device
	had     map[Key]cpuset.Set // CPUs of previous assignments, online and offline
	free    cpuset.Set         // CPUs of the pool that no claim has
	taken   cpuset.Set         // CPUs of claims, online and offline
	needed  cpuset.Set         // CPUs of claims that other pools cannot do without
}

// claims returns the plans of all claims by UID, their assignments, and their problems. First all
// claims keep their CPUs. Then new claims get theirs, so that no claim loses CPUs to a new one. needed are CPUs
// of claims that other pools have, because they would be empty otherwise.
func (in *Input) claims(needed cpuset.Set) (plans []ClaimPlan, assignments []Assignment, problems []Problem) {
	if len(in.Claims) == 0 {
		return nil, nil, nil
	}
	c := claimer{in: in, devices: in.Pools.Devices(in.Machine), had: make(map[Key]cpuset.Set), free: in.Pools.Claims.CPUs, needed: needed}
	for _, a := range in.Previous {
		if a.Claim != "" {
			c.had[a.Key] = c.had[a.Key].Union(a.CPUs, a.Away)
		}
	}
	for _, claim := range sortedBy(in.Claims, func(c *Claim) string { return c.UID }) {
		plans = append(plans, c.keep(claim))
	}
	for i := range plans {
		p := &plans[i]
		c.allocate(p)
		assignments = append(assignments, p.sum()...)
		for _, r := range c.problems(p) {
			problems = append(problems, Problem{PodUID: p.PodUID, Claim: p.Namespace + "/" + p.Name, Reason: r})
		}
	}
	return plans, assignments, problems
}

// sortedBy returns pointers to the elements in the order of their names. The code that sorts pointers exists once in
// a program, and the code that sorts structs once for each type: about 15 kB.
func sortedBy[E any](all []E, name func(*E) string) []*E {
	sorted := make([]*E, 0, len(all))
	for i := range all {
		sorted = append(sorted, &all[i])
	}
	slices.SortFunc(sorted, func(a, b *E) int { return strings.Compare(name(a), name(b)) })
	return sorted
}

// keep returns the plan of a claim with the CPUs that it has. CPUs that the machine no longer has are lost.
func (c *claimer) keep(claim *Claim) ClaimPlan {
	t := c.in.Machine.Topology()
	p := ClaimPlan{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name, PodUID: claim.PodUID, Containers: claim.Containers}
	for _, part := range sortedBy(claim.Parts, (*ClaimPart).key) {
		had := c.had[Key{Claim: claim.UID, Container: part.key()}].Intersection(t.Present)
		if both := had.Intersection(c.taken); !both.IsEmpty() {
			p.Reason = overlap()
			had = had.Difference(both)
		}
		on := had.Intersection(t.Online).Difference(c.needed)
		c.taken, c.free = c.taken.Union(had), c.free.Difference(had)
		p.Parts = append(p.Parts, ClaimPartPlan{ClaimPart: *part, On: on, Away: had.Difference(on)})
	}
	return p
}

// allocate gives CPUs to the parts of a claim that have no CPUs. A claim gets the CPUs of all such
// parts, or no CPUs.
func (c *claimer) allocate(p *ClaimPlan) {
	free := c.free
	got := make([]cpuset.Set, len(p.Parts))
	var near cpuset.Set
	for i := range p.Parts {
		near = near.Union(p.Parts[i].On)
	}
	for i := range p.Parts {
		part := &p.Parts[i]
		if !part.On.IsEmpty() || !part.Away.IsEmpty() {
			continue
		}
		if got[i], p.Refused = c.take(&part.ClaimPart, free, near); p.Refused != nil {
			return
		}
		free, near = free.Difference(got[i]), near.Union(got[i])
	}
	for i := range p.Parts {
		p.Parts[i].On = p.Parts[i].On.Union(got[i])
		c.taken = c.taken.Union(got[i])
	}
	c.free = free
}

// take chooses the CPUs of one part from free.
func (c *claimer) take(part *ClaimPart, free, near cpuset.Set) (cpuset.Set, *allocate.Refusal) {
	i := slices.IndexFunc(c.devices, func(d Device) bool { return d.Name == part.Device })
	if i < 0 {
		return cpuset.Set{}, &allocate.Refusal{Asked: part.CPUs, Code: noDevice,
			Why: "this node has no device " + clip(part.Device) + " with online CPUs of guaranteed.claims"}
	}
	d := &c.devices[i]
	from := free.Intersection(d.CPUs)
	refusal := allocate.Refusal{Asked: part.CPUs, Free: from.Len(), Usable: from.Len()}
	switch {
	case part.CPUs < 1 || part.CPUs%d.Step != 0:
		refusal.Code = allocate.SMTAlignment
		refusal.Why = fmt.Sprintf("device %s gives multiples of %s", d.Name, count(d.Step, "CPU"))
	case part.CPUs > from.Len():
		refusal.Code = allocate.TooFewFree
		refusal.Why = fmt.Sprintf("only %d of %s of device %s are free, for a request of %d", from.Len(), count(d.CPUs.Len(), "CPU"), d.Name, part.CPUs)
	default:
		return take(c.in.Machine.Supply(from), allocate.Request{CPUs: part.CPUs, Near: near, Options: c.in.Pools.claimOptions()})
	}
	return cpuset.Set{}, &refusal
}

// sum sets the fields of the claim that depend on its parts, and returns its assignments.
func (p *ClaimPlan) sum() (all []Assignment) {
	want := 0
	for i := range p.Parts {
		part := &p.Parts[i]
		want += part.CPUs
		p.CPUs, p.Away = p.CPUs.Union(part.On), p.Away.Union(part.Away)
		if !part.On.IsEmpty() || !part.Away.IsEmpty() {
			all = append(all, Assignment{Key: Key{Claim: p.UID, Container: part.key()}, CPUs: part.On, Away: part.Away})
		}
	}
	has := p.CPUs.Len() + p.Away.Len()
	switch {
	case p.Refused != nil:
		p.Reason = Reason{CodeRefused, "gets no CPUs, because " + p.Refused.Why}
	case p.Reason.Code == CodeOverlap:
	case has < want:
		p.Reason = Reason{CodeShort, fmt.Sprintf("has %d of %s, because the machine no longer has the others", has, count(want, "CPU"))}
	default:
		p.Reason = Reason{CodeClaim, count(want, "CPU") + ", as the scheduler has allocated"}
	}
	return all
}

func (c *claimer) problems(p *ClaimPlan) (all []Reason) {
	if p.Reason.Code != CodeClaim {
		all = append(all, p.Reason)
	}
	if offline := p.Away.Difference(c.needed); !offline.IsEmpty() {
		all = append(all, Reason{CodeOffline, fmt.Sprintf("%s of its own %s offline, and kept for it", named(offline), isOrAre(offline))})
	}
	if lent := p.Away.Intersection(c.needed); !lent.IsEmpty() {
		all = append(all, Reason{CodeOutsideList, fmt.Sprintf("%s of its own %s needed by a pool without other online CPUs, and kept for it", named(lent), isOrAre(lent))})
	}
	if outside := p.CPUs.Difference(c.in.Pools.Claims.CPUs); !outside.IsEmpty() {
		all = append(all, Reason{CodeOutsideList, fmt.Sprintf("%s of its own %s no longer in guaranteed.claims.cpus; no pool gets %s until the claim ends",
			named(outside), isOrAre(outside), map[bool]string{true: "it", false: "them"}[outside.Len() == 1])})
	}
	return all
}

func isOrAre(cpus cpuset.Set) string {
	if cpus.Len() == 1 {
		return "is"
	}
	return "are"
}

func (in *Input) hasClaims(podUID string) bool {
	return podUID != "" && slices.ContainsFunc(in.Claims, func(c Claim) bool { return c.PodUID == podUID })
}

// ofClaims is the pool of containers that use claims, until their CPUs are known. Then they are in the
// guaranteed pool.
const ofClaims Pool = "claims"

// claiming classifies a pod with claims. The containers that use them are apart: their requests have no
// effect, and the others are classified as in a pod without them.
func (c *classifier) claiming(p *Pod, to *class) {
	var names []string // of containers with claims
	for i := range c.in.Claims {
		if claim := &c.in.Claims[i]; claim.PodUID == p.UID {
			names = append(names, claim.Containers...)
		}
	}
	uses := func(ctr *Container) bool {
		return ctr.Kind == App && ctr.Foreign == nil && slices.Contains(names, ctr.Name)
	}
	rest := *p
	rest.Containers = slices.DeleteFunc(slices.Clone(p.Containers), func(ctr Container) bool { return uses(&ctr) })
	all := to.verdicts
	to.verdicts = make([]verdict, len(rest.Containers))
	c.pod(&rest, to)
	others := to.verdicts
	for i := range p.Containers {
		if ctr := &p.Containers[i]; uses(ctr) {
			all[i] = verdict{pool: ofClaims, mixed: c.mixes(p, ctr.Name), reason: Reason{CodeClaim, "uses a ResourceClaim for CPUs"}}
			c.notes.claim(p, ctr, &all[i])
		} else {
			all[i], others = others[0], others[1:]
		}
	}
	to.verdicts = all
}

// onClaims places a container on the CPUs of its claims.
func (b *placer) onClaims(p *Pod, at *Placement) {
	at.Exclusive = true
	var refused *ClaimPlan
	for i := range b.claims {
		claim := &b.claims[i]
		if claim.PodUID != p.UID || !slices.Contains(claim.Containers, at.Name) {
			continue
		}
		at.CPUs, at.Claims = at.CPUs.Union(claim.CPUs), append(at.Claims, claim.UID)
		at.Exclusive = at.Exclusive && len(claim.Containers) == 1
		if claim.CPUs.IsEmpty() {
			refused = claim
		}
	}
	if at.CPUs.IsEmpty() {
		why := refused.Reason.Text
		if refused.Refused == nil {
			why = "all its CPUs are offline"
		}
		at.Pool, at.CPUs, at.Exclusive = Shared, b.ofShared, false
		at.Reason = Reason{CodeRefused, "claim " + refused.Name + " " + why + "; runs in the shared pool"}
		if at.Refused = refused.Refused; at.Refused == nil {
			at.Refused = &allocate.Refusal{Code: allocate.TooFewFree, Why: why}
		}
		return
	}
	at.Pool = Guaranteed
	at.Reason = Reason{CodeClaim, "runs on the CPUs of " + count(len(at.Claims), "ResourceClaim")}
}
