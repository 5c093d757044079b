package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// owner is who had exclusive CPUs at the last rest.
type owner struct {
	id      string
	cpus    cpuset.Set
	epoch   int
	perhaps cpuset.Set // where a move has taken it that nobody knows the end of
	resized bool       // since: it may have lost some, or all
}

// place is where the plan puts a container that runs.
type place struct {
	name, key   string
	cpus, mixed cpuset.Set
	exclusive   bool
}

// placed are the containers of the plan that run, by id.
func (p *Pods) placed(plan pools.Plan) map[string]place {
	all := make(map[string]place)
	for _, pod := range plan.Pods {
		for _, c := range pod.Containers {
			if c.State == pools.Running && p.Runs(c.ID) {
				key := pod.UID + "/" + c.Name
				all[c.ID] = place{name: key + " " + c.ID[:min(len(c.ID), 8)], key: key, cpus: c.CPUs, mixed: c.Mixed, exclusive: c.Exclusive}
			}
		}
	}
	return all
}

// Check holds a node that has come to rest against its plan, and against what it was
// at the last Check. It returns what is wrong, and who has exclusive CPUs, by id.
func (p *Pods) Check(plan pools.Plan, on pools.Pools) (exclusive map[string]cpuset.Set, err error) {
	errs := pools.Check(plan, on)
	claims, err := p.claims(plan)
	errs = append(append(errs, err), cpuset.CheckClaims(claims)...)
	owners, exclusive := p.owned(plan)
	errs = append(errs, p.moved(owners, on.Guaranteed)...)
	for key, before := range p.owners { // it may come back as another instance
		uid, _, _ := strings.Cut(key, "/")
		if _, still := owners[key]; !still && !before.resized && p.pods[uid] != nil && !p.pods[uid].stopped && before.epoch == p.epoch {
			owners[key] = before
		}
	}
	p.owners = owners
	return exclusive, errors.Join(errs...)
}

// claims are those of everything that the plan places, by the kernel's word.
func (p *Pods) claims(plan pools.Plan) ([]cpuset.Claim, error) {
	var claims []cpuset.Claim
	var errs []error
	claim := func(name string, effective, planned, mixed cpuset.Set, exclusive bool) {
		if !effective.Equal(planned.Union(mixed)) {
			errs = append(errs, fmt.Errorf("%s runs on %s; planned is %s, and %s shared beside it", name, effective, planned, mixed))
		}
		claims = append(claims, cpuset.Claim{Name: name, CPUs: effective.Difference(mixed), Exclusive: exclusive})
		if !mixed.IsEmpty() {
			claims = append(claims, cpuset.Claim{Name: name + " beside its own", CPUs: effective.Intersection(mixed)})
		}
	}
	for id, at := range p.placed(plan) {
		if cpus, runs := p.runtime.CPUs(id); runs {
			claim(at.name, cpus, at.cpus, at.mixed, at.exclusive)
		}
	}
	for _, u := range plan.Units {
		if cpus, runs := p.runtime.UnitCPUs(u.Name); runs {
			claim(u.Name, cpus, u.CPUs, cpuset.Set{}, u.Exclusive)
		}
	}
	return claims, errors.Join(errs...)
}

// owned are the owners of exclusive CPUs, and those of them that are containers by id.
func (p *Pods) owned(plan pools.Plan) (map[string]owner, map[string]cpuset.Set) {
	owners, exclusive := make(map[string]owner), make(map[string]cpuset.Set)
	for id, at := range p.placed(plan) {
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

// moved says who has lost or changed exclusive CPUs without a reason.
func (p *Pods) moved(owners map[string]owner, guaranteed cpuset.Set) (errs []error) {
	for key, before := range p.owners {
		now, still := owners[key]
		reloaded := before.epoch != p.epoch
		left := before.cpus.Intersection(guaranteed)
		if reloaded && p.plugged == p.epoch && still && !before.cpus.IsSubsetOf(guaranteed) {
			if before.perhaps.IsEmpty() && !before.resized && !left.IsSubsetOf(now.cpus) && !now.cpus.IsSubsetOf(left) {
				errs = append(errs, fmt.Errorf("%s has lost some of %s, had %s left, and was moved to %s", key, before.cpus, left, now.cpus))
			}
			continue
		}
		switch {
		case before.resized && still && now.cpus.IsSubsetOf(before.cpus): // it asks for less
		case before.resized && !still:
		case still && reloaded && !before.cpus.IsSubsetOf(guaranteed):
		case still && before.cpus.IsSubsetOf(now.cpus): // it had less than it asks for
		case still && !before.perhaps.IsEmpty() && before.perhaps.IsSubsetOf(now.cpus):
		case still && reloaded && now.cpus.IsSubsetOf(before.cpus): // to restore the floor
		case still && (now.id == before.id || !p.reuses(key)):
			errs = append(errs, fmt.Errorf("%s was moved from %s to %s", key, before.cpus, now.cpus))
		case !still && !reloaded && p.Runs(before.id):
			errs = append(errs, fmt.Errorf("%s has lost %s", key, before.cpus))
		}
	}
	return errs
}

// reuses says that a restarted container may get other CPUs than before: its pod has
// init containers, and which of them has ended for good nobody knows.
func (p *Pods) reuses(key string) bool {
	uid, _, _ := strings.Cut(key, "/")
	of := p.pods[uid]
	return of == nil || of.inits || of.spec.CPUs == 0
}
