// Package claims holds the ResourceClaims that have CPUs, and the requests on the control socket
// that prepare and end them. The event loop decides each request. A request is answered when
// the journal with its result is on disk. One goroutine uses a [Claims].
package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Change asks the event loop to prepare a claim, or to end one.
type Change struct {
	UID   string
	Claim *pools.Claim // the claim to prepare; nil ends the claim with the UID
	// PodUID is the pod of a claim that ends. The claim of another pod does not end. Empty means any pod.
	PodUID string
	waits.Question[[]inspect.ClaimPart]
	isPlanned bool // a pass has planned with the change
	newest    int  // number of the newest change of the journal after that pass
}

// Request returns the functions that prepare and end claims for the control socket. post hands
// a change to the event loop.
func Request(post func(*Change)) control.ClaimFuncs {
	ask := func(ctx context.Context, uid, podUID string, claim *pools.Claim) ([]inspect.ClaimPart, error) {
		c := &Change{UID: uid, Claim: claim, PodUID: podUID, Question: waits.Ask[[]inspect.ClaimPart](ctx.Done())}
		post(c)
		select {
		case r := <-c.Reply():
			return r.Value, r.Err
		case <-ctx.Done():
			return nil, errors.New("the daemon did not decide in time, or its journal is not on disk; try again")
		}
	}
	return control.ClaimFuncs{
		Prepare: func(ctx context.Context, claim pools.Claim) ([]inspect.ClaimPart, error) {
			return ask(ctx, claim.UID, "", &claim)
		},
		End: func(ctx context.Context, uid, podUID string) error {
			_, err := ask(ctx, uid, podUID, nil)
			return err
		},
	}
}

// Claims holds the claims that have CPUs, and the changes that are not answered.
type Claims struct {
	all  []pools.Claim // sorted by UID. A change replaces the list and the claim: plans keep the old one
	open []*Change     // decided, and not on disk yet
}

// New returns the claims of a journal.
func New(from []pools.Claim) *Claims {
	c := &Claims{}
	for _, claim := range from {
		c.put(claim)
	}
	return c
}

// All returns the claims, sorted by UID. Callers must not change them.
func (c *Claims) All() []pools.Claim { return c.all }

// find returns the position of a claim.
func (c *Claims) find(uid string) (int, bool) {
	return slices.BinarySearchFunc(c.all, uid, func(claim pools.Claim, uid string) int { return strings.Compare(claim.UID, uid) })
}

// Of returns the claim with a UID.
func (c *Claims) Of(uid string) (pools.Claim, bool) {
	i, found := c.find(uid)
	if !found {
		return pools.Claim{}, false
	}
	return c.all[i], true
}

// put adds a claim, or replaces the claim with its UID.
func (c *Claims) put(claim pools.Claim) {
	i, found := c.find(claim.UID)
	c.all = slices.Clone(c.all)
	if found {
		c.all[i] = claim
	} else {
		c.all = slices.Insert(c.all, i, claim)
	}
}

// Use records that a container of the claim's pod uses the claim. It reports whether that is new. A
// claim that does not exist stays unknown. A container with a name that the journal would refuse stays unknown, too.
func (c *Claims) Use(uid, container string) (changed bool) {
	claim, found := c.Of(uid)
	if !found || slices.Contains(claim.Containers, container) {
		return false
	}
	claim.Containers = slices.Sorted(slices.Values(append(slices.Clone(claim.Containers), container)))
	if pools.CheckClaims([]pools.Claim{claim}) != nil {
		return false
	}
	c.put(claim)
	return true
}

// Decide makes a change, if nothing prevents it. plan returns the plan that contains another claim
// in addition to the existing ones. running are the containers that run and may use the claim that ends. The
// error of a change is a [control.Conflict] if another try has the same result.
func (c *Claims) Decide(change *Change, plan func(pools.Claim) pools.Plan, running func(pools.Claim) []string) error {
	had, exists := c.Of(change.UID)
	switch {
	case change.Claim == nil && !exists:
		return nil // it has ended before
	case change.Claim == nil && change.PodUID != "" && change.PodUID != had.PodUID:
		return control.Conflict{Text: fmt.Sprintf("claim %s/%s is prepared for pod %s, and not for pod %s", had.Namespace, had.Name, had.PodUID, change.PodUID)}
	case change.Claim == nil:
		if names := running(had); len(names) > 0 {
			return control.Conflict{Text: fmt.Sprintf("claim %s/%s: its CPUs are in use: container %s runs; stop the pod first", had.Namespace, had.Name, strings.Join(names, ", "))}
		}
		c.all = slices.DeleteFunc(slices.Clone(c.all), func(claim pools.Claim) bool { return claim.UID == change.UID })
		return nil
	case exists:
		return same(&had, change.Claim)
	case len(c.all) >= maxClaims:
		return control.Conflict{Text: fmt.Sprintf("claim %s/%s: the node has %d claims, and no more are possible; end some of them", change.Claim.Namespace, change.Claim.Name, len(c.all))}
	}
	made := plan(*change.Claim)
	if err := refusal(ofPlan(&made, change.UID)); err != nil {
		return err
	}
	for _, earlier := range c.open { // no pass has planned with some of them
		if p := ofPlan(&made, earlier.UID); p.Refused != nil {
			return fmt.Errorf("claim %s/%s: claim %s/%s gets its CPUs first; try again", change.Claim.Namespace, change.Claim.Name, p.Namespace, p.Name)
		}
	}
	c.put(*change.Claim)
	return nil
}

// maxClaims is the maximum number of claims of a node. The kubelet runs at most a few hundred pods.
const maxClaims = 4096

// same returns an error if two requests for one claim differ.
func same(had, asked *pools.Claim) error {
	if had.Namespace == asked.Namespace && had.Name == asked.Name && had.PodUID == asked.PodUID && slices.Equal(had.Parts, asked.Parts) {
		return nil
	}
	text := func(c *pools.Claim) string {
		var parts []string
		for _, p := range c.Parts {
			parts = append(parts, fmt.Sprintf("%s: %d of %s", p.Request, p.CPUs, p.Device))
		}
		return fmt.Sprintf("pod %s, %s", c.PodUID, strings.Join(parts, ", "))
	}
	return control.Conflict{Text: fmt.Sprintf("claim %s/%s is prepared for %s, and not for %s; end it first", had.Namespace, had.Name, text(had), text(asked))}
}

// refusal returns an error if a claim gets no CPUs.
func refusal(p *pools.ClaimPlan) error {
	if p.Refused == nil {
		return nil
	}
	return control.Conflict{Text: fmt.Sprintf("claim %s/%s: %s", p.Namespace, p.Name, p.Reason.Text)}
}

func ofPlan(plan *pools.Plan, uid string) *pools.ClaimPlan {
	i := slices.IndexFunc(plan.Claims, func(p pools.ClaimPlan) bool { return p.UID == uid })
	if i < 0 {
		return &pools.ClaimPlan{}
	}
	return &plan.Claims[i]
}

// Take takes the decision about a change. It answers an error at once. Otherwise it keeps the change
// until a pass has planned with it, and the journal is on disk.
func (c *Claims) Take(change *Change, err error) {
	if err != nil {
		change.Answer(nil, err)
		return
	}
	c.open = append(c.open, change)
}

// NotePlanned records that a pass has planned with all changes so far. newest is the number of the newest
// change of the journal, which has the CPUs of that plan.
func (c *Claims) NotePlanned(newest int) {
	for _, change := range c.open {
		if !change.isPlanned {
			change.isPlanned, change.newest = true, newest
		}
	}
}

// Answer answers the changes that are in the plan and on disk. saved reports whether a change of the
// journal is on disk. A claim without CPUs gets an error: its CPUs have left the machine, and no others are free.
func (c *Claims) Answer(plan *pools.Plan, saved func(change int) bool) {
	c.open = slices.DeleteFunc(c.open, func(change *Change) bool {
		if change.IsCanceled() {
			return true
		}
		p := ofPlan(plan, change.UID)
		if !change.isPlanned || !saved(change.newest) || (p.UID == "") != (change.Claim == nil) {
			return false
		}
		change.Answer(inspect.ClaimParts(p.Parts), refusal(p))
		return true
	})
}
