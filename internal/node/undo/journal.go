package undo

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Journal holds the originals and the facts that must outlive the daemon, and which of them
// survive the daemon. A worker saves the document of BeginSave. WriteRecent is its only I/O.
type Journal struct {
	saving
	Originals *Originals
	facts     Document // without originals; its lists are sorted
}

// Journal returns a journal that begins with the document.
func (d Document) Journal() *Journal {
	j := &Journal{facts: d}
	j.Originals, j.facts.Originals = newOriginals(d.Originals, &j.saving), nil
	j.changes, j.kept, j.sent, j.durable = d.Change, d.Change, d.OnDisk, d.OnDisk
	j.based = d.OnDisk != 0 && d.OnDisk == d.Change
	return j
}

// set replaces a fact. A fact that is the same is no change.
func set[F any](j *Journal, fact *F, value F, same bool) {
	if !same {
		*fact = value
		j.changes++
	}
}

// Facts returns the facts of the journal, without originals. Its lists are sorted.
func (j *Journal) Facts() Document { return j.facts }

// SetAssignments replaces the assignments in force.
func (j *Journal) SetAssignments(as []pools.Assignment) {
	set(j, &j.facts.Assignments, as, slices.EqualFunc(j.facts.Assignments, as, pools.Assignment.Equal))
}

// SetUnhinted replaces the owners whose CPUs were chosen without hints. Keys are sorted.
func (j *Journal) SetUnhinted(keys []pools.Key) {
	set(j, &j.facts.Unhinted, keys, slices.Equal(j.facts.Unhinted, keys))
}

// SetOthers replaces the containers whose CPUs another plugin chose. They are sorted.
func (j *Journal) SetOthers(all []managers.Left) {
	set(j, &j.facts.Others, all, slices.Equal(j.facts.Others, all))
}

// SetClaims replaces the prepared ResourceClaims. They are sorted.
func (j *Journal) SetClaims(all []pools.Claim) {
	set(j, &j.facts.Claims, all, slices.EqualFunc(j.facts.Claims, all, pools.Claim.Equal))
}

// SetResting replaces the CPUs that the quiet period keeps out of the shared pool.
func (j *Journal) SetResting(cpus cpuset.Set) {
	set(j, &j.facts.Resting, cpus, j.facts.Resting.Equal(cpus))
}

// Accept replaces the newest configuration that fitted the machine. Nil changes nothing.
func (j *Journal) Accept(a *Accepted) {
	set(j, &j.facts.Accepted, a, a == nil || j.facts.Accepted.Equal(*a))
}
