package retry

import (
	"errors"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Pauses before a refused write is tried again double from the first to the
// last.
const (
	FirstPause = time.Second
	LastPause  = time.Minute
)

// quietTime is how long a recorded value should hold at least. When it has to
// be recorded again sooner, it did not take effect, or somebody else insists.
const quietTime = 5 * time.Second

// A value that is gone again soon is no failure at first: the OCI runtime writes
// its own values while it makes a container, before and after ours. It becomes
// one after maxStrikes times in a row, with pauses that double from strikePause.
const (
	EarlyPause = 100 * time.Millisecond
	maxStrikes = 5
)

var ErrNoEffect = errors.New("the value was taken and is gone again: somebody else writes it, or systemd and the kernel disagree")

// Backoffs holds the cgroups whose writes are refused, or do not last, so that they
// are tried again with growing pauses while the others get on.
type Backoffs struct {
	Failures map[Key]Failure
	Recorded map[RecordKey]record
	Contests map[cgroup.Path]map[string]*conflict // by property
}

// record is the value that a property was given last, when, and how often in short
// order. Another value starts anew: with guaranteed.from: shared, a shared container
// gives way and gets its CPUs back as fast as others come and go.
type record struct {
	value   string
	at      time.Time
	strikes int
}

// Key tells file writes of a cgroup from those of its recorder.
type Key struct {
	Path cgroup.Path
	File bool
}

// RecordKey is a property of a cgroup.
type RecordKey struct {
	Path     cgroup.Path
	Property string
}

func recordOf(w cgroup.Write) RecordKey { return RecordKey{w.Path, w.Property} }

type Failure struct {
	err   error // nil while it may be a matter of time
	Pause time.Duration
	Until time.Time
}

func New() *Backoffs {
	return &Backoffs{Failures: make(map[Key]Failure), Recorded: make(map[RecordKey]record), Contests: make(map[cgroup.Path]map[string]*conflict)}
}

func keyOf(w cgroup.Write) Key { return Key{w.Path.Scope(), w.Via == cgroup.File} }

// Refuse notes a failed write.
func (b *Backoffs) Refuse(w cgroup.Write, err error, now time.Time) {
	f := b.Failures[keyOf(w)]
	f.err = err
	f.Pause = min(max(f.Pause*2, FirstPause), LastPause)
	f.Until = now.Add(f.Pause)
	b.Failures[keyOf(w)] = f
}

// Succeed notes a write that worked.
func (b *Backoffs) Succeed(w cgroup.Write, now time.Time) {
	delete(b.Failures, keyOf(w))
	if !w.Slow() {
		return
	}
	r := b.Recorded[recordOf(w)]
	if r.value == w.Value && now.Sub(r.at) < quietTime {
		r.strikes++
	} else {
		r.strikes = 0
	}
	r.value, r.at = w.Value, now
	b.Recorded[recordOf(w)] = r
	if w.Via == cgroup.CRI {
		// It makes the runtime write the whole of its record: that these are due again
		// is its doing, and nobody's insistence.
		delete(b.Recorded, RecordKey{w.Path, cgroup.UnitWeight})
		delete(b.Recorded, RecordKey{w.Path, cgroup.UnitQuota})
	}
}

// Repeated says whether a value that has to be recorded was recorded only just
// now, and if so puts its recorder to rest.
func (b *Backoffs) Repeated(w cgroup.Write, now time.Time) bool {
	r, ok := b.Recorded[recordOf(w)]
	if !ok || r.value != w.Value || now.Sub(r.at) >= quietTime {
		return false
	}
	if r.strikes >= maxStrikes {
		b.Refuse(w, ErrNoEffect, now)
	} else {
		pause := EarlyPause << r.strikes
		b.Failures[keyOf(w)] = Failure{Pause: pause, Until: now.Add(pause)}
	}
	return true
}

// Waiting says that a cgroup rests for what may be a matter of time.
func (b *Backoffs) Waiting(p cgroup.Path, now time.Time) bool {
	f := b.Failures[Key{p, false}]
	return f.err == nil && now.Before(f.Until)
}

// Paused says whether the cgroup's files or its recorder are to be left alone.
func (b *Backoffs) Paused(p cgroup.Path, now time.Time) (noWrite, noSeal bool) {
	return now.Before(b.Failures[Key{p, true}].Until), now.Before(b.Failures[Key{p, false}].Until)
}

// Err returns the last refusal of a cgroup, or nil.
func (b *Backoffs) Err(p cgroup.Path) error {
	if f, ok := b.Failures[Key{p, true}]; ok && f.err != nil {
		return f.err
	}
	return b.Failures[Key{p, false}].err
}

// Next returns the earliest time at which a refused write is due again.
func (b *Backoffs) Next(now time.Time) (time.Time, bool) {
	var first time.Time
	for _, f := range b.Failures {
		if f.Until.After(now) && (first.IsZero() || f.Until.Before(first)) {
			first = f.Until
		}
	}
	return first, !first.IsZero()
}

// Forget drops what is known of cgroups that are no targets any more.
func (b *Backoffs) Forget(gone func(cgroup.Path) bool) {
	for k := range b.Failures {
		if gone(k.Path) {
			delete(b.Failures, k)
		}
	}
	for k := range b.Recorded {
		if gone(k.Path) {
			delete(b.Recorded, k)
		}
	}
	maps.DeleteFunc(b.Contests, func(p cgroup.Path, _ map[string]*conflict) bool { return gone(p) })
}

// Paths are the cgroups that have been refused something.
func (b *Backoffs) Paths() map[cgroup.Path]bool {
	out := make(map[cgroup.Path]bool, len(b.Failures))
	for k := range b.Failures {
		out[k.Path] = true
	}
	for p := range b.Contests {
		out[p] = true
	}
	return out
}

// Affected are the cgroups among targets of which a property is to be left alone, or was
// refused.
func (b *Backoffs) Affected(targets []cgroup.Target) map[cgroup.Path]bool {
	if len(targets) > len(b.Failures)+len(b.Contests) {
		return b.Paths()
	}
	out := make(map[cgroup.Path]bool)
	for i := range targets {
		p := targets[i].Path
		_, file := b.Failures[Key{p, true}]
		_, record := b.Failures[Key{p, false}]
		if file || record || b.Contests[p] != nil {
			out[p] = true
		}
	}
	return out
}

// Expire drops refusals whose rest was over before a pass that came to its end: what
// was refused has been written since, or is not wanted any more. Where a worker is
// trying again, its end tells.
func (b *Backoffs) Expire(began time.Time, busy func(cgroup.Path) bool) {
	maps.DeleteFunc(b.Failures, func(k Key, f Failure) bool { return !f.Until.After(began) && !busy(k.Path) })
}
