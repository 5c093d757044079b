package latency_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/node/latency"
)

var update = flag.Bool("update", false, "rewrite the results in testdata/traces.txtar")

const tracesFile = "testdata/traces.txtar"

// result holds the values that a parser returns.
type result struct {
	CPU  latency.CPU   `json:"cpu"`
	Gaps []latency.Gap `json:"gaps"`
}

// parse returns the result of a text that arrives in these parts.
func parse(parts ...string) result {
	p := latency.Parser{CPU: 3}
	for _, part := range parts {
		_, _ = p.Write([]byte(part)) // it never fails
	}
	counts, gaps := p.Result()
	return result{counts, gaps}
}

// TestParser checks the results of recorded traces, and of events that did not occur in them.
func TestParser(t *testing.T) {
	archive, err := txtar.ParseFile(tracesFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) != 6 {
		t.Fatalf("%d files, want three traces with results", len(archive.Files))
	}
	for i := 0; i < len(archive.Files); i += 2 {
		trace, want := archive.Files[i], &archive.Files[i+1]
		got, err := json.MarshalIndent(parse(string(trace.Data)), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, '\n'); *update {
			want.Data = got
		}
		if d := cmp.Diff(string(want.Data), string(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", trace.Name, d)
		}
	}
	if *update {
		if err := os.WriteFile(tracesFile, txtar.Format(archive), 0o644); err != nil { //nolint:forbidigo // a golden file
			t.Fatal(err)
		}
	}
}

// TestParserCauses checks the causes of gaps in the trace with all kinds of events. A gap has the events within its
// time, and a later gap has the later events. Equal events are counted together.
func TestParserCauses(t *testing.T) {
	archive, err := txtar.ParseFile(tracesFile)
	if err != nil {
		t.Fatal(err)
	}
	r := parse(string(archive.Files[4].Data))
	var got []string
	for _, g := range r.Gaps {
		var line []string
		for _, c := range g.Causes {
			line = append(line, c.Kind+" "+c.Name+strings.Repeat("*", int(c.Count)))
		}
		got = append(got, strings.Join(line, ", "))
	}
	want := []string{"softirq NET_RX*, thread kworker/3:1*, irq eth0-rx-1*, nmi *", "irq eth0-rx-1**", "", "irq local_timer*"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("causes (-want +got):\n%s", d)
	}
	if c := r.CPU; c.Lost != 12 || !c.Stopped || c.Unreadable != 0 || r.Gaps[2].Others != 2 {
		t.Errorf("counts %+v, gaps %+v; want 12 lost events, a stopped CPU, and 2 unknown events in the third gap", c, r.Gaps)
	}
}

// TestThreadNames checks that a thread cannot forge an event by its name, which may have newlines.
func TestThreadNames(t *testing.T) {
	const times = " start 10.000000000 duration 5000 ns\n"
	for name, want := range map[string]string{
		"busy":             "busy",
		"a: b":             "a: b",
		"x:1 start 1.0 d":  "x:1 start 1.0 d",
		"\nirq_noise: x":   "\nirq_noise: x",
		"\nthread_noise: ": "\nthread_noise: ",
		"\n\n\n\n":         "\n\n\n\n",
		"\nCPU:3 [LOST 9":  "\nCPU:3 [LOST 9",
		"#1 context":       "#1 context",
	} {
		r := parse("thread_noise: "+name+":77"+times, "sample_threshold: start 9.999999999 duration 5001 ns interference 1\n")
		if c := r.CPU; c.Threads != 1 || c.IRQs+c.Softirqs+c.NMIs+c.Lost+c.Unreadable != 0 || len(r.Gaps) != 1 || len(r.Gaps[0].Causes) != 1 {
			t.Errorf("name %q: %+v; want one thread", name, r)
		} else if c := r.Gaps[0].Causes[0]; c.Name != want || c.ID != 77 {
			t.Errorf("name %q: cause %+v", name, c)
		}
	}
}

// TestBrokenLines checks that a line that is not understood is counted, and hides no other line.
func TestBrokenLines(t *testing.T) {
	const good = "irq_noise: local_timer:236 start 10.000000000 duration 5000 ns\n"
	for _, line := range []string{
		"thread_noise: a name that is longer than a name can be",
		"thread_noise: no number start 1.000000000 duration 1 ns",
		"irq_noise: x:y start 1.000000000 duration 1 ns",
		"irq_noise: x:1 start 1.000000000 duration 99999999999999999 ns",
		"nmi_noise: start 1.0 duration 1 ns",
		"sample_threshold: start 1.000000000 duration 1 ns",
		"CPU:1 [LOST some EVENTS]",
		"#1 context irq timer_latency 99999999999999999999999 ns",
		strings.Repeat("x", 513),
	} {
		if r := parse(good, line+"\n", good); r.CPU.Unreadable != 1 || r.CPU.IRQs != 2 {
			t.Errorf("%q: counts %+v; want one unreadable line and two interrupts", line, r.CPU)
		}
	}
	for _, line := range []string{"# tracer: osnoise", "", "3 100000 0", "thread_noise"} {
		if r := parse(good, line+"\n", good); r.CPU.Unreadable != 0 || r.CPU.IRQs != 2 {
			t.Errorf("%q: counts %+v; want a skipped line", line, r.CPU)
		}
	}
}

func FuzzParser(f *testing.F) {
	archive, err := txtar.ParseFile(tracesFile)
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		f.Add(string(archive.Files[i].Data), 100)
	}
	f.Add("thread_noise: \nirq_noise: x:77 start 1.000000000 duration 5 ns\n", 14)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		whole := parse(text)
		if cut = max(min(cut, len(text)), 0); !cmp.Equal(whole, parse(text[:cut], text[cut:])) {
			t.Errorf("another result with a cut at %d", cut)
		}
		if len(whole.Gaps) > 10 || uint64(len(whole.Gaps)) > whole.CPU.Gaps {
			t.Errorf("%d gaps, counted %d", len(whole.Gaps), whole.CPU.Gaps)
		}
		longest := whole.CPU.Longest
		for _, g := range whole.Gaps {
			if g.Nanoseconds > longest || len(g.Causes) > 8 || g.CPU != 3 {
				t.Errorf("gap %+v after one of %d ns", g, longest)
			}
			longest = g.Nanoseconds
			if slices.ContainsFunc(g.Causes, func(c latency.Cause) bool { return c.Kind == "thread" && len(c.Name) > 15 || c.Count == 0 }) {
				t.Errorf("causes %+v", g.Causes)
			}
		}
	})
}
