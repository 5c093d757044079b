package tune

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/conflict"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func quiet(t testing.TB, list string) Desired { return Desired{Quiet: set(t, list)} }

// TestMoveAndRestoreInterrupts checks the masks while an owner runs and after its end.
func TestMoveAndRestoreInterrupts(t *testing.T) {
	r := newRig(t)
	before := r.dump()
	v := r.tune(quiet(t, "4-5"))
	for name, want := range map[string]string{
		"proc/irq/default_smp_affinity":           "cf",
		"proc/irq/0/smp_affinity_list":            "0-3,6-7",
		"proc/irq/24/smp_affinity_list":           "0-3,6-7",
		"proc/irq/25/smp_affinity_list":           "0-3,6-7", // was only on a CPU of the owner
		"proc/irq/26/smp_affinity_list":           "2-5",     // managed
		"sys/class/net/eth0/queues/rx-0/rps_cpus": "00",      // off
		"sys/class/net/eth0/queues/rx-1/rps_cpus": "c0",
		"sys/devices/virtual/workqueue/cpumask":   "ff",
	} {
		if got := r.get(name); got != want {
			t.Errorf("%s is %s; want %s", name, got, want)
		}
	}
	if want := map[Kind]int{DefaultAffinity: 1, IRQ: 3, RPS: 1}; !cmp.Equal(v.Moved, want) {
		t.Errorf("moved %v; want %v", v.Moved, want)
	}
	if len(v.Stuck) != 1 || v.Stuck[0].Why != Immovable || v.Stuck[0].Name != "26" || v.Stuck[0].Label != "nvme0q5" {
		t.Errorf("stuck: %+v; want IRQ 26 of nvme0q5, immovable", v.Stuck)
	}
	if len(v.Problems) != 0 {
		t.Errorf("problems: %v; want no problem for a managed interrupt", v.Problems)
	}

	r.wrote = nil
	if r.tune(quiet(t, "4-5")); len(r.wrote) != 0 {
		t.Errorf("the second pass wrote %q; want none", r.wrote)
	}
	r.tune(Desired{})
	if d := cmp.Diff(before, r.dump()); d != "" {
		t.Errorf("restored (-before +after):\n%s", d)
	}
	if _, err := os.Stat(undoIn(r.dir).File); !os.IsNotExist(err) {
		t.Errorf("undo record after the restore: %v; want none", err)
	}
}

func TestOneOfTwoOwnersEnds(t *testing.T) {
	r := newRig(t)
	before := r.dump()
	r.tune(quiet(t, "2,4-5"))
	r.tune(quiet(t, "4-5"))
	if got := r.irqMask("24"); got != "0-3,6-7" {
		t.Errorf("IRQ 24: %s; want the CPU of the ended owner back", got)
	}
	r.restart()
	r.tune(Desired{})
	if d := cmp.Diff(before, r.dump()); d != "" {
		t.Errorf("restored (-before +after):\n%s", d)
	}
}

// TestNewInterrupt checks that an interrupt that was set up with the changed default gets the
// missing CPUs with the other interrupts.
func TestNewInterrupt(t *testing.T) {
	r := newRig(t)
	r.tune(quiet(t, "4-5"))
	r.irq("30", "0-3,6-7", "virtio3-input.0")
	r.irq("31", "0-7", "late") // after an external write
	r.irq("32", "1", "chosen") // after an external write
	r.irq("33", "6-7", "near") // set up on a NUMA node
	r.put("proc/irq/33/node", "1\n")
	r.put("sys/devices/system/node/node1/cpulist", "4-7\n")
	r.tune(quiet(t, "4-5"))
	if got := r.irqMask("31"); got != "0-3,6-7" {
		t.Errorf("IRQ 31: %s; want it off CPUs 4-5", got)
	}
	r.restart() // the records are on disk
	r.tune(Desired{})
	for n, want := range map[string]string{"30": "0-7", "31": "0-7", "32": "1", "33": "4-7"} {
		if got := r.irqMask(n); got != want {
			t.Errorf("IRQ %s: %s; want %s", n, got, want)
		}
	}
}

// TestNumberIsUsedAgain checks that a record does not apply to another interrupt with the
// same number.
func TestNumberIsUsedAgain(t *testing.T) {
	r := newRig(t)
	r.tune(quiet(t, "4-5"))
	r.irq("25", "3", "other")
	r.put("sys/kernel/irq/25/hwirq", "77\n")
	r.tune(Desired{})
	if got := r.irqMask("25"); got != "3" {
		t.Errorf("IRQ 25: %s; want 3, its first value", got)
	}
}

// TestExternalWriteIsKept checks that an external write without quiet CPUs stays.
func TestExternalWriteIsKept(t *testing.T) {
	r := newRig(t)
	r.tune(quiet(t, "4-5"))
	r.put("proc/irq/24/smp_affinity_list", "1-2\n")
	r.wrote = nil
	r.tune(quiet(t, "4-5"))
	if len(r.wrote) != 0 {
		t.Errorf("wrote %q; want none", r.wrote)
	}
	r.tune(Desired{})
	if got := r.irqMask("24"); got != "1-2,4-5" {
		t.Errorf("IRQ 24: %s; want the written and the removed CPUs", got)
	}
}

// TestWriteConflict checks that repairs pause after maxRepairs, and resume after the pause.
func TestWriteConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.tune(quiet(t, "4-5"))
		var v *View
		for range maxRepairs {
			r.put("proc/irq/24/smp_affinity_list", "4\n")
			if v = r.tune(quiet(t, "4-5")); r.irqMask("24") == "4" || len(v.Problems) > 0 {
				t.Fatalf("IRQ 24 is not repaired: %s, %v", r.irqMask("24"), v.Problems)
			}
			time.Sleep(Period) //nolint:forbidigo // the clock of synctest
		}
		r.put("proc/irq/24/smp_affinity_list", "4\n")
		v = r.tune(quiet(t, "4-5"))
		if r.irqMask("24") != "4" || len(v.Problems) != 1 || v.Problems[0].Code != CodeContested || !strings.Contains(v.Problems[0].Text, "irq/24 (virtio0-input.0)") {
			t.Errorf("IRQ 24 is %s, problems %v; want no repair, and a problem", r.irqMask("24"), v.Problems)
		}
		time.Sleep(conflict.FirstPause + time.Second) //nolint:forbidigo // the clock of synctest
		if v = r.tune(quiet(t, "4-5")); r.irqMask("24") == "4" || len(v.Problems) > 0 {
			t.Errorf("after the pause: IRQ 24 is %s, problems %v", r.irqMask("24"), v.Problems)
		}
		r.put("proc/irq/24/smp_affinity_list", "4\n")
		if r.tune(quiet(t, "4-5")); r.irqMask("24") != "4" {
			t.Error("the next pause does not begin immediately")
		}
		r.tune(Desired{})
		if got := r.irqMask("24"); !set(t, "4-5").IsSubsetOf(set(t, got)) {
			t.Errorf("IRQ 24: %s; want the removed CPUs back during a pause", got)
		}
	})
}

// TestFastExternalWrite checks that a repair that is overwritten before the daemon reads it
// back counts as a write conflict, not as NotTaken.
func TestFastExternalWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.tune(quiet(t, "4-5"))
		r.put("proc/irq/24/smp_affinity_list", "4\n")
		r.ignores["24"] = true
		var v *View
		for range maxRepairs {
			if v = r.tune(quiet(t, "4-5")); len(v.Problems) > 0 || len(v.Stuck) > 0 && v.Stuck[0].Why == NotTaken {
				t.Fatalf("stuck %+v, problems %v; want another repair", v.Stuck, v.Problems)
			}
			time.Sleep(Period) //nolint:forbidigo // the clock of synctest
		}
		if v = r.tune(quiet(t, "4-5")); len(v.Problems) != 1 || v.Problems[0].Code != CodeContested {
			t.Errorf("problems %v; want a write conflict", v.Problems)
		}
		delete(r.ignores, "24")
		time.Sleep(conflict.FirstPause + time.Second) //nolint:forbidigo // the clock of synctest
		if v = r.tune(quiet(t, "4-5")); r.irqMask("24") == "4" || len(v.Problems) > 0 {
			t.Errorf("after the last external write: IRQ 24 is %s, problems %v", r.irqMask("24"), v.Problems)
		}
	})
}

// TestLastExternalWriteStays checks that an external write without quiet CPUs stays after a
// conflict. The daemon had removed no CPUs from the mask.
func TestLastExternalWriteStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put("proc/irq/24/smp_affinity_list", "0-3\n")
		r.tune(quiet(t, "4-5"))
		for range maxRepairs + 1 {
			r.put("proc/irq/24/smp_affinity_list", "4-5\n")
			r.tune(quiet(t, "4-5"))
			time.Sleep(Period) //nolint:forbidigo // the clock of synctest
		}
		if got := r.irqMask("24"); got != "4-5" {
			t.Fatalf("IRQ 24: %s; want no repair", got)
		}
		r.put("proc/irq/24/smp_affinity_list", "0-3\n")
		r.tune(quiet(t, "4-5"))
		r.tune(Desired{})
		if got := r.irqMask("24"); got != "0-3" {
			t.Errorf("IRQ 24: %s; want 0-3, the last external write", got)
		}
	})
}

// TestRefusals checks which refused writes the next pass tries again.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		err   error
		why   Why
		again bool
	}{{syscall.EPERM, Immovable, false}, {syscall.EIO, Immovable, false}, {syscall.ENOSPC, NoSpace, true}, {syscall.EBUSY, Busy, true}} {
		r := newRig(t)
		r.immovable["24"] = tc.err
		v := r.tune(quiet(t, "4-5"))
		if i := slices.IndexFunc(v.Stuck, func(s Stuck) bool { return s.Name == "24" }); i < 0 || v.Stuck[i].Why != tc.why {
			t.Errorf("%v: stuck %+v; want IRQ 24: %s", tc.err, v.Stuck, tc.why)
		}
		delete(r.immovable, "24")
		if r.tune(quiet(t, "4-5")); (r.irqMask("24") == "0-3,6-7") != tc.again {
			t.Errorf("%v: IRQ 24 is %s in the next pass; want a retry: %t", tc.err, r.irqMask("24"), tc.again)
		}
		r.tune(Desired{})
		if got := r.irqMask("24"); got != "0-7" {
			t.Errorf("%v: IRQ 24 is %s after the restore; want 0-7", tc.err, got)
		}
	}
}

// TestNotTaken checks that a write without effect is tried again after conflict.LastPause.
func TestNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.ignores["24"] = true
		v := r.tune(quiet(t, "4-5"))
		if i := slices.IndexFunc(v.Stuck, func(s Stuck) bool { return s.Name == "24" }); i < 0 || v.Stuck[i].Why != NotTaken {
			t.Errorf("stuck: %+v; want IRQ 24 with NotTaken", v.Stuck)
		}
		r.wrote = nil
		if r.tune(quiet(t, "4-5")); len(r.wrote) != 0 {
			t.Errorf("the next pass wrote %q; want none", r.wrote)
		}
		delete(r.ignores, "24")
		time.Sleep(conflict.LastPause) //nolint:forbidigo // the clock of synctest
		if v = r.tune(quiet(t, "4-5")); r.irqMask("24") != "0-3,6-7" || slices.ContainsFunc(v.Stuck, func(s Stuck) bool { return s.Why == NotTaken }) {
			t.Errorf("after %v: IRQ 24 is %s, stuck %+v", conflict.LastPause, r.irqMask("24"), v.Stuck)
		}
	})
}

func TestNoCPULeft(t *testing.T) {
	r := newRig(t)
	before := r.dump()
	v := r.tune(quiet(t, "0-7"))
	if d := cmp.Diff(before, r.dump()); d != "" {
		t.Errorf("written although no CPU is left (-before +after):\n%s", d)
	}
	if len(v.Problems) != 1 || v.Problems[0].Code != CodeNoCPULeft {
		t.Errorf("problems: %v", v.Problems)
	}
}

func TestKernelThreads(t *testing.T) {
	r := newRig(t)
	before := r.dump()
	v := r.tune(Desired{NoKernel: set(t, "4-5")})
	want := map[string]string{"affinity of 2": "0-3,6-7", "affinity of 16": "4", "affinity of 17": "0-3,6-7", "affinity of 18": "4", "affinity of 19": "5", "affinity of 400": "0-7"}
	got := r.dump()
	for k, cpus := range want {
		if got[k] != cpus {
			t.Errorf("%s is %s; want %s", k, got[k], cpus)
		}
	}
	if m := r.get("sys/devices/virtual/workqueue/cpumask"); m != "cf" || r.irqMask("24") != "0-7" {
		t.Errorf("workqueues %s, IRQ 24 %s; want cf and unchanged interrupts", m, r.irqMask("24"))
	}
	if !cmp.Equal(v.Moved, map[Kind]int{KThread: 2, Workqueue: 1}) {
		t.Errorf("moved %v", v.Moved)
	}
	r.tune(Desired{})
	if d := cmp.Diff(before, r.dump()); d != "" {
		t.Errorf("restored (-before +after):\n%s", d)
	}
}

// TestCrashBetweenRecordAndWrite checks the restore after a crash between the save of the
// records and the first write, for changes in both directions.
func TestCrashBetweenRecordAndWrite(t *testing.T) {
	r := newRig(t)
	before := r.dump()
	for _, steps := range [][]string{{"4-5"}, {"4-5", "4"}, {"4-5", ""}, {"4", "4-6", "5", ""}} {
		for i, step := range steps {
			w := Desired{}
			if step != "" {
				w = quiet(t, step)
			}
			if i < len(steps)-1 {
				r.tune(w)
				continue
			}
			seen, unread, err := readAll(t.Context(), r.sources())
			if err != nil {
				t.Fatal(err)
			}
			d := Plan(w, seen, r.records, r.machine(), unread)
			if err := undoIn(r.dir).Save(d.Records); err != nil {
				t.Fatal(err)
			}
		}
		r.restart()
		report, err := Restore(t.Context(), Restoring{Sources: r.sources(), Undo: undoIn(r.dir), Machine: r.machine(), Exclusive: cpuset.Range(4, 7)}, false)
		if err != nil || len(report.Differs) > 0 {
			t.Fatalf("%q: %+v, %v", steps, report, err)
		}
		if d := cmp.Diff(before, r.dump()); d != "" {
			t.Fatalf("%q: restored (-before +after):\n%s", steps, d)
		}
		r.restart()
	}
}

// TestNoWriteWithoutRecord checks that nothing is written if the record cannot be saved.
func TestNoWriteWithoutRecord(t *testing.T) {
	r := newRig(t)
	if err := os.MkdirAll(filepath.Join(undoIn(r.dir).File, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.loaded, r.state = true, None
	v := r.tune(quiet(t, "4-5"))
	if len(r.wrote) != 0 || len(v.Pending) == 0 || len(v.Problems) != 1 || v.Problems[0].Code != CodeUndo {
		t.Errorf("wrote %q, %d pending, problems %v", r.wrote, len(v.Pending), v.Problems)
	}
}

func TestObserve(t *testing.T) {
	r := newRig(t)
	r.o.Observe = true
	if v := r.tune(quiet(t, "4-5")); len(r.wrote) != 0 || len(v.Pending) != 6 {
		t.Errorf("wrote %q, pending %v; want nothing and 6 changes", r.wrote, v.Pending)
	}
	if _, err := os.Stat(undoIn(r.dir).File); !os.IsNotExist(err) {
		t.Errorf("undo record of an observer: %v", err)
	}
}

// TestValues checks knobs that are not masks.
func TestValues(t *testing.T) {
	r := newRig(t)
	source := &governors{"performance", "schedutil"}
	r.restart(source)
	w := Desired{Values: map[Knob]string{{"governor", "0"}: "performance", {"governor", "1"}: "performance"}}
	if r.tune(w); source.values() != "performance performance" {
		t.Errorf("governors: %s; want performance performance", source.values())
	}
	r.restart(source)
	if r.tune(Desired{}); source.values() != "performance schedutil" {
		t.Errorf("governors: %s; want performance schedutil", source.values())
	}
	r.tune(w)
	(*source)[1] = "powersave" // an external write
	if r.tune(Desired{}); source.values() != "performance powersave" {
		t.Errorf("governors: %s; want the external write", source.values())
	}
}

// TestRun checks that a pass follows a changed Set, and then each Period until the restore.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		reads := 0
		r.restart(counter{&reads})
		done := make(chan struct{})
		ctx, cancel := testContext(t)
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		if reads != 0 {
			t.Errorf("%d reads before the first Set; want 0", reads)
		}
		r.Tuner.Set(quiet(t, "4"), r.machine(), cpuset.Set{})
		r.Tuner.Set(quiet(t, "4"), r.machine(), cpuset.Set{})
		synctest.Wait()
		time.Sleep(2*Period + time.Second) //nolint:forbidigo // the clock of synctest
		if synctest.Wait(); reads != 4 {
			t.Errorf("%d reads; want 4: two in the pass with writes", reads)
		}
		r.Tuner.Set(Desired{}, r.machine(), cpuset.Set{})
		synctest.Wait()
		time.Sleep(10 * Period) //nolint:forbidigo // the clock of synctest
		if synctest.Wait(); reads != 6 {
			t.Errorf("%d reads; want 6: two in the pass that restores, then no pass", reads)
		}
		cancel()
		<-done
	})
}
