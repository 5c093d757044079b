package defrag

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Input holds the input of a report.
type Input struct {
	Machine *allocate.Machine
	Pool    cpuset.Set    // CPUs that can be exclusive
	Owners  []pools.Owner // all owners. Their CPUs are disjoint. Pool contains all but the CPUs of ResourceClaims
}

// Report describes the CPUs of owners on the machine, and possible improvements.
type Report struct {
	Owners []Place      `json:"owners"` // sorted by key
	Room   Change[Room] `json:"room"`   // what new owners can have, now and after all moves
	// Excess is by how much all owners together are above their least, now and
	// after all moves.
	Excess Change[Shape] `json:"excess"`
	// Moves is in the order of execution: each goes to CPUs that are free, or
	// its owner's, after the moves before it.
	Moves   []Move `json:"moves"`
	Bounded bool   `json:"bounded,omitempty"` // search was ended before it had tried everything
}

// Change is a value now and after all moves.
type Change[T any] struct {
	Now   T `json:"now"`
	After T `json:"after"`
}

// Name names an owner: a container of a pod, or without PodUID a systemd unit. With ClaimUID it
// names the part of a ResourceClaim on one device.
type Name struct {
	PodUID    string `json:"podUID,omitempty"`
	Pod       string `json:"pod,omitempty"` // namespace/name
	Container string `json:"container,omitempty"`
	ClaimUID  string `json:"claimUID,omitempty"`
	Claim     string `json:"claim,omitempty"` // namespace/name
	// Part is the part of the claim: request, device and share, with | between them.
	Part string `json:"part,omitempty"`
}

func nameOf(o *pools.Owner) Name {
	if o.Key.Claim != "" {
		return Name{ClaimUID: o.Key.Claim, Claim: o.Pod, Part: o.Key.Container}
	}
	return Name{PodUID: o.Key.PodUID, Pod: o.Pod, Container: o.Key.Container}
}

// Key is the name as plans have it.
func (n Name) Key() pools.Key {
	if n.ClaimUID != "" {
		return pools.Key{Claim: n.ClaimUID, Container: n.Part}
	}
	return pools.Key{PodUID: n.PodUID, Container: n.Container}
}

// Full returns namespace/pod/container, the unit, or the claim with its request and device.
func (n Name) Full() string {
	switch {
	case n.ClaimUID != "":
		request, device, _ := strings.Cut(n.Part, "|")
		device, _, _ = strings.Cut(device, "|")
		return "claim " + cmp.Or(n.Claim, n.ClaimUID) + " (" + request + " of " + device + ")"
	case n.PodUID == "":
		return n.Container
	case n.Container == "":
		return cmp.Or(n.Pod, n.PodUID)
	}
	return cmp.Or(n.Pod, n.PodUID) + "/" + n.Container
}

// Place is where an owner is.
type Place struct {
	Name
	CPUs cpuset.Set `json:"cpus"`
	// Fixed is the reason why the owner must not be moved; empty if it can be.
	Fixed string `json:"fixed,omitempty"`
	// Now is its current position, and After the position after all moves. Least is its
	// position if it were alone in the pool.
	Now   Shape `json:"now"`
	After Shape `json:"after"`
	Least Shape `json:"least"`
}

// Shape is how an owner's CPUs lie on the machine. Fewer is better in each field.
type Shape struct {
	// SplitCores are cores of which it has some threads and not all: 0
	// for an owner with distribute-cpus-across-cores, which requests that.
	// SharedCores are cores of which another owner has a part.
	SplitCores  int `json:"splitCores"`
	SharedCores int `json:"sharedCores"`
	// L3Groups, Nodes and Packages are numbers of groups that it touches.
	L3Groups int `json:"l3Groups"`
	Nodes    int `json:"nodes"`
	Packages int `json:"packages"`
	// RemoteCPUs are off the NUMA nodes of its devices and memory, where those are
	// known and count.
	RemoteCPUs int `json:"remoteCPUs"`
}

// addExcess adds by how much another shape is above its least.
func (s *Shape) addExcess(o, least Shape) {
	s.SplitCores += max(o.SplitCores-least.SplitCores, 0)
	s.SharedCores += max(o.SharedCores-least.SharedCores, 0)
	s.L3Groups += max(o.L3Groups-least.L3Groups, 0)
	s.Nodes += max(o.Nodes-least.Nodes, 0)
	s.Packages += max(o.Packages-least.Packages, 0)
	s.RemoteCPUs += max(o.RemoteCPUs-least.RemoteCPUs, 0)
}

// Move takes an owner from CPUs to as many others. The two sets may overlap.
type Move struct {
	Name
	From cpuset.Set `json:"from"`
	To   cpuset.Set `json:"to"`
	// Now and Then are how the owner lies before and after the move.
	Now  Shape `json:"now"`
	Then Shape `json:"then"`
	// FromNodes and ToNodes are the IDs of the NUMA nodes of From and To. Where they
	// differ, memory that is not bound stays where it is.
	FromNodes cpuset.Set `json:"fromNodes"`
	ToNodes   cpuset.Set `json:"toNodes"`
	// MakesRoom reports that the move does not improve the position of its owner, but makes
	// the next move possible.
	MakesRoom bool `json:"makesRoom,omitempty"`
}

// Analyse reports on owners. The same input gives the same report, whatever the
// order of Owners.
func Analyse(in Input) Report {
	in.Owners = slices.Clone(in.Owners)
	slices.SortFunc(in.Owners, func(a, b pools.Owner) int { return a.Key.Compare(b.Key) })
	n := newNode(in)
	s := &search{node: n, start: n.clone(), tried: make([]cpuset.Set, len(n.owners)), effort: maxEffort, price: 1 + n.topology.Online.Len()/cheapCPUs}
	report := Report{Owners: make([]Place, len(in.Owners))}
	report.Room.Now = n.room()
	for i := range in.Owners {
		o := &in.Owners[i]
		s.least = append(s.least, n.alone(i))
		place := Place{Name: nameOf(o), CPUs: o.CPUs, Fixed: o.Fixed, Now: n.shape(i), Least: s.least[i].shape}
		report.Owners[i] = place
		report.Excess.Now.addExcess(place.Now, place.Least)
	}
	for s.effort > 0 && (s.improveWorst() || s.makeRoom()) { // until no move helps
		continue
	}
	steps := s.shortest()
	report.Moves, report.Bounded = s.start.describe(steps), s.effort <= 0
	last := newNode(in)
	for _, m := range steps {
		last.put(m.owner, m.to)
	}
	for i := range report.Owners {
		place := &report.Owners[i]
		place.After = last.shape(i)
		report.Excess.After.addExcess(place.After, place.Least)
	}
	report.Room.After = last.room()
	return report
}

// shortest returns the steps without unnecessary ones. An owner that was moved twice goes to
// its last place at once, if that is possible and all other owners get their places.
func (s *search) shortest() []step {
	steps := s.steps
	for i, effort := 0, maxEffort; i < len(steps) && effort > 0; {
		again := func(later step) bool { return later.owner == steps[i].owner }
		if !slices.ContainsFunc(steps[i+1:], again) {
			i++
			continue
		}
		effort -= len(steps) * s.price
		fewer := make([]step, 0, len(steps)-1)
		fewer = append(append(fewer, steps[:i]...), steps[i+1:]...)
		if s.holds(fewer, i) {
			steps, i = fewer, 0
			continue
		}
		i++
	}
	return steps
}

// holds reports whether steps can be made from the start and each keeps the rules;
// the steps before step known do.
func (s *search) holds(steps []step, known int) bool {
	n := s.start.clone()
	for _, m := range steps[:known] {
		n.put(m.owner, m.to)
	}
	for _, m := range steps[known:] {
		now := n.now(m.owner)
		to := n.measure(m.owner, m.to)
		good := to.better(now) || m.makesRoom && to.noWorse(now)
		if !good || !m.to.IsSubsetOf(n.open(m.owner)) || !n.mayCross(m.owner, to) {
			return false
		}
		n.put(m.owner, m.to)
	}
	return true
}

// Check returns why an owner must not be moved from CPUs to others, nil if it may. The owner
// must have exactly the CPUs from. The CPUs to must be as many, in the pool, free or
// its own, and allowed by its options. A move that improves nothing is allowed: the caller
// may have reasons.
func Check(in Input, key pools.Key, from, to cpuset.Set) error {
	n := newNode(in)
	i := slices.IndexFunc(n.owners, func(o pools.Owner) bool { return o.Key == key })
	if i < 0 {
		return errors.New("has no exclusive CPUs")
	}
	o := &n.owners[i]
	switch {
	case o.Fixed != "":
		return fmt.Errorf("must stay where it is: %s", o.Fixed)
	case !o.CPUs.Equal(from):
		return fmt.Errorf("has CPUs %s and not %s: something has changed; ask for a new report", o.CPUs, from)
	case to.Equal(from):
		return fmt.Errorf("is on CPUs %s already", to)
	case to.Len() != from.Len():
		return fmt.Errorf("has %d CPUs and cannot be moved to %d (%s)", from.Len(), to.Len(), to)
	case !to.IsSubsetOf(n.pool):
		return fmt.Errorf("cannot have CPU %s: not in the guaranteed pool (%s)", to.Difference(n.pool), n.pool)
	case !to.IsSubsetOf(n.available(i)):
		return fmt.Errorf("cannot have CPU %s: not free", to.Difference(n.available(i)))
	}
	return n.checkOptions(i, to)
}

// checkOptions returns why the options of owner i do not allow cpus.
func (n *node) checkOptions(i int, cpus cpuset.Set) error {
	o := n.owners[i]
	if o.Options.OneOwnerPerCore {
		cores := n.coresOf(cpus)
		if taken := cores.Difference(n.pool.Difference(n.others(i))); !taken.IsEmpty() {
			return fmt.Errorf("cannot have CPUs %s: another owner or pool may use CPU %s of the same cores (one-owner-per-core)", cpus, taken)
		}
		if n.idleSiblings(cpus) > n.idleSiblings(n.at[i]) {
			return fmt.Errorf("cannot have CPUs %s: more CPUs of their cores would be idle than now (one-owner-per-core)", cpus)
		}
		o.Options.OneOwnerPerCore = false // the rest is a matter of cpus alone
	}
	_, err := n.machine.Supply(cpus).Take(allocate.Request{CPUs: cpus.Len(), Nodes: o.Nodes, Options: o.Options})
	if refusal, ok := errors.AsType[*allocate.Refusal](err); ok {
		return fmt.Errorf("cannot have CPUs %s: %s", cpus, refusal.Why)
	}
	return err
}
