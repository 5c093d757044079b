package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/latency"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestMeasuring checks that a measurement begins on free CPUs only, and that a new owner is a reason to end it.
func TestMeasuring(t *testing.T) {
	free := latency.Candidates{Online: cpuset.Range(0, 7), Free: cpuset.Range(4, 7)}
	taken := free
	taken.Owners = []audit.Owner{{Pod: "ran/vdu-0", Name: "du", CPUs: cpuset.Of(6)}}
	taken.Free = cpuset.Of(4, 5, 7)
	now, failed, runs := free, error(nil), 0
	var reasons []string
	m := measuring{
		candidates: func(context.Context) (latency.Candidates, []string, error) { return now, []string{"a pod"}, failed },
		run: func(ctx context.Context, o latency.Options) (latency.Report, error) {
			cpus, err := o.Choose(ctx)
			if o.CPUs = cpus; err != nil {
				return latency.Report{Cleaned: []string{"remains"}}, err
			}
			runs++
			reasons = append(reasons, o.Check(ctx))
			now = taken
			reasons = append(reasons, o.Check(ctx))
			failed = errors.New("no runtime")
			reasons = append(reasons, o.Check(ctx))
			return latency.Report{CPUs: o.CPUs}, nil
		},
	}
	r, unread, err := m.measure(t.Context(), cpuset.Set{}, latency.Options{})
	if err != nil || !r.CPUs.Equal(free.Free) || len(unread) != 1 {
		t.Errorf("%+v, unread %q, %v; want all free CPUs", r, unread, err)
	}
	if d := cmp.Diff([]string{"", "CPU 6 belongs to container ran/vdu-0/du", "the owners of CPUs are unknown: no runtime"}, reasons); d != "" {
		t.Errorf("reasons to end (-want +got):\n%s", d)
	}
	failed = nil
	r, _, err = m.measure(t.Context(), cpuset.Of(6), latency.Options{})
	if err == nil || len(r.Cleaned) != 1 || !strings.Contains(err.Error(), "ran/vdu-0/du") || runs != 1 {
		t.Errorf("a CPU with an owner: %v after %d runs; want an error with its name, and one run", err, runs)
	}
}

func TestLatencyFlags(t *testing.T) {
	for _, c := range [][]string{
		{"--duration", "500ms", "write 1s to 1h0m0s"}, {"--duration", "2h", "write 1s to 1h0m0s"},
		{"--tracer", "hwlat", "write osnoise or timerlat"}, {"--cpus", "4-", "--cpus 4-"},
		{"--threshold", "1500ns", "whole microseconds"}, {"--threshold", "0s", "whole microseconds"}, {"--threshold", "2s", "whole microseconds"},
	} {
		var stderr bytes.Buffer
		code := execute(t.Context(), streams{out: &stderr, err: &stderr}, []string{"latency", c[0], c[1]})
		if code != exitUsage || !strings.Contains(stderr.String(), c[2]) {
			t.Errorf("%s %s: exit code %d, %s; want a usage error with %q", c[0], c[1], code, &stderr, c[2])
		}
	}
}

func TestIsVirtual(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"x86":             {map[string]string{"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu tsc sse\n"}, false},
		"virtual x86":     {map[string]string{"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n"}, true},
		"last flag":       {map[string]string{"proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}, true},
		"arm64":           {map[string]string{"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n", "sys/class/dmi/id/sys_vendor": "Ampere\n"}, false},
		"virtual arm64":   {map[string]string{"sys/class/dmi/id/sys_vendor": "QEMU\n"}, true},
		"arm64 with a DT": {map[string]string{"proc/device-tree/hypervisor/compatible": "linux,kvm"}, true},
		"nothing":         {nil, false},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := isVirtual(root); got != c.want {
			t.Errorf("%s: %t; want %t", name, got, c.want)
		}
	}
}

func TestNanoseconds(t *testing.T) {
	for n, want := range map[uint64]string{0: "0ns", 999: "999ns", 4050: "4.05µs", 9995: "10.0µs", 99_940: "99.9µs", 123_456: "123µs", 999_600: "1.00ms", 12_340_000: "12.3ms", 5_000_000_000: "5.00s", 3_600_000_000_000: "3600s"} {
		if got := nanoseconds(n); got != want {
			t.Errorf("%d: %s; want %s", n, got, want)
		}
	}
}

func TestPrintLatency(t *testing.T) {
	r := latency.Report{
		Tracer: "osnoise", CPUs: cpuset.Range(4, 5), Seconds: 6, Threshold: 5000, Virtual: true, Ended: "CPU 4 belongs to container ran/vdu-0/du",
		PerCPU: []latency.CPU{
			{CPU: 4, Gaps: 2511, Longest: 4_312_000, Total: 31_200_000, IRQs: 2600, Softirqs: 14, Threads: 31, NMIs: 1, Hardware: 3, Causes: []latency.Cause{{Kind: "irq", Name: "local_timer", ID: 236, Count: 2600, Nanoseconds: 9_000_000}, {Kind: "thread", Name: "stress", ID: 812, Count: 1, Nanoseconds: 4_300_000}}},
			{CPU: 5, Gaps: 2500, Longest: 9100, Total: 20_000_000, IRQs: 2500, Lost: 12, Unreadable: 1, Stopped: true},
		},
		Gaps: []latency.Gap{
			{CPU: 4, At: 812_345_678_901, Nanoseconds: 4_312_000, Unexplained: 6000, Causes: []latency.Cause{
				{Kind: "thread", Name: "stress", ID: 812, Count: 1, Nanoseconds: 4_300_000}, {Kind: "irq", Name: "local_timer", ID: 236, Count: 2, Nanoseconds: 5000}, {Kind: "softirq", Name: "RCU", ID: 9, Count: 1, Nanoseconds: 1000},
			}},
			{CPU: 5, Nanoseconds: 9100, Causes: []latency.Cause{{Kind: "hardware", Count: 1, Nanoseconds: 9100}}},
			{CPU: 4, At: 813_000_000_000, Nanoseconds: 9000, Others: 2, Causes: []latency.Cause{{Kind: "nmi", Count: 1, Nanoseconds: 6000}, {Kind: "thread", Name: "a\nb", ID: 9, Count: 1, Nanoseconds: 3000}}},
		},
		Changed: []string{`osnoise/cpus: "4-5", was "0-7"`, `tracing_thresh: "5", was "0"`},
		Kept:    []string{`osnoise/period_us: "7", which another process wrote; it was "1000000"`},
		Cleaned: []string{`osnoise/cpus: "0-7" again, was "3"`},
		Unread:  []string{"a pod"},
	}
	const want = `restored: osnoise/cpus: "0-7" again, was "3"
osnoise on CPUs 4-5 for 6.0 s, gaps of 5.00µs or longer
ended early: CPU 4 belongs to container ran/vdu-0/du
This machine is virtual or emulated: the counts are correct, and the times are no microseconds of hardware.

CPU  GAPS  LONGEST  TOTAL   IRQS  SOFTIRQS  THREADS  NMIS  HARDWARE
4    2511  4.31ms   31.2ms  2600  14        31       1     3
5    2500  9.10µs   20.0ms  2500  0         0        0     0

Events with the most time on each CPU:
CPU  CAUSE                EVENTS  TIME
4    irq local_timer:236  2600    9.00ms
4    thread stress[812]   1       4.30ms

Longest gaps, at seconds of the kernel's clock:
CPU  AT       GAP     CAUSES
4    812.346  4.31ms  thread stress[812] 4.30ms, unexplained 6.00µs, irq local_timer:236 ×2 5.00µs, 1 more
5    -        9.10µs  hardware 9.10µs
4    813.000  9.00µs  nmi 6.00µs, thread a?b[9] 3.00µs, 2 more
CPU 5: the kernel ended the measurement, because another process tried to move its thread
CPU 5: the kernel dropped 12 events; counts and causes are incomplete
CPU 5: 1 line not understood

Tracing settings that were changed and are restored:
  osnoise/cpus: "4-5", was "0-7"
  tracing_thresh: "5", was "0"
  kept osnoise/period_us: "7", which another process wrote; it was "1000000"
not read: a pod
`
	var out bytes.Buffer
	if err := layout.Print(&out, func(w *layout.Writer) { printLatency(w, r) }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line); strings.ContainsRune(line, '\r') || n > 120 {
			t.Errorf("line of %d columns: %q", n, line)
		}
	}
	out.Reset()
	if err := layout.Print(&out, func(w *layout.Writer) { printLatency(w, latency.Report{Cleaned: r.Cleaned}) }); err != nil || out.String() != "restored: osnoise/cpus: \"0-7\" again, was \"3\"\n" {
		t.Errorf("without a measurement: %q, %v", out.String(), err)
	}
}
