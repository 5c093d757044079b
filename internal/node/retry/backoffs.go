package retry

import (
	"cmp"
	"errors"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// firstPause and lastPause bound the pause after a refused write, which doubles each time.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// holdTime is the time that a recorded value should last. Otherwise it counts as overwritten.
const holdTime = 5 * time.Second

// A lost value counts as a failure after maxRepeats times, with pauses from earlyPause: the OCI
// runtime writes its own values while it creates a container.
const (
	earlyPause = 100 * time.Millisecond
	maxRepeats = 5
)

var errNoEffect = errors.New("the value was overwritten after a successful write, or systemd and the kernel disagree")

// Backoffs holds the pauses of all cgroups.
type Backoffs struct {
	failures  map[writer]failure
	recorded  map[property]record
	conflicts map[cgroup.Path]map[string]*writeConflict // by property
}

// writer distinguishes writes of files from writes of the recorder (runtime or systemd).
type writer struct {
	path cgroup.Path
	file bool
}

type property struct {
	path cgroup.Path
	name string
}

type failure struct {
	err   error // nil: the value may still settle
	pause time.Duration
	until time.Time
}

// record is the last recorded value of a property. Another value starts a new count: a shared
// container gets other CPUs as often as owners start and stop.
type record struct {
	value   string
	at      time.Time
	repeats int
}

// New returns Backoffs without any pause.
func New() *Backoffs {
	return &Backoffs{failures: make(map[writer]failure), recorded: make(map[property]record), conflicts: make(map[cgroup.Path]map[string]*writeConflict)}
}

func writerOf(w cgroup.Write) writer { return writer{w.Path.Scope(), w.Via == cgroup.File} }

// Refuse notes a failed write.
func (b *Backoffs) Refuse(w cgroup.Write, err error, now time.Time) {
	f := b.failures[writerOf(w)]
	f.err = err
	f.pause = min(max(f.pause*2, firstPause), lastPause)
	f.until = now.Add(f.pause)
	b.failures[writerOf(w)] = f
}

// RefuseRepeated notes a successful write whose value is gone again in the same pass.
func (b *Backoffs) RefuseRepeated(w cgroup.Write, now time.Time) { b.Refuse(w, errNoEffect, now) }

// Succeed notes a successful write.
func (b *Backoffs) Succeed(w cgroup.Write, now time.Time) {
	delete(b.failures, writerOf(w))
	if !w.Slow() {
		return
	}
	k := property{w.Path, w.Property}
	r := b.recorded[k]
	if r.value == w.Value && now.Sub(r.at) < holdTime {
		r.repeats++
	} else {
		r.repeats = 0
	}
	r.value, r.at = w.Value, now
	b.recorded[k] = r
	if w.Via == cgroup.CRI {
		// A CRI update makes the runtime write its whole record. It overwrites these
		// properties, so that recording them again is no repetition.
		delete(b.recorded, property{w.Path, cgroup.UnitWeight})
		delete(b.recorded, property{w.Path, cgroup.UnitQuota})
	}
}

// Repeated reports whether a value was recorded a moment ago, and pauses the recorder.
func (b *Backoffs) Repeated(w cgroup.Write, now time.Time) bool {
	r, ok := b.recorded[property{w.Path, w.Property}]
	if !ok || r.value != w.Value || now.Sub(r.at) >= holdTime {
		return false
	}
	if r.repeats >= maxRepeats {
		b.RefuseRepeated(w, now)
	} else {
		pause := earlyPause << r.repeats
		b.failures[writerOf(w)] = failure{pause: pause, until: now.Add(pause)}
	}
	return true
}

// Waiting reports whether a cgroup's recorder pauses because a value may still settle.
func (b *Backoffs) Waiting(p cgroup.Path, now time.Time) bool {
	f := b.failures[writer{p, false}]
	return f.err == nil && now.Before(f.until)
}

// AnyWaiting reports whether Waiting is true for any cgroup.
func (b *Backoffs) AnyWaiting(now time.Time) bool {
	for w := range b.failures {
		if b.Waiting(w.path, now) {
			return true
		}
	}
	return false
}

// Paused reports whether a cgroup's files pause, and whether its recorder does.
func (b *Backoffs) Paused(p cgroup.Path, now time.Time) (files, recorder bool) {
	return now.Before(b.failures[writer{p, true}].until), now.Before(b.failures[writer{p, false}].until)
}

// Err returns the last failure of a cgroup, or nil.
func (b *Backoffs) Err(p cgroup.Path) error {
	if f := b.failures[writer{p, true}]; f.err != nil {
		return f.err
	}
	return b.failures[writer{p, false}].err
}

// WaitErr returns the error of a property that waits. It wraps the last failure of the cgroup,
// or else of a cgroup for which the property waits.
func (b *Backoffs) WaitErr(d cgroup.Deferred) error {
	err := waitError{text: d.Property + " waits: " + d.Reason, cause: b.Err(d.Path)}
	for _, p := range d.WaitsFor {
		err.cause = cmp.Or(err.cause, b.Err(p))
	}
	return err
}

type waitError struct {
	text  string
	cause error // nil if no write has failed
}

func (e waitError) Error() string { return e.text }
func (e waitError) Unwrap() error { return e.cause }

// Next calls earlier with the times at which pauses end, and drops conflicts that are over.
func (b *Backoffs) Next(earlier func(time.Time), now time.Time) {
	for _, f := range b.failures {
		if f.until.After(now) {
			earlier(f.until)
		}
	}
	for p, of := range b.conflicts {
		for property, c := range of {
			if c.IsOver(limits(), now) {
				delete(of, property)
				continue
			}
			if now.Before(c.Until()) {
				earlier(c.Last().Add(intrusionPause))
				earlier(c.Until())
			}
			if c.hasPaused() {
				earlier(c.Until().Add(limits().Window + time.Second)) // the conflict can be over then
			}
		}
		if len(of) == 0 {
			delete(b.conflicts, p)
		}
	}
}

// Forget drops everything about cgroups that are gone.
func (b *Backoffs) Forget(gone func(cgroup.Path) bool) {
	maps.DeleteFunc(b.failures, func(w writer, _ failure) bool { return gone(w.path) })
	maps.DeleteFunc(b.recorded, func(k property, _ record) bool { return gone(k.path) })
	maps.DeleteFunc(b.conflicts, func(p cgroup.Path, _ map[string]*writeConflict) bool { return gone(p) })
}

// Affected returns the cgroups of targets with a failure or a conflict, or more.
func (b *Backoffs) Affected(targets []cgroup.Target) map[cgroup.Path]bool {
	out := make(map[cgroup.Path]bool)
	if len(targets) > len(b.failures)+len(b.conflicts) {
		for w := range b.failures {
			out[w.path] = true
		}
		for p := range b.conflicts {
			out[p] = true
		}
		return out
	}
	for i := range targets {
		p := targets[i].Path
		_, file := b.failures[writer{p, true}]
		_, recorder := b.failures[writer{p, false}]
		if file || recorder || b.conflicts[p] != nil {
			out[p] = true
		}
	}
	return out
}

// Expire drops failures whose pause was over when a complete pass began: the pass has made
// the write, or the value is no longer wanted. Where a worker repeats the write now (busy),
// its result decides.
func (b *Backoffs) Expire(began time.Time, busy func(cgroup.Path) bool) {
	maps.DeleteFunc(b.failures, func(w writer, f failure) bool { return !f.until.After(began) && !busy(w.path) })
}
