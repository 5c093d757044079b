package daemon

import (
	"errors"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Pauses before a refused write is tried again double from the first to the
// last.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// quietTime is how long a recorded value should hold at least. When it has to
// be recorded again sooner, it did not take effect, or somebody else insists.
const quietTime = 5 * time.Second

// A value that is gone again soon is no failure at first: the OCI runtime writes
// its own values while it makes a container, before and after ours. It becomes
// one after maxStrikes times in a row, with pauses that double from strikePause.
const (
	strikePause = 100 * time.Millisecond
	maxStrikes  = 5
)

var errNoEffect = errors.New("the value was taken and is gone again: somebody else writes it, or systemd and the kernel disagree")

// bench holds the cgroups whose writes are refused, or do not last, so that they
// are tried again with growing pauses while the others get on.
type bench struct {
	failures map[benchKey]failure
	recorded map[recordKey]record
	contests map[cgroup.Path]map[string]*contest // by property
}

// record is the value that a property was given last, when, and how often in short
// order. Another value starts anew: with guaranteed.from: shared, a shared container
// gives way and gets its CPUs back as fast as others come and go.
type record struct {
	value   string
	at      time.Time
	strikes int
}

// benchKey tells file writes of a cgroup from those of its recorder.
type benchKey struct {
	path cgroup.Path
	file bool
}

// recordKey is a property of a cgroup.
type recordKey struct {
	path     cgroup.Path
	property string
}

func recordOf(w cgroup.Write) recordKey { return recordKey{w.Path, w.Property} }

type failure struct {
	err   error // nil while it may be a matter of time
	pause time.Duration
	until time.Time
}

func newBench() *bench {
	return &bench{failures: make(map[benchKey]failure), recorded: make(map[recordKey]record), contests: make(map[cgroup.Path]map[string]*contest)}
}

func keyOf(w cgroup.Write) benchKey { return benchKey{w.Path.Scope(), w.Via == cgroup.File} }

// refuse notes a failed write.
func (b *bench) refuse(w cgroup.Write, err error, now time.Time) {
	f := b.failures[keyOf(w)]
	f.err = err
	f.pause = min(max(f.pause*2, firstPause), lastPause)
	f.until = now.Add(f.pause)
	b.failures[keyOf(w)] = f
}

// succeed notes a write that worked.
func (b *bench) succeed(w cgroup.Write, now time.Time) {
	delete(b.failures, keyOf(w))
	if !w.Slow() {
		return
	}
	r := b.recorded[recordOf(w)]
	if r.value == w.Value && now.Sub(r.at) < quietTime {
		r.strikes++
	} else {
		r.strikes = 0
	}
	r.value, r.at = w.Value, now
	b.recorded[recordOf(w)] = r
	if w.Via == cgroup.CRI {
		// It makes the runtime write the whole of its record: that these are due again
		// is its doing, and nobody's insistence.
		delete(b.recorded, recordKey{w.Path, cgroup.UnitWeight})
		delete(b.recorded, recordKey{w.Path, cgroup.UnitQuota})
	}
}

// repeated says whether a value that has to be recorded was recorded only just
// now, and if so puts its recorder to rest.
func (b *bench) repeated(w cgroup.Write, now time.Time) bool {
	r, ok := b.recorded[recordOf(w)]
	if !ok || r.value != w.Value || now.Sub(r.at) >= quietTime {
		return false
	}
	if r.strikes >= maxStrikes {
		b.refuse(w, errNoEffect, now)
	} else {
		pause := strikePause << r.strikes
		b.failures[keyOf(w)] = failure{pause: pause, until: now.Add(pause)}
	}
	return true
}

// waiting says that a cgroup rests for what may be a matter of time.
func (b *bench) waiting(p cgroup.Path, now time.Time) bool {
	f := b.failures[benchKey{p, false}]
	return f.err == nil && now.Before(f.until)
}

// resting says whether the cgroup's files or its recorder are to be left alone.
func (b *bench) resting(p cgroup.Path, now time.Time) (noWrite, noSeal bool) {
	return now.Before(b.failures[benchKey{p, true}].until), now.Before(b.failures[benchKey{p, false}].until)
}

// err returns the last refusal of a cgroup, or nil.
func (b *bench) err(p cgroup.Path) error {
	if f, ok := b.failures[benchKey{p, true}]; ok && f.err != nil {
		return f.err
	}
	return b.failures[benchKey{p, false}].err
}

// next returns the earliest time at which a refused write is due again.
func (b *bench) next(now time.Time) (time.Time, bool) {
	var first time.Time
	for _, f := range b.failures {
		if f.until.After(now) && (first.IsZero() || f.until.Before(first)) {
			first = f.until
		}
	}
	return first, !first.IsZero()
}

// forget drops what is known of cgroups that are no targets any more.
func (b *bench) forget(gone func(cgroup.Path) bool) {
	for k := range b.failures {
		if gone(k.path) {
			delete(b.failures, k)
		}
	}
	for k := range b.recorded {
		if gone(k.path) {
			delete(b.recorded, k)
		}
	}
	maps.DeleteFunc(b.contests, func(p cgroup.Path, _ map[string]*contest) bool { return gone(p) })
}

// paths are the cgroups that have been refused something.
func (b *bench) paths() map[cgroup.Path]bool {
	out := make(map[cgroup.Path]bool, len(b.failures))
	for k := range b.failures {
		out[k.path] = true
	}
	for p := range b.contests {
		out[p] = true
	}
	return out
}

// heeded are the cgroups among targets of which a property is to be left alone, or was
// refused.
func (b *bench) heeded(targets []cgroup.Target) map[cgroup.Path]bool {
	if len(targets) > len(b.failures)+len(b.contests) {
		return b.paths()
	}
	out := make(map[cgroup.Path]bool)
	for i := range targets {
		p := targets[i].Path
		_, file := b.failures[benchKey{p, true}]
		_, record := b.failures[benchKey{p, false}]
		if file || record || b.contests[p] != nil {
			out[p] = true
		}
	}
	return out
}

// outlived drops refusals whose rest was over before a pass that came to its end: what
// was refused has been written since, or is not wanted any more. Where a worker is
// trying again, its end tells.
func (b *bench) outlived(began time.Time, busy func(cgroup.Path) bool) {
	maps.DeleteFunc(b.failures, func(k benchKey, f failure) bool { return !f.until.After(began) && !busy(k.path) })
}
