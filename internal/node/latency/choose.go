package latency

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Candidates holds the CPUs of a node and their owners. A measurement keeps a CPU busy, so it may use only
// CPUs that no owner has, and no thread of a core on which an owner has another thread.
type Candidates struct {
	Online cpuset.Set
	// Free holds the guaranteed CPUs that are in no other pool and have no owner.
	Free cpuset.Set
	// Owners holds the owners of exclusive CPUs, and the pools. A CPU belongs to the first owner with this CPU.
	Owners []audit.Owner
	// Claims maps the CPUs of ResourceClaims to namespace/name of the claim.
	Claims map[int]string
	// Cores holds the CPUs of each physical core.
	Cores []cpuset.Set
}

// Choose returns the CPUs of a request, or all possible ones for an empty request. The error names each
// CPU that must not be measured, with the reason.
func (c *Candidates) Choose(request cpuset.Set) (cpuset.Set, error) {
	var possible cpuset.Set
	for cpu := range c.Free.Intersection(c.Online).All() {
		if c.obstacle(cpu) == "" {
			possible = possible.Union(cpuset.Of(cpu))
		}
	}
	if request.IsEmpty() {
		if possible.IsEmpty() {
			return possible, errors.New("measure CPUs: no guaranteed CPU is free: cpupoold plan lists their owners")
		}
		return possible, nil
	}
	remedy := "no CPU can be measured at the moment"
	if !possible.IsEmpty() {
		remedy = "choose from " + possible.String()
	}
	var refused []error
	for cpu := range request.Difference(possible).All() {
		refused = append(refused, fmt.Errorf("CPU %d %s: %s", cpu, cmp.Or(c.obstacle(cpu), "is reserved for an owner"), remedy))
	}
	return request, errors.Join(refused...)
}

func (c *Candidates) obstacle(cpu int) string {
	if !c.Online.Contains(cpu) {
		return "is not online"
	}
	if o, owned := c.owner(cpu); owned {
		return "belongs to " + o
	}
	for _, core := range c.Cores {
		if !core.Contains(cpu) {
			continue
		}
		for sibling := range core.All() {
			if o, owned := c.owner(sibling); owned {
				return fmt.Sprintf("shares a core with CPU %d of %s", sibling, o)
			}
		}
	}
	if c.Free.Contains(cpu) {
		return ""
	}
	for _, o := range c.Owners {
		if o.Name == "" && o.Pod == "" && o.CPUs.Contains(cpu) && o.Pool != "guaranteed" {
			return fmt.Sprintf("is in the %s pool", o.Pool)
		}
	}
	if !slices.ContainsFunc(c.Owners, func(o audit.Owner) bool { return o.CPUs.Contains(cpu) }) {
		return "is in no pool"
	}
	return ""
}

// owner returns the name of the container, unit, pod or claim that has a CPU exclusively.
func (c *Candidates) owner(cpu int) (string, bool) {
	for _, o := range c.Owners {
		switch {
		case o.Name == "" && o.Pod == "" || !o.CPUs.Contains(cpu):
		case o.Pod == "":
			return "unit " + o.Name, true
		case o.Name == "":
			return "pod " + o.Pod, true
		default:
			return "container " + path.Join(o.Pod, o.Name), true
		}
	}
	claim, claimed := c.Claims[cpu]
	return "ResourceClaim " + claim, claimed
}
