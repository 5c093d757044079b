package tune

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func (r *rig) restoring() Restoring {
	return Restoring{Sources: r.sources(), Undo: undoIn(r.dir), Machine: r.machine(), Exclusive: cpuset.Range(4, 7)}
}

func (r *rig) restore(dryRun bool) Report {
	r.t.Helper()
	report, err := Restore(r.t.(*testing.T).Context(), r.restoring(), dryRun)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

func TestRestore(t *testing.T) {
	r := newRig(t)
	before := r.dump()
	r.tune(Desired{Quiet: set(t, "4-5"), NoKernel: set(t, "4")})
	r.wrote = nil
	if report := r.restore(true); len(report.Restored) != 8 || len(r.wrote) != 0 || report.State != Known {
		t.Errorf("dry run: %+v, wrote %q; want 8 changes and nothing written", report, r.wrote)
	}
	if report := r.restore(false); len(report.Restored) != 8 || len(report.Differs) != 0 || report.Gone != 0 {
		t.Errorf("restore: %+v; want 8 values", report)
	}
	if d := cmp.Diff(before, r.dump()); d != "" {
		t.Errorf("restored (-before +after):\n%s", d)
	}
	if report := r.restore(false); report.State != None || len(report.Restored) != 0 {
		t.Errorf("again: %+v; want nothing to do", report)
	}
}

// noSocket is the source of an irqbalance without a socket.
type noSocket struct{}

func (noSocket) Kinds() []Kind                             { return []Kind{IRQBalance} }
func (noSocket) Read(context.Context) ([]Observed, error)  { return nil, ErrNoSocket }
func (noSocket) Write(context.Context, Knob, string) error { return ErrNoSocket }

// TestRestoreWithUnreadableSource checks that Restore ignores the error of a source without
// records, and returns the error of a source with records.
func TestRestoreWithUnreadableSource(t *testing.T) {
	r := newRig(t)
	others := slices.DeleteFunc(r.sources(), func(s Source) bool { return slices.Contains(s.Kinds(), IRQBalance) })
	o := r.restoring()
	o.Sources = append(others, noSocket{})
	records := []Record{{Knob: Knob{Kind: DefaultAffinity}, Original: "0-7", Wrote: "0-3"}}
	if err := o.Undo.Save(records); err != nil {
		t.Fatal(err)
	}
	if report, err := Restore(t.Context(), o, false); err != nil || report.State != Known {
		t.Errorf("%+v, %v; want no error", report, err)
	}
	records = append(records, Record{Knob: Knob{Kind: IRQBalance}, ID: "1", Original: "", Wrote: "4-5"})
	if err := o.Undo.Save(records); err != nil {
		t.Fatal(err)
	}
	if report, err := Restore(t.Context(), o, false); !errors.Is(err, ErrNoSocket) {
		t.Errorf("with a record: %+v, %v; want %v", report, err, ErrNoSocket)
	}
}

func TestRestoreAfterReboot(t *testing.T) {
	r := newRig(t)
	r.tune(quiet(t, "4-5"))
	o := r.restoring()
	o.Undo.BootID = "boot-2"
	r.wrote = nil
	report, err := Restore(t.Context(), o, false)
	if err != nil || report.State != EarlierBoot || report.Note == "" || len(r.wrote) != 0 {
		t.Errorf("%+v, %v, wrote %q", report, err, r.wrote)
	}
}

// TestRestoreWithoutRecord checks that after the loss of the record, masks that lack only
// exclusive CPUs get the kernel's default.
func TestRestoreWithoutRecord(t *testing.T) {
	for _, damage := range []string{"missing", "garbage", "cut"} {
		r := newRig(t)
		r.irq("27", "1-3", "chosen") // also lacks CPU 0, which is never exclusive
		want := r.dump()
		want["proc/irq/25/smp_affinity_list"] = "0-7"          // the original 4 is lost
		want["sys/class/net/eth0/queues/rx-1/rps_cpus"] = "c0" // the original f0 is lost
		r.tune(quiet(t, "4-5"))
		file := undoIn(r.dir).File
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch damage {
		case "missing":
			err = os.Remove(file)
		case "garbage":
			err = os.WriteFile(file, []byte("{}"), 0o600) //nolint:forbidigo // a file of the test
		default:
			err = os.WriteFile(file, b[:len(b)/2], 0o600) //nolint:forbidigo // a file of the test
		}
		if err != nil {
			t.Fatal(err)
		}
		report := r.restore(false)
		if report.State != Lost || report.Note == "" {
			t.Errorf("%s: %+v; want a note that the record is lost", damage, report)
		}
		for _, c := range report.Restored {
			if !c.Presumed {
				t.Errorf("%s: %s is not presumed", damage, c.Knob)
			}
		}
		if d := cmp.Diff(want, r.dump()); d != "" {
			t.Errorf("%s: (-want +got):\n%s", damage, d)
		}
	}
}

// TestTunerWithoutRecord checks that a Tuner also uses the kernel's defaults after the loss.
func TestTunerWithoutRecord(t *testing.T) {
	r := newRig(t)
	r.tune(quiet(t, "4-5"))
	file := undoIn(r.dir).File
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.restart()
	v := r.tune(quiet(t, "4"))
	if got := r.irqMask("24"); got != "0-3,5-7" {
		t.Errorf("IRQ 24: %s; want CPU 5 back", got)
	}
	if len(v.Problems) != 1 || v.Problems[0].Code != CodeUndo {
		t.Errorf("problems: %v", v.Problems)
	}
	if b, err := os.ReadFile(file + ".bad"); err != nil || string(b) != "garbage" {
		t.Errorf("renamed file: %q, %v; want %q", b, err, "garbage")
	}
	if r.tune(Desired{}); r.irqMask("24") != "0-7" {
		t.Errorf("IRQ 24: %s; want 0-7", r.irqMask("24"))
	}
}

func TestRestoreRefusedWrite(t *testing.T) {
	r := newRig(t)
	r.tune(quiet(t, "4-5"))
	r.immovable["24"] = syscall.EBUSY
	r.put("proc/irq/25/smp_affinity_list", "1\n") // an external write
	delete(r.files, "proc/irq/0/smp_affinity_list")
	report := r.restore(false)
	if report.Gone != 1 || len(report.Differs) != 2 {
		t.Fatalf("restore: %+v; want one knob gone and two differences", report)
	}
	if d := report.Differs[0]; d.Name != "24" || d.Harmless || !strings.Contains(d.Reason, "busy") {
		t.Errorf("IRQ 24: %+v", d)
	}
	if d := report.Differs[1]; d.Name != "25" || !d.Harmless || d.Original != "4" || d.Now != "1,4" {
		t.Errorf("IRQ 25: %+v", d)
	}
	delete(r.immovable, "24")
	if report = r.restore(false); len(report.Restored) != 1 || r.irqMask("24") != "0-7" {
		t.Errorf("again: %+v, IRQ 24 is %s", report, r.irqMask("24"))
	}
}

func TestPreview(t *testing.T) {
	r := newRig(t)
	d, err := Preview(t.Context(), r.restoring(), quiet(t, "4-5"))
	if err != nil || len(d.Changes) != 6 || len(r.wrote) != 0 {
		t.Errorf("%+v, %v; want 6 changes", d.Changes, err)
	}
}

func TestUndoIsStrict(t *testing.T) {
	u := undoIn(t.TempDir())
	records := []Record{{Knob: Knob{IRQ, "24"}, ID: "PCI-MSI 24", Original: "0-7", Wrote: "0-3"}}
	if err := u.Save(records); err != nil {
		t.Fatal(err)
	}
	if got, state, err := u.Load(); err != nil || state != Known || !cmp.Equal(got, records) {
		t.Errorf("read back: %+v, %s, %v", got, state, err)
	}
	b, err := os.ReadFile(u.File)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "{}", string(b[:len(b)-5]), strings.Replace(string(b), "0-7", "0-6", 1), strings.Replace(string(b), `"version":1`, `"version":2`, 1)} {
		if err := os.WriteFile(u.File, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, state, err := u.Load(); err == nil || state != Lost || got != nil {
			t.Errorf("%q: %+v, %s, %v; want the state lost", bad, got, state, err)
		}
	}
	if err := u.Save(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(u.Mark), "host.mark")); !os.IsNotExist(err) {
		t.Errorf("mark: %v", err)
	}
}

// TestCommandLineDefaults checks that masks with the CPUs of kernel arguments count as
// unchanged after the loss of the record.
func TestCommandLineDefaults(t *testing.T) {
	r := newRig(t)
	r.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz irqaffinity=1-3 nohz_full=6-7\n")
	r.put("sys/devices/system/cpu/possible", "0-7\n")
	r.put("sys/devices/system/cpu/isolated", "\n")
	r.put("sys/devices/system/cpu/nohz_full", "6-7\n")
	r.put("proc/irq/default_smp_affinity", "0f\n")
	for _, n := range []string{"0", "24", "25"} {
		r.irq(n, "0-3", "boot")
	}
	r.irq("27", "0-2", "narrower")
	r.put("sys/devices/virtual/workqueue/cpumask", "1f\n") // the daemon removed CPU 5
	r.put("sys/class/net/eth0/queues/rx-1/rps_cpus", "00\n")
	r.allow(2, set(t, "0-5"))
	r.allow(17, set(t, "0-4"))
	want := r.dump()
	want["proc/irq/27/smp_affinity_list"] = "0-3"
	want["sys/devices/virtual/workqueue/cpumask"] = "3f"
	want["affinity of 17"] = "0-5"
	o := r.restoring()
	o.Exclusive = cpuset.Range(2, 7)
	if err := o.Undo.Save([]Record{{Knob: Knob{IRQ, "99"}}}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(o.Undo.File); err != nil {
		t.Fatal(err)
	}
	if report, err := Restore(t.Context(), o, false); err != nil || report.State != Lost {
		t.Errorf("%+v, %v", report, err)
	}
	if d := cmp.Diff(want, r.dump()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
