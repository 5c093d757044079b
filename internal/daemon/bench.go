package daemon

import (
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

// bench holds the cgroups whose writes are refused, so that they are tried
// again with growing pauses while the others get on.
type bench struct {
	failures map[benchKey]failure
	recorded map[cgroup.Write]time.Time // when a value was recorded successfully
}

// benchKey tells file writes of a cgroup from those of its recorder.
type benchKey struct {
	path cgroup.Path
	file bool
}

type failure struct {
	err   error
	pause time.Duration
	until time.Time
}

func newBench() *bench {
	return &bench{failures: make(map[benchKey]failure), recorded: make(map[cgroup.Write]time.Time)}
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
	if w.Via != cgroup.File {
		b.recorded[w] = now
	}
}

// futile says that the same value was recorded only just now.
func (b *bench) futile(w cgroup.Write, now time.Time) bool {
	at, ok := b.recorded[w]
	return ok && now.Sub(at) < quietTime
}

// resting says whether the cgroup's files or its recorder are to be left alone.
func (b *bench) resting(p cgroup.Path, now time.Time) (noWrite, noSeal bool) {
	return now.Before(b.failures[benchKey{p, true}].until), now.Before(b.failures[benchKey{p, false}].until)
}

// err returns the last refusal of a cgroup, or nil.
func (b *bench) err(p cgroup.Path) error {
	if f, ok := b.failures[benchKey{p, true}]; ok {
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
	for w := range b.recorded {
		if gone(w.Path) {
			delete(b.recorded, w)
		}
	}
}

// paths are the cgroups that have been refused something.
func (b *bench) paths() map[cgroup.Path]bool {
	out := make(map[cgroup.Path]bool, len(b.failures))
	for k := range b.failures {
		out[k.path] = true
	}
	return out
}
