package tune

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestRPSDisabledByAnotherProcess checks that RPS stays off if another process switches it off
// after a change of the daemon.
func TestRPSDisabledByAnotherProcess(t *testing.T) {
	const file = "sys/class/net/eth0/queues/rx-1/rps_cpus"
	r := newRig(t)
	r.tune(quiet(t, "4-5"))
	r.put(file, "00\n")
	for _, w := range []Desired{quiet(t, "4-5"), {}} {
		if r.tune(w); r.get(file) != "00" {
			t.Errorf("with quiet CPUs %s: rps_cpus is %s; want it off", w.Quiet, r.get(file))
		}
	}
}

// TestOtherProcessNamedIrqbalance checks that the message goes to the process with a socket.
func TestOtherProcessNamedIrqbalance(t *testing.T) {
	r, _, fake := balancerRig(t, "")
	r.task(41, "irqbalance", 0, "0-7")
	r.task(900, "irqbalance", 0, "0-7")
	if v := r.tune(quiet(t, "4-5")); len(v.Problems) != 0 {
		t.Errorf("problems: %v; want none", v.Problems)
	}
	if got := fake.settings(); !slices.Equal(got, []string{"settings cpus 4-5"}) {
		t.Errorf("sent: %q; want %q", got, []string{"settings cpus 4-5"})
	}
}

// TestRestoreOfflineCPUsOfThreads checks that a restored affinity includes offline CPUs.
func TestRestoreOfflineCPUsOfThreads(t *testing.T) {
	r := newRig(t)
	r.online = cpuset.Range(0, 6)
	r.tune(Desired{NoKernel: set(t, "4-5")})
	if got := r.affinity[2]; got.String() != "0-3,6-7" {
		t.Errorf("kthreadd: %s; want 0-3,6-7", got)
	}
	if r.tune(Desired{}); r.affinity[2].String() != "0-7" {
		t.Errorf("kthreadd: %s; want all CPUs", r.affinity[2])
	}
}

// TestPermissionProblem checks that a write without permission is a problem, and an immovable
// interrupt is not.
func TestPermissionProblem(t *testing.T) {
	r := newRig(t)
	r.immovable["24"] = syscall.EROFS
	r.immovable["25"] = syscall.EINVAL // the error of a controller with one target
	v := r.tune(quiet(t, "4-5"))
	if len(v.Problems) != 1 || v.Problems[0].Code != CodeFailed || !strings.Contains(v.Problems[0].Text, "irq/24 (virtio0-input.0)") || strings.Contains(v.Problems[0].Text, "irq/25") {
		t.Errorf("problems: %v; want IRQ 24 alone", v.Problems)
	}
}

// unreadable is a source without knobs that the kernel does not let the daemon read.
type unreadable struct{ Source }

func (unreadable) Kinds() []Kind { return []Kind{"governor"} }
func (unreadable) Read(context.Context) ([]Observed, error) {
	return nil, errors.New("IRQ 24: permission denied")
}

// TestUnreadSettings checks the problem with settings that cannot be read.
func TestUnreadSettings(t *testing.T) {
	r := newRig(t)
	r.restart(unreadable{})
	v := r.tune(Desired{Values: map[Knob]string{{"governor", "0"}: "b"}})
	if diff := cmp.Diff([]Problem{{CodeUnread, "IRQ 24: permission denied"}}, v.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestRestoreOfflineKnob checks that a knob that is asleep keeps its record, and is restored
// later.
func TestRestoreOfflineKnob(t *testing.T) {
	r := newRig(t)
	source := &offlineKnob{value: "powersave"}
	r.restart(source)
	k := Knob{"governor", "0"}
	w := Desired{Values: map[Knob]string{k: "performance"}}
	r.tune(w)
	source.asleep = true
	r.tune(w)
	o := r.restoring()
	o.Sources = append(o.Sources, source)
	report, err := Restore(t.Context(), o, false)
	if err != nil || report.Gone != 0 || len(report.Differs) != 1 || report.Differs[0].Knob != k || !strings.Contains(report.Differs[0].Reason, "offline") {
		t.Errorf("restore: %+v, %v; want it to differ", report, err)
	}
	source.asleep = false
	if report, err = Restore(t.Context(), o, false); err != nil || source.value != "powersave" || len(report.Restored) != 1 {
		t.Errorf("restore: %+v, %v, %s", report, err, source.value)
	}
}

// TestRestoreDependentKnob checks that Restore retries a refused write.
func TestRestoreDependentKnob(t *testing.T) {
	r := newRig(t)
	source := &offlineKnob{value: "a"}
	r.restart(source)
	r.tune(Desired{Values: map[Knob]string{{"governor", "0"}: "b"}})
	source.refusals = 1
	o := r.restoring()
	o.Sources = append(o.Sources, source)
	if report, err := Restore(t.Context(), o, false); err != nil || len(report.Differs) != 0 || source.value != "a" {
		t.Errorf("restore: %+v, %v, %s", report, err, source.value)
	}
}

// TestCrashWhileRecordIsRemoved checks that a crash during the removal of the record does not
// result in the state Lost.
func TestCrashWhileRecordIsRemoved(t *testing.T) {
	u := undoIn(t.TempDir())
	if err := u.Save([]Record{{Knob: Knob{IRQ, "24"}, Original: "0-7", Wrote: "0-3"}}); err != nil {
		t.Fatal(err)
	}
	u.File = filepath.Join(u.File, "x") // cannot be removed: it is below a file
	if err := u.Save(nil); err == nil {
		t.Fatal("no error")
	}
	u.File = filepath.Dir(u.File)
	if records, state, err := u.Load(); err != nil || state != Known || !cmp.Equal(len(records), 1) {
		t.Errorf("%+v, %s, %v", records, state, err)
	}
	u.File += ".gone"
	if _, state, err := u.Load(); state != None {
		t.Errorf("%s, %v; want no record, because the mark is removed first", state, err)
	}
}
