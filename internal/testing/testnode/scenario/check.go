package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// owner is an owner at the last Check.
type owner struct {
	id       string
	cpus     cpuset.Set
	epoch    int
	possible cpuset.Set // target of a move with an unknown result
	resized  bool       // since the last Check: the owner may have lost CPUs
}

// place is the planned placement of a running container.
type place struct {
	name, key   string
	cpus, mixed cpuset.Set
	exclusive   bool
	pool        string // UID of the pod whose CPUs it shares with other containers of the pod
}

// placed returns the running containers of the plan, by ID.
func (p *Pods) placed(plan pools.Plan) map[string]place {
	all := make(map[string]place)
	for pod, c := range plan.Containers() {
		if c.State == pools.Running && p.Runs(c.ID) {
			key := pod.UID + "/" + c.Name
			all[c.ID] = place{name: key + " " + c.ID[:min(len(c.ID), 8)], key: key, cpus: c.CPUs, mixed: c.Mixed, exclusive: c.Exclusive}
			if c.InPodPool() {
				all[c.ID] = place{name: key + " " + c.ID[:min(len(c.ID), 8)], key: key, cpus: c.CPUs, pool: pod.UID}
			}
		}
	}
	return all
}

// Check compares an idle node with its plan and with the last Check. It returns the exclusive
// containers by ID. The error describes all violations.
func (p *Pods) Check(plan pools.Plan, on pools.Pools) (exclusive map[string]cpuset.Set, err error) {
	errs := invariants.Check(plan, on)
	occupants, err := p.occupants(plan)
	errs = append(append(errs, err), invariants.CheckOccupants(occupants)...)
	errs = append(errs, p.checkTotals(plan)...)
	owners, exclusive := p.owned(plan)
	errs = append(errs, p.checkMoves(owners, on.Guaranteed)...)
	for key, before := range p.owners { // it may start again as another instance
		uid, _, _ := strings.Cut(key, "/")
		if _, still := owners[key]; !still && !before.resized && p.pods[uid] != nil && !p.pods[uid].stopped && before.epoch == p.epoch {
			owners[key] = before
		}
	}
	p.owners = owners
	return exclusive, errors.Join(errs...)
}

// occupants returns the occupants of all containers and units in the plan, with the effective CPUs in
// the kernel.
func (p *Pods) occupants(plan pools.Plan) ([]invariants.Occupant, error) {
	var occupants []invariants.Occupant
	var errs []error
	occupant := func(name string, effective, planned, mixed cpuset.Set, exclusive bool) {
		if !effective.Equal(planned.Union(mixed)) {
			errs = append(errs, fmt.Errorf("%s runs on %s; planned is %s, with %s shared", name, effective, planned, mixed))
		}
		occupants = append(occupants, invariants.Occupant{Name: name, CPUs: effective.Difference(mixed), Exclusive: exclusive})
		if !mixed.IsEmpty() {
			occupants = append(occupants, invariants.Occupant{Name: name + " on shared CPUs", CPUs: effective.Intersection(mixed)})
		}
	}
	for id, at := range p.placed(plan) {
		if cpus, runs := p.runtime.CPUs(id); runs {
			occupant(at.name, cpus, at.cpus, at.mixed, at.exclusive || at.pool != "")
			occupants[len(occupants)-1].Group = at.pool
		}
	}
	for _, u := range plan.Units {
		if cpus, runs := p.runtime.UnitCPUs(u.Name); runs {
			occupant(u.Name, cpus, u.CPUs, cpuset.Set{}, u.Exclusive)
		}
	}
	return occupants, errors.Join(errs...)
}

// checkTotals returns an error for each pod whose containers have more exclusive CPUs in the kernel
// than the pod has as its total. A resize of a container changes the total.
func (p *Pods) checkTotals(plan pools.Plan) (errs []error) {
	has := make(map[string]cpuset.Set)
	for id, at := range p.placed(plan) {
		if cpus, runs := p.runtime.CPUs(id); runs && (at.exclusive || at.pool != "") {
			uid, _, _ := strings.Cut(at.key, "/")
			has[uid] = has[uid].Union(cpus.Difference(at.mixed))
		}
	}
	for uid, cpus := range has {
		if of := p.pods[uid]; of != nil && !of.resized && of.spec.Milli > 0 && cpus.Len()*1000 > of.spec.Milli {
			errs = append(errs, fmt.Errorf("%s has the exclusive CPUs %s; its total is %d thousandths of a CPU", uid, cpus, of.spec.Milli))
		}
	}
	return errs
}

// owned returns the owners in a plan, by key, and the exclusive containers, by ID.
func (p *Pods) owned(plan pools.Plan) (map[string]owner, map[string]cpuset.Set) {
	owners, exclusive := make(map[string]owner), make(map[string]cpuset.Set)
	p.pooled = make(map[string]bool)
	for id, at := range p.placed(plan) {
		p.pooled[id] = at.pool != ""
		if at.exclusive {
			owners[at.key] = owner{id: id, cpus: at.cpus, epoch: p.epoch}
			exclusive[id] = at.cpus
		}
	}
	for _, u := range plan.Units {
		if u.Exclusive {
			owners["unit/"+u.Name] = owner{id: u.Name, cpus: u.CPUs, epoch: p.epoch}
		}
	}
	return owners, exclusive
}

// checkMoves returns errors for owners that lost or changed exclusive CPUs without a reason.
func (p *Pods) checkMoves(owners map[string]owner, guaranteed cpuset.Set) (errs []error) {
	for key, before := range p.owners {
		now, still := owners[key]
		reloaded := before.epoch != p.epoch
		left := before.cpus.Intersection(guaranteed)
		if reloaded && p.plugged == p.epoch && still && !before.cpus.IsSubsetOf(guaranteed) {
			if before.possible.IsEmpty() && !before.resized && !left.IsSubsetOf(now.cpus) && !now.cpus.IsSubsetOf(left) {
				errs = append(errs, fmt.Errorf("%s has lost some of %s, had %s left, and was moved to %s", key, before.cpus, left, now.cpus))
			}
			continue
		}
		switch {
		case before.resized && still && now.cpus.IsSubsetOf(before.cpus): // a smaller request
		case before.resized && !still:
		case !still && p.pooled[before.id] && p.Runs(before.id): // another container of its pod shares its CPUs now
		case still && reloaded && !before.cpus.IsSubsetOf(guaranteed):
		case still && before.cpus.IsSubsetOf(now.cpus): // its request was not fully met
		case still && !before.possible.IsEmpty() && before.possible.IsSubsetOf(now.cpus):
		case still && reloaded && now.cpus.IsSubsetOf(before.cpus): // to restore the floor
		case still && (now.id == before.id || !p.mayGetOthers(key)):
			errs = append(errs, fmt.Errorf("%s was moved from %s to %s", key, before.cpus, now.cpus))
		case !still && !reloaded && p.Runs(before.id):
			errs = append(errs, fmt.Errorf("%s has lost %s", key, before.cpus))
		}
	}
	return errs
}

// mayGetOthers reports whether a restarted container keeps its CPUs. In a pod with init
// containers it may get others, because the daemon does not know which of them have ended.
func (p *Pods) mayGetOthers(key string) bool {
	uid, _, _ := strings.Cut(key, "/")
	of := p.pods[uid]
	return of == nil || of.hasInits || of.spec.Milli == 0
}
