package retry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestConflictPauses checks that the pause of repairs grows with each conflict over one
// property. A cgroup outside its CPUs is repaired during a pause as well, at most once a
// second.
func TestConflictPauses(t *testing.T) {
	b, now, cpus := retry.New(), time.Unix(100, 0), retry.Deviation{Property: cgroup.FileCPUs, Was: "2-3", Is: "3"}
	paused := func(intrudes bool) bool {
		return len(b.Pauses("a", func(cgroup.Path) bool { return intrudes }, now)) > 0
	}
	problems := func() (texts []string) {
		b.Problems(now, func(p cgroup.Path, r pools.Reason) { texts = append(texts, string(p)+" "+r.Text) })
		return texts
	}
	for i := range retry.MaxRepairs + 1 {
		if paused(false) || len(problems()) > 0 {
			t.Fatalf("a pause after %d writes", i)
		}
		b.NoteExternalWrite("a", cpus, now)
	}
	b.SetCause("a", cgroup.FileCPUs, "kubelet")
	if got := b.Pauses("a", nobody, now); len(got) != 1 || got[0] != cgroup.FileCPUs || len(b.Pauses("b", nobody, now)) > 0 {
		t.Errorf("paused: %v; want the CPUs, and only of that cgroup", got)
	}
	if got := problems(); len(got) != 1 || !strings.Contains(got[0], `another process (kubelet) writes "3" after each repair to "2-3"`) {
		t.Errorf("problems: %q", got)
	}
	if !strings.Contains(problems()[0], "except while it runs on other CPUs than its own") {
		t.Errorf("problem does not name the exception: %q", problems())
	}
	if now = now.Add(time.Second - time.Nanosecond); !paused(true) {
		t.Error("a cgroup outside its CPUs is repaired more than once in a second")
	}
	if now = now.Add(time.Nanosecond); paused(true) || !paused(false) {
		t.Error("after a second repairs resume only for a cgroup outside its CPUs")
	}
	now = now.Add(-time.Second)
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if now = now.Add(want*time.Minute - time.Nanosecond); !paused(false) {
			t.Errorf("repairs resume before %v minutes", int(want))
		}
		if now = now.Add(time.Nanosecond); paused(false) {
			t.Errorf("repairs pause after %v minutes", int(want))
		}
		b.NoteExternalWrite("a", cpus, now)
	}
	b.NoteExternalWrite("a", retry.Deviation{Property: cgroup.FileWeight}, now)
	if now = now.Add(time.Second); paused(true) {
		t.Error("one write of the weight is a conflict")
	}
	now = now.Add(12 * time.Minute)
	if due := nextOf(b, now); !due.IsZero() || len(b.Affected([]cgroup.Target{{Path: "a"}})) > 0 {
		t.Errorf("a conflict that is over is due at %v", due)
	}
}

// TestContested checks from which write on the CPUs of a cgroup are contested, and until when.
func TestContested(t *testing.T) {
	b, now := retry.New(), time.Unix(100, 0)
	if b.Contested(now) != nil {
		t.Error("contested without a write")
	}
	for _, p := range []string{cgroup.FileCPUs, cgroup.FileWeight} {
		for range retry.MaxRepairs {
			b.NoteExternalWrite(cgroup.Path(p), retry.Deviation{Property: p}, now)
		}
		if b.Contested(now)(cgroup.Path(p)) {
			t.Errorf("%s is contested too early", p)
		}
		b.NoteExternalWrite(cgroup.Path(p), retry.Deviation{Property: p}, now)
	}
	if is := b.Contested(now); !is(cgroup.FileCPUs) || is(cgroup.FileWeight) || is("other") {
		t.Error("not the cgroup whose CPUs are overwritten is contested")
	}
	// The pause of a minute, and then another minute without a write.
	if now = now.Add(2 * time.Minute); !b.Contested(now)(cgroup.FileCPUs) {
		t.Error("the conflict ends too early")
	}
	if now = now.Add(time.Nanosecond); b.Contested(now)(cgroup.FileCPUs) {
		t.Error("the conflict does not end")
	}
}
