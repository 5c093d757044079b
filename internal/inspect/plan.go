package inspect

import (
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Containers returns the containers of a plan that have not exited or own reserved CPUs, and
// the units, by name. more adds fields that a plan lacks; it may be nil.
func Containers(plan *pools.Plan, more func(*Container)) []Container {
	return containers(plan, more, func(at *pools.Placement) bool {
		return at.Kind != pools.Infra && (at.State != pools.Exited || at.Exclusive)
	})
}

// AllContainers returns [Containers] with pause containers and all exited containers.
func AllContainers(plan *pools.Plan, more func(*Container)) []Container {
	return containers(plan, more, func(*pools.Placement) bool { return true })
}

func containers(plan *pools.Plan, more func(*Container), wanted func(*pools.Placement) bool) []Container {
	all, claims := []Container{}, claimNames(plan)
	add := func(c Container) {
		if more != nil {
			more(&c)
		}
		all = append(all, c)
	}
	for pod, at := range plan.Containers() {
		if !wanted(at) {
			continue
		}
		add(Container{Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Name: at.Name, ID: at.ID, State: stateName(at.State),
			Pool: string(at.Pool), Type: at.Type, CPUs: at.CPUs, Exclusive: at.Exclusive, Mixed: at.Mixed, Claims: namesOf(at.Claims, claims),
			Code: string(at.Reason.Code), Reason: at.Reason.Text, Refused: at.Refused != nil})
	}
	for _, u := range plan.Units {
		add(Container{Unit: true, Name: u.Name, Pool: string(u.Pool), Type: u.Type, CPUs: u.CPUs, Exclusive: u.Exclusive,
			Code: string(u.Reason.Code), Reason: u.Reason.Text, Refused: u.Refused != nil})
	}
	slices.SortFunc(all, func(a, b Container) int { return strings.Compare(a.Full(), b.Full()) })
	return all
}

func stateName(s pools.ContainerState) string {
	switch s {
	case pools.Created:
		return "created"
	case pools.Exited:
		return "exited"
	}
	return "running"
}

// CPUs returns the CPUs of a machine with their pools and owners. It returns none without a machine.
func CPUs(t *topology.Topology, plan *pools.Plan, all []Pool) []CPU {
	out := []CPU{}
	if t == nil {
		return out
	}
	owners, reserved, away := owners(plan)
	for id := range t.Present.Union(t.Online).All() {
		c := CPU{ID: id, Core: -1, L3: -1, Die: -1, Package: -1, Node: -1, Use: "offline"}
		if at, ok := t.CPU(id); ok {
			c.Online, c.Use = true, "none"
			c.Core, c.L3, c.Die = t.Cores[at.Core].ID, t.L3s[at.L3].ID, t.Dies[at.Die].ID
			c.Package, c.Node = t.Packages[at.Package].ID, t.Nodes[at.Node].ID
			for i := range all {
				all[i].mark(&c)
			}
		}
		if owner, ok := owners[id]; ok {
			c.Owner = owner
			if c.Online && !away.Contains(id) {
				if c.Use = "owned"; reserved.Contains(id) {
					c.Use = "reserved"
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// owners returns the owner of each CPU, the CPUs that are reserved for pods, and the CPUs that
// their owners cannot use now.
func owners(plan *pools.Plan) (owners map[int]string, reserved, away cpuset.Set) {
	names, claims := podNames(plan), claimNames(plan)
	owners = make(map[int]string)
	for _, a := range plan.Assignments {
		name := a.Container
		switch {
		case a.Claim != "":
			name = claimOwner + claims[a.Claim]
		case !a.IsUnit():
			if name = names[a.PodUID]; a.Container != "" {
				name += "/" + a.Container
			} else {
				reserved = reserved.Union(a.CPUs)
			}
		}
		away = away.Union(a.Away)
		for id := range a.CPUs.Union(a.Away).All() {
			owners[id] = name
		}
	}
	return owners, reserved, away
}

// mark sets pool and use of an online CPU that belongs to the pool. Callers call it for the
// pools in their order. The guaranteed pool and the pool claims are last, because their CPUs may be in the
// shared pool, too.
func (p *Pool) mark(c *CPU) {
	if p.Name == Management || p.Name == Shared {
		if p.CPUs.Contains(c.ID) && (c.Pool == "" || p.Name != Shared) {
			c.Pool, c.Type, c.Use = p.Name, p.Type, "pool"
		}
		return
	}
	if !p.CPUs.Contains(c.ID) {
		return
	}
	use := ""
	switch {
	case p.Owned.Contains(c.ID):
		use = "owned"
	case p.Parked.Contains(c.ID):
		use = "parked"
	case p.Idle.Contains(c.ID):
		use = "idle"
	case p.Resting.Contains(c.ID):
		use = "resting"
	case p.FromShared:
		return // the CPU is in the shared pool until an owner needs it
	case p.Lent.Contains(c.ID):
		use = "lent"
	case p.Name == ClaimedPool:
		use = "unused"
	default:
		use = "free"
	}
	c.Pool, c.Type, c.Use = p.Name, "", use
}

// claimOwner is before the name of a claim, which a pod can have, too.
const claimOwner = "claim "

// ProblemOf is a problem of a plan.
func ProblemOf(p pools.Problem) Problem {
	return Problem{Pod: p.Pod, PodUID: p.PodUID, Container: p.Container, Unit: p.Unit, Claim: p.Claim, Code: string(p.Code), Text: p.Text}
}
