package main

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	interruptsBefore = `           CPU0       CPU2
  1:        100          7   IO-APIC   1-edge      i8042
 25:          0          5   PCI-MSIX-0000:00:02.0   1-edge      virtio1-rx
 30:          1          1   PCI-MSIX-0000:00:03.0   0-edge      gone
LOC:       1000       2000   Local timer interrupts
RES:          3          4   Rescheduling interrupts
ERR:          0
`
	interruptsAfter = `           CPU0       CPU2
  1:        150          7   IO-APIC   1-edge      i8042
 25:          0          9   PCI-MSIX-0000:00:02.0   1-edge      virtio1-rx
 31:          0          2   PCI-MSIX-0000:00:04.0   0-edge      new
LOC:       1250       2003   Local timer interrupts
RES:          3          1   Rescheduling interrupts
ERR:          0
`
	softirqsBefore = "                    CPU0       CPU2\n          HI:          1          1\n       TIMER:         10         20\n"
	softirqsAfter  = "                    CPU0       CPU2\n          HI:          1          1\n       TIMER:         30         21\n"
)

func procOf(interrupts, softirqs, status string) fstest.MapFS {
	return fstest.MapFS{"interrupts": {Data: []byte(interrupts)}, "softirqs": {Data: []byte(softirqs)}, "self/task/42/status": {Data: []byte(status)}}
}

// TestEvents checks that events counts the events on one CPU only. It skips counters that
// are gone or have restarted.
func TestEvents(t *testing.T) {
	before, err := takeSample(procOf(interruptsBefore, softirqsBefore, "Name:\tjitter\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t1\n"), 42)
	if err != nil {
		t.Fatal(err)
	}
	after, err := takeSample(procOf(interruptsAfter, softirqsAfter, "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t4\n"), 42)
	if err != nil {
		t.Fatal(err)
	}
	got := events(before, after, 2)
	want := []Event{
		{"interrupt", "25 PCI-MSIX-0000:00:02.0 1-edge virtio1-rx", 4},
		{"interrupt", "31 PCI-MSIX-0000:00:04.0 0-edge new", 2},
		{"softirq", "TIMER", 1},
		{"switch", "involuntary", 3},
		{"tick", "LOC Local timer interrupts", 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events of CPU 2 (-want +got):\n%s", diff)
	}
	if n := total(got, "interrupt"); n != 6 {
		t.Errorf("%d interrupts; want 6", n)
	}
	if again := events(after, after, 2); len(again) > 0 {
		t.Errorf("events between a sample and itself = %v; want none", again)
	}
	arm := strings.Replace(interruptsAfter, "LOC:       1250       2003   Local timer interrupts", " 11:       1250       2003   GICv3  27 Level     arch_timer", 1)
	after, err = takeSample(procOf(arm, softirqsAfter, "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t1\n"), 42)
	if err != nil || total(events(before, after, 2), "tick") != 2003 {
		t.Errorf("ticks of arm64: %v, %v", events(before, after, 2), err)
	}
}

func TestTakeSampleRefuses(t *testing.T) {
	const status = "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t1\n"
	for name, proc := range map[string]fstest.MapFS{
		"interrupts":     procOf("x", softirqsBefore, status),
		"softirqs":       procOf(interruptsBefore, "", status),
		"no switches":    procOf(interruptsBefore, softirqsBefore, "Name:\tx\n"),
		"bad switches":   procOf(interruptsBefore, softirqsBefore, "voluntary_ctxt_switches:\t-5\nnonvoluntary_ctxt_switches:\t1\n"),
		"another thread": {"interrupts": {Data: []byte(interruptsBefore)}, "softirqs": {Data: []byte(softirqsBefore)}},
	} {
		if s, err := takeSample(proc, 42); err == nil {
			t.Errorf("%s: %+v; want an error", name, s)
		}
	}
}

func FuzzSwitches(f *testing.F) {
	f.Add("voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t1\n")
	f.Add("voluntary_ctxt_switches\nvoluntary_ctxt_switches:1\n")
	f.Fuzz(func(t *testing.T, text string) {
		if v, i, err := switches([]byte(text)); err != nil && (v != 0 || i != 0) {
			t.Errorf("switches = %d, %d with error %v; want 0, 0", v, i, err)
		}
	})
}

// TestHistogram checks the bounds of buckets: the upper bound is inclusive, the lower one
// exclusive.
func TestHistogram(t *testing.T) {
	for _, ns := range []uint64{0, 1, 7, 8, 9, 15, 16, 17, 255, 256, 1000, 10_000, 123_456_789, 1 << 40, 1<<63 - 1} {
		b := bucketOf(ns)
		if ceilingOf(b) < ns || b > 0 && ceilingOf(b-1) >= ns {
			t.Errorf("bucket of %d ns = %d, from above %d to %d; want a bucket around it", ns, b, ceilingOf(max(b-1, 0)), ceilingOf(b))
		}
		if ns > 0 && float64(ceilingOf(b)) > float64(ns)*1.126 {
			t.Errorf("ceiling of %d ns = %d; want at most an eighth more", ns, ceilingOf(b))
		}
	}
	var h histogram
	for range 9_990 {
		h.add(40)
	}
	for range 10 {
		h.add(50_000)
	}
	if p50, p999, p9999 := h.quantile(0.5), h.quantile(0.998), h.quantile(0.9999); p50 > 45 || p999 > 45 || p9999 != 50_000 {
		t.Errorf("quantiles %s, %s, %s; want about 40ns, 40ns, 50µs", p50, p999, p9999)
	}
	if h.max != 50_000 || h.above(10*time.Microsecond) != 10 || h.above(100*time.Microsecond) != 0 || h.n != 10_000 || h.sum != 9_990*40+10*50_000 {
		t.Errorf("longest, above 10 µs, count = %d, %d, %d; want 50000, 10, 10000", h.max, h.above(10*time.Microsecond), h.n)
	}
	if empty := new(histogram); empty.quantile(0.5) != 0 {
		t.Error("median of an empty histogram != 0; want 0")
	}
}

func TestReport(t *testing.T) {
	r := Report{
		Without: &Measurement{CPU: 3, Allowed: "0-3", Duration: 2 * time.Second, Max: 4 * time.Millisecond, Events: []Event{{"tick", "LOC", 500}}},
		Why:     "unknown", Others: map[string]string{"cyclictest": "T: 0"},
	}
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"longest      4ms", "tick, a second    250.0", "tick            500  LOC", "Nothing is measured with cpupoold: unknown", "cyclictest:\nT: 0"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, b.String())
		}
	}
}

// TestAsk checks that the output of a command is a measurement, or that the error
// contains it.
func TestAsk(t *testing.T) {
	m, err := ask(t.Context(), []string{"echo", `{"cpu":3,"allowed":"2-3","durationNs":5}`})
	if err != nil || m.CPU != 3 || m.Allowed != "2-3" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, command := range [][]string{{"echo", "hello"}, {"echo", "{}"}, {"false"}, {"/does/not/exist"}} {
		if m, err := ask(t.Context(), command); err == nil || !strings.Contains(err.Error(), command[0]) {
			t.Errorf("%v: %+v, %v; want an error that names it", command, m, err)
		}
	}
}
