package tune

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// balancerRig returns a rig with an irqbalance.
func balancerRig(t *testing.T, etc string) (*rig, *Balancer, *fakeBalancer) {
	r := newRig(t)
	r.task(500, "irqbalance", 0, "0-7")
	run := t.TempDir()
	fake := &fakeBalancer{}
	t.Cleanup(fake.serve(t, filepath.Join(run, "irqbalance500.sock")))
	files := fstest.MapFS{}
	if etc != "" {
		files["default/irqbalance"] = &fstest.MapFile{Data: []byte(etc)}
	}
	b := NewBalancer(r.dir2("proc"), r.dir2("sys"), files, r.machine())
	b.Run = run
	r.restart(b)
	return r, b, fake
}

func (r *rig) dir2(top string) Dir { return r.fakeHost.dir(top) }

// settings returns the messages except queries.
func (b *fakeBalancer) settings() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.received), func(s string) bool { return s == "setup" })
}

func TestIrqbalanceBan(t *testing.T) {
	r, _, fake := balancerRig(t, "# options\nIRQBALANCE_BANNED_CPULIST=0\n")
	fake.setBanned(set(t, "0"))
	v := r.tune(quiet(t, "4-5"))
	if got := fake.settings(); !slices.Equal(got, []string{"settings cpus 0,4-5"}) {
		t.Errorf("sent: %q; want %q", got, []string{"settings cpus 0,4-5"})
	}
	if v.Moved[IRQBalance] != 1 || len(v.Stuck) != 1 {
		t.Errorf("moved %v, stuck %v", v.Moved, v.Stuck)
	}
	r.tune(quiet(t, "4-5")) // before the scan
	fake.scan()
	r.tune(quiet(t, "4-5"))
	if got := fake.settings(); len(got) != 1 {
		t.Errorf("sent: %q; want one message", got)
	}
	r.tune(quiet(t, "4"))
	r.tune(Desired{})
	if got := fake.settings(); !slices.Equal(got[1:], []string{"settings cpus 0,4", "settings cpus NULL"}) {
		t.Errorf("sent: %q; want %q", got[1:], []string{"settings cpus 0,4", "settings cpus NULL"})
	}
}

// TestIrqbalanceRestart checks that the Tuner sends the list to a new process of irqbalance.
func TestIrqbalanceRestart(t *testing.T) {
	r, b, fake := balancerRig(t, "")
	r.tune(quiet(t, "4-5"))
	delete(r.files, "proc/500/stat")
	if v := r.tune(quiet(t, "4-5")); v.Moved[IRQBalance] != 0 || len(v.Problems) != 0 {
		t.Errorf("while irqbalance is stopped: %+v", v)
	}
	r.task(501, "irqbalance", 0, "0-7")
	t.Cleanup(fake.serve(t, filepath.Join(b.Run, "irqbalance501.sock")))
	r.tune(quiet(t, "4-5"))
	if got := fake.settings(); !slices.Equal(got, []string{"settings cpus 4-5", "settings cpus 4-5"}) {
		t.Errorf("sent: %q; want %q", got, []string{"settings cpus 4-5", "settings cpus 4-5"})
	}
	r.restart(b)
	report, err := Restore(t.Context(), Restoring{Sources: append(r.sources(), b), Undo: undoIn(r.o.Undo.File[:strings.Index(r.o.Undo.File, "/state")]), Machine: r.machine()}, false)
	if err != nil || len(report.Differs) != 0 || fake.settings()[2] != "settings cpus NULL" {
		t.Errorf("restore: %+v, %v, sent %q", report, err, fake.settings())
	}
}

func TestIrqbalanceWithoutSocket(t *testing.T) {
	r, b, _ := balancerRig(t, "")
	b.Run = t.TempDir()
	v := r.tune(quiet(t, "4-5"))
	if len(v.Problems) != 1 || v.Problems[0].Code != CodeBalancer || !strings.Contains(v.Problems[0].Text, "RuntimeDirectory") {
		t.Errorf("problems: %v", v.Problems)
	}
	if got := r.irqMask("24"); got != "0-3,6-7" {
		t.Errorf("IRQ 24: %s; want it moved without irqbalance", got)
	}
}

func TestIrqbalanceListLimit(t *testing.T) {
	_, b, _ := balancerRig(t, "")
	b.Machine = Machine{Possible: cpuset.Range(0, 1023), Online: cpuset.Range(0, 1023)}
	var odd []int
	for cpu := 101; cpu < 1000; cpu += 2 {
		odd = append(odd, cpu)
	}
	if err := b.Write(t.Context(), Knob{Kind: IRQBalance}, cpuset.Of(odd...).String()); err == nil {
		t.Error("no error for a list that irqbalance would truncate")
	}
}
