package retry_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

var nobody = func(cgroup.Path) bool { return false }

// nextOf returns the end of the first pause after now.
func nextOf(b *retry.Backoffs, now time.Time) (first time.Time) {
	b.Next(func(at time.Time) {
		if at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}, now)
	return first
}

// TestRefuse checks that the pauses after refusals grow up to a minute, and end with a
// success or when the write is no longer wanted.
func TestRefuse(t *testing.T) {
	now, no := time.Unix(100, 0), errors.New("no")
	w := cgroup.Write{Path: "a", Via: cgroup.File, Property: cgroup.FileCPUs, Value: "1"}
	b := retry.New()
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		b.Refuse(w, no, now)
		if got := nextOf(b, now).Sub(now); got != want*time.Second {
			t.Errorf("pause of %v; want %v", got, want*time.Second)
		}
		if files, recorder := b.Paused("a", now); !files || recorder || !errors.Is(b.Err("a"), no) {
			t.Errorf("files pause: %t, recorder pauses: %t, %v", files, recorder, b.Err("a"))
		}
		now = nextOf(b, now)
	}
	if b.Expire(now.Add(-time.Second), nobody); b.Err("a") == nil {
		t.Error("a pause that ended during a pass expired with it")
	}
	if b.Expire(now, func(cgroup.Path) bool { return true }); b.Err("a") == nil {
		t.Error("a failure expired while a worker repeats the write")
	}
	if b.Expire(now, nobody); b.Err("a") != nil {
		t.Error("a failure outlives the pass that made the write")
	}
	b.Refuse(w, no, now)
	if b.Succeed(w, now); b.Err("a") != nil || !nextOf(b, now).IsZero() {
		t.Error("a failure outlives the success")
	}
}

// TestRepeated checks that a recorder pauses for a value that does not last, first because
// the value may settle, then as a failure.
func TestRepeated(t *testing.T) {
	now := time.Unix(100, 0)
	w := cgroup.Write{Path: "a", Container: "c", Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "1"}
	b := retry.New()
	for _, want := range []time.Duration{100, 200, 400, 800, 1600} {
		b.Succeed(w, now)
		if !b.Repeated(w, now) || !b.Waiting("a", now) || !b.AnyWaiting(now) || b.Err("a") != nil {
			t.Fatalf("no wait before a pause of %v ms; error %v", want, b.Err("a"))
		}
		if got := nextOf(b, now).Sub(now); got != want*time.Millisecond {
			t.Errorf("pause of %v; want %v", got, want*time.Millisecond)
		}
		now = nextOf(b, now)
	}
	b.Succeed(w, now)
	if !b.Repeated(w, now) || b.Waiting("a", now) || b.Err("a") == nil {
		t.Errorf("a value that never lasts is no failure: %v", b.Err("a"))
	}
	b.Succeed(w, now)
	other := w
	if other.Value = "2"; b.Repeated(other, now) {
		t.Error("another value counts as a repetition")
	}
	if b.Repeated(w, now.Add(time.Minute)) {
		t.Error("a value that lasted a minute counts as a repetition")
	}
}

// TestUpdateOverwritesRecords checks that a CRI update, which makes the runtime write weight
// and quota, allows their repair at once. Without the update the same is a repetition.
func TestUpdateOverwritesRecords(t *testing.T) {
	now := time.Unix(100, 0)
	quota := cgroup.Write{Path: "a", Via: cgroup.DBus, Property: cgroup.UnitQuota, Value: cgroup.ValueInf}
	elsewhere := quota
	elsewhere.Path = "b"
	update := cgroup.Write{Path: "a", Container: "c", Via: cgroup.CRI, Property: cgroup.CRIMems, Value: "0"}
	b := retry.New()
	for _, w := range []cgroup.Write{quota, elsewhere, update} {
		b.Succeed(w, now)
	}
	for w, want := range map[cgroup.Write]bool{quota: false, elsewhere: true, update: true} {
		if got := b.Repeated(w, now); got != want {
			t.Errorf("%s of %s is a repetition: %v; want %v", w.Property, w.Path, got, want)
		}
	}
}

// TestWaitErr checks that the error of a property that waits has the cause of its cgroup, or
// else of the cgroups for which it waits.
func TestWaitErr(t *testing.T) {
	now, own, other := time.Unix(100, 0), errors.New("own"), errors.New("other")
	b := retry.New()
	d := cgroup.Deferred{Path: "a", Property: cgroup.CRICPUs, Reason: "b must release CPU 2", WaitsFor: []cgroup.Path{"c", "b"}}
	check := func(want error) {
		t.Helper()
		err := b.WaitErr(d)
		if !errors.Is(errors.Unwrap(err), want) || err.Error() != "cpuset_cpus waits: b must release CPU 2" {
			t.Errorf("%v, caused by %v; want %v", err, errors.Unwrap(err), want)
		}
	}
	check(nil)
	b.Refuse(cgroup.Write{Path: "b", Via: cgroup.CRI}, other, now)
	check(other)
	b.Refuse(cgroup.Write{Path: "a", Via: cgroup.CRI}, own, now)
	check(own)
}

// TestForget checks that nothing about a cgroup that is gone stays.
func TestForget(t *testing.T) {
	now := time.Unix(100, 0)
	b := retry.New()
	b.Refuse(cgroup.Write{Path: "a", Via: cgroup.File}, errors.New("no"), now)
	b.NoteExternalWrite("a", retry.Deviation{Property: cgroup.FileCPUs}, now)
	targets := []cgroup.Target{{Path: "a"}}
	if got := b.Affected(targets); !got["a"] {
		t.Errorf("affected: %v", got)
	}
	if b.Forget(func(p cgroup.Path) bool { return p == "a" }); len(b.Affected(targets)) > 0 || b.Err("a") != nil {
		t.Errorf("after Forget: %v, %v", b.Affected(targets), b.Err("a"))
	}
}
