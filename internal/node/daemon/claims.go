package daemon

import (
	"errors"
	"slices"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/claims"
	"github.com/cpupoold/cpupoold/internal/node/claimuse"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// claimChange asks for a claim that is prepared or ends.
type claimChange struct{ *claims.Change }

// apply decides the change. The pass that follows plans with it and saves the journal. Then the change is
// answered.
func (c claimChange) apply(l *Loop) {
	if c.IsCanceled() {
		return
	}
	err := l.decideClaim(c.Change)
	if err == nil {
		l.journal.SetClaims(l.planner.Claims.All())
	}
	if err == nil && c.Claim == nil { // its CPUs must not decide about a claim with the same UID that follows before the pass
		l.planner.Assign(slices.DeleteFunc(slices.Clone(l.planner.Assignments()), func(a pools.Assignment) bool { return a.Claim == c.UID }))
	}
	if err == nil && c.Claim != nil {
		for e := range l.inventory.Objects().Members(c.Claim.PodUID) { // of a claim that a lost journal had
			if e.Container.State != cri.Exited {
				_ = l.useClaims(e.Container.Claims, c.Claim.PodUID, e.Container.Name) // a problem shows the error
			}
		}
	}
	l.planner.Claims.Take(c.Change, err)
}

// decideClaim makes a change of the claims, or returns the reason against it.
func (l *Loop) decideClaim(c *claims.Change) error {
	if err := l.Writable(); err != nil {
		return err
	}
	switch {
	case !l.last.Planned:
		return errors.New("the daemon has not finished its first pass; try again")
	case c.Claim != nil && !l.inventory.Objects().HasNRI(): // its containers would run in the shared pool
		return errors.New(inspect.ClaimsWithoutNRI)
	}
	plan := func(claim pools.Claim) pools.Plan {
		s := l.planner.Input(l.moment(l.now()))
		s.Claims = append(slices.Clip(s.Claims), claim)
		return s.Decide().Plan
	}
	return l.planner.Claims.Decide(c, plan, l.running)
}

// useClaims records the claims that a container of a pod uses. The error is the reason why the
// container must not be created. The journal has the claims on disk before the runtime gets a reply.
func (l *Loop) useClaims(refs cri.ClaimRefs, podUID, container string) error {
	if refs.IsEmpty() {
		return nil
	}
	node := claimuse.Node{Claims: l.planner.Claims.All(), Assignments: l.journal.Facts().Assignments}
	uids, _, err := node.Find(refs, podUID)
	for _, uid := range uids {
		if l.planner.Claims.Use(uid, container) {
			l.schedule.full = true // the last plan does not contain it
		}
	}
	l.journal.SetClaims(l.planner.Claims.All())
	return err
}

// running returns the names of the containers of a claim that have not ended.
func (l *Loop) running(claim pools.Claim) (names []string) {
	for c := range l.inventory.Objects().Members(claim.PodUID) {
		if slices.Contains(claim.Containers, c.Container.Name) && c.Container.State != cri.Exited {
			names = append(names, c.Container.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
