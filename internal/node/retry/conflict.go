package retry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/conflict"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// CodeContested is the code of a property that the daemon and a process overwrite in turn.
const CodeContested pools.Code = "Contested"

// Two processes that overwrite each other's cpuset migrate threads on every write. After
// MaxRepairs repairs in a minute the repairs of the property pause (package conflict). A
// cgroup that runs on CPUs outside its target is repaired during a pause as well, at most
// once in intrusionPause. So a pause only leaves a cgroup on a part of its own CPUs. Other
// properties of the cgroup are repaired as usual, unless systemd or the runtime would write
// the contested property with them.
const (
	MaxRepairs     = 5
	intrusionPause = time.Second
)

func limits() conflict.Limits { return conflict.Limits{Repairs: MaxRepairs, Window: time.Minute} }

// Deviation is a property that had its desired value and was overwritten.
type Deviation struct {
	Property string // the file
	Was, Is  string
}

type writeConflict struct {
	Deviation
	conflict.Writes
	cause string
}

// NoteExternalWrite notes an external write. Repairs of the property pause after too many.
func (b *Backoffs) NoteExternalWrite(p cgroup.Path, d Deviation, now time.Time) {
	if b.conflicts[p] == nil {
		b.conflicts[p] = make(map[string]*writeConflict)
	}
	c := b.conflicts[p][d.Property]
	if c == nil {
		c = &writeConflict{}
		b.conflicts[p][d.Property] = c
	}
	c.Deviation = d
	c.Note(limits(), now)
}

// Contested returns a function for cpusets in a write conflict, or nil without conflicts.
func (b *Backoffs) Contested(now time.Time) func(cgroup.Path) bool {
	if len(b.conflicts) == 0 {
		return nil
	}
	return func(p cgroup.Path) bool {
		c := b.conflicts[p][cgroup.FileCPUs]
		return c != nil && c.hasPaused() && !c.IsOver(limits(), now)
	}
}

// SetCause names the writer of a property for problems.
func (b *Backoffs) SetCause(p cgroup.Path, property, cause string) {
	if c := b.conflicts[p][property]; c != nil {
		c.cause = cause
	}
}

// Pauses returns the properties of a cgroup that must not be repaired now. Intrudes reports
// whether a cgroup runs on CPUs outside its target.
func (b *Backoffs) Pauses(p cgroup.Path, intrudes func(cgroup.Path) bool, now time.Time) (paused []string) {
	for property, c := range b.conflicts[p] {
		if !now.Before(c.Until()) {
			continue
		}
		if property == cgroup.FileCPUs && now.Sub(c.Last()) >= intrusionPause && intrudes(p) {
			continue
		}
		paused = append(paused, property)
	}
	return paused
}

// Confines reports whether repairs of a cpuset pause while the cgroup runs on its own CPUs only.
// The problem of the conflict reports it. It is no fault: the container does no harm, and it can
// cause the conflict itself.
func (b *Backoffs) Confines(p cgroup.Path, intrudes func(cgroup.Path) bool, now time.Time) bool {
	return !intrudes(p) && slices.Contains(b.Pauses(p, intrudes, now), cgroup.FileCPUs)
}

// Problems calls add with the reason of each pause, by cgroup, in their order. A cgroup can have several.
func (b *Backoffs) Problems(now time.Time, add func(cgroup.Path, pools.Reason)) {
	for _, p := range slices.Sorted(maps.Keys(b.conflicts)) {
		of := b.conflicts[p]
		for _, property := range slices.Sorted(maps.Keys(of)) {
			c := of[property]
			if !c.hasPaused() || c.IsOver(limits(), now) {
				continue
			}
			except := ""
			if property == cgroup.FileCPUs {
				except = ", except while it runs on other CPUs than its own"
			}
			add(p, pools.Reason{Code: CodeContested, Text: fmt.Sprintf(
				"%s of %s: another process (%s) writes %q after each repair to %q; repairs pause until %s%s. Stop one of the two",
				property, p, cmp.Or(c.cause, "unknown"), c.Is, c.Was, c.Until().Format(time.RFC3339), except)})
		}
	}
}

func (c *writeConflict) hasPaused() bool { return !c.Until().IsZero() }
