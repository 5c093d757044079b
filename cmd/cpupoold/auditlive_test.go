package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/livereport"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// kernel is a fake of the program. Each second, a foreign task runs for a millisecond on CPU 4.
type kernel struct {
	opened             time.Time
	reads, closed      int
	own, read, measure error
	oneRead, close     error // of the third reading, and of Close
	watched            cpuset.Set
	bound              bool
}

func (k *kernel) Own(owners []schedwatch.Owner) (cpuset.Set, error) {
	if len(owners) != 1 || owners[0].Cgroups[0] != "du" {
		return cpuset.Set{}, fmt.Errorf("owners %+v", owners)
	}
	return k.watched, k.own
}

func (k *kernel) EnableStatistics() error { return k.measure }

func (k *kernel) Close() error {
	k.closed++
	return k.close
}

func (k *kernel) Read() (schedwatch.Reading, error) {
	k.reads++
	kind := schedwatch.User
	if k.bound {
		kind = schedwatch.BoundKernel
	}
	c := schedwatch.CPU{CPU: 4, Watched: time.Since(k.opened)}
	c.Foreign[kind] = schedwatch.Count{Time: time.Duration(k.reads) * time.Millisecond, Switches: uint64(k.reads)}
	return schedwatch.Reading{
		CPUs:  []schedwatch.CPU{c},
		Tasks: []schedwatch.Task{{CPU: 4, Kind: kind, Command: "hog", CgroupID: 9, Cgroup: "x", Time: time.Millisecond, Switches: 1}},
	}, cmp.Or(k.read, map[bool]error{true: k.oneRead}[k.reads == 3])
}

func TestLiveAuditing(t *testing.T) {
	other := owned()
	other.Places[0].Cgroup = "du-again"
	bad := errors.New("bad")
	for name, c := range map[string]struct {
		kernel
		before, after     error
		now               audit.Ownership // the owners at the end
		stop              time.Duration
		reads, code       int
		progress, unread  string
		changed, err      string
		isNotOpened, lone bool
	}{
		"ten seconds":            {reads: 10, code: exitFindings, progress: "5 s of 10 s: foreign tasks ran for 5.000ms, with 5 switches"},
		"a signal":               {stop: 2500 * time.Millisecond, reads: 3, code: exitFindings},
		"only bound threads":     {kernel: kernel{bound: true}, reads: 10, progress: "5 s of 10 s: foreign tasks ran for 0.000ms, with 0 switches"},
		"no run time":            {kernel: kernel{measure: bad}, reads: 10, code: exitFindings, progress: "5 s", unread: "the run time of the program: bad"},
		"part is not watched":    {kernel: kernel{own: bad}, reads: 10, code: exitFindings, progress: "5 s", unread: "bad"},
		"no CPU is watched":      {kernel: kernel{own: bad, watched: cpuset.Of()}, lone: true, err: "no exclusive CPU can be watched"},
		"no reading":             {kernel: kernel{read: bad}, reads: 3, err: "read the counts of the kernel: bad"},
		"a reading fails":        {kernel: kernel{oneRead: bad}, reads: 10, code: exitFindings, progress: "5 s", unread: "1 reading failed: read the counts of the kernel: bad"},
		"the program stays":      {kernel: kernel{close: bad}, reads: 10, code: exitFindings, progress: "5 s", unread: "the end of the program: bad"},
		"no owners at the end":   {after: bad, reads: 10, code: exitFindings, progress: "5 s", unread: "the former ones are assumed: bad"},
		"no owners":              {before: bad, isNotOpened: true, err: "bad"},
		"container began again":  {now: other, reads: 10, code: exitError, progress: "5 s", changed: "4"},
		"the owner has ended":    {now: audit.Ownership{Pools: owned().Pools}, reads: 10, code: exitError, progress: "5 s", changed: "4"},
		"the program is refused": {kernel: kernel{opened: time.Unix(1, 0)}, isNotOpened: true, err: "live audit is unavailable; without --live, audit samples /proc"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), max(c.stop, time.Hour*map[bool]time.Duration{true: 1}[c.stop == 0]))
				defer cancel()
				var lines []string
				k, asked, isRefused := c.kernel, 0, !c.opened.IsZero()
				if !c.lone {
					k.watched = cpuset.Of(4)
				}
				r, err := liveAuditing{
					owners: func(ctx context.Context) (audit.Ownership, []string, error) {
						if asked++; asked == 1 {
							return owned(), []string{"twice"}, c.before
						}
						if ctx.Err() != nil {
							t.Error("the second query is not sent")
						}
						if c.now.Pools != nil || c.now.Places != nil {
							return c.now, []string{"twice"}, nil
						}
						return owned(), []string{"twice"}, c.after
					},
					open: func(cpus int) (watch, error) {
						if isRefused {
							return nil, schedwatch.ErrUnavailable
						}
						if cpus != 5 || asked != 1 {
							t.Errorf("open for %d CPUs after %d queries; want 5 after the first", cpus, asked)
						}
						k.opened = time.Now()
						return &k, nil
					},
					duration: 10 * time.Second,
					cost:     func() time.Duration { return time.Duration(k.reads) * time.Second },
					progress: func(line string) { lines = append(lines, line) },
				}.run(ctx)
				if c.err != "" {
					if err == nil || !strings.Contains(err.Error(), c.err) {
						t.Errorf("error %v; want %q", err, c.err)
					}
				} else if code, _ := errors.AsType[exitCode](liveResult(r)); err != nil || int(code) != c.code && c.code != exitError || c.code == exitError && (code != 0 || liveResult(r) == nil) {
					t.Errorf("report %+v, %v, %v; want exit code %d", r, err, liveResult(r), c.code)
				}
				if k.reads != c.reads && !isRefused || (k.closed == 1) == c.isNotOpened {
					t.Errorf("%d readings, closed %d times; want %d readings, opened: %t", k.reads, k.closed, c.reads, !c.isNotOpened)
				}
				if got := strings.Join(lines, "\n"); !strings.HasPrefix(got, c.progress) || c.progress == "" && got != "" {
					t.Errorf("progress %q; want %q", got, c.progress)
				}
				if c.err == "" && (!strings.Contains(strings.Join(r.Unread, "\n"), c.unread) || r.Changed.String() != c.changed || r.Cost != float64(c.reads)) {
					t.Errorf("unread %q, changed %s, cost %v; want %q, %s and %d", r.Unread, r.Changed, r.Cost, c.unread, c.changed, c.reads)
				}
			})
		})
	}
}

// TestLiveJoinedErrors checks that each of joined errors of the program has a line of its own, and that no
// error can control the terminal.
func TestLiveJoinedErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kernel{watched: cpuset.Of(4), own: errors.Join(
			errors.New("watch CPUs 5: stat a"), errors.Join(errors.New("watch CPUs 6: stat \x1b[2Jb"), fmt.Errorf("set: %w, %w", io.EOF, io.ErrClosedPipe)))}
		r, err := liveAuditing{
			owners: func(context.Context) (audit.Ownership, []string, error) { return owned(), nil, nil },
			open: func(int) (watch, error) {
				k.opened = time.Now()
				return &k, nil
			},
			duration: time.Second, cost: func() time.Duration { return 0 }, progress: func(string) {},
		}.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := "not read: watch CPUs 5: stat a\nnot read: watch CPUs 6: stat ?[2Jb\nnot read: set: EOF, io: read/write on closed pipe\n"
		if text := liveText(t, r); !strings.HasSuffix(text, want) {
			t.Errorf("text ends without\n%s\n%s", want, text)
		}
	})
}

// TestLiveNeedsOwners checks that a node without exclusive CPUs is an error.
func TestLiveNeedsOwners(t *testing.T) {
	a := liveAuditing{
		owners: func(context.Context) (audit.Ownership, []string, error) { return audit.Ownership{}, nil, nil },
		cost:   func() time.Duration { return 0 },
	}
	if _, err := a.run(t.Context()); err == nil || !strings.Contains(err.Error(), "no container and no unit has exclusive CPUs") {
		t.Errorf("audit without owners = %v; want an error", err)
	}
}

func TestLiveUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--live 0s":                  "--live 0s: write 1s to 24h0m0s",
		"--live -5s":                 "--live -5s: write 1s to 24h0m0s",
		"--live 25h":                 "--live 25h0m0s: write 1s to 24h0m0s",
		"--live 5s --ran":            "omit --ran",
		"--live 5s --duration 10s":   "omit --duration",
		"--live 5s --interval 100ms": "omit --interval",
		"--live x":                   "invalid",
	} {
		var stderr bytes.Buffer
		code := execute(t.Context(), streams{out: io.Discard, err: &stderr}, append([]string{"audit"}, strings.Fields(args)...))
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("audit %s: exit code %d, %s; want a usage error with %q", args, code, &stderr, want)
		}
	}
}

// liveRow returns a row of a task on the CPUs of du.
func liveRow(kind, command, cgroup string, seconds float64, n uint64, cpus ...int) livereport.Row {
	return livereport.Row{
		Total: livereport.Total{Kind: kind, Seconds: seconds, Switches: n}, Command: command, Cgroup: cgroup, CgroupID: 4711,
		Owner: audit.Owner{PoolName: audit.PoolName{Pool: "guaranteed"}, Pod: "ran/vdu-0", Name: "du", CPUs: cpuset.Of(cpus...)},
	}
}

// TestLiveGolden checks the text of a report, with hostile names, removed cgroups and owners
// without a name.
func TestLiveGolden(t *testing.T) {
	collector := liveRow("user", "collector", "kubepods.slice/x", 2.5, 1200, 4, 5, 9, 12, 14, 16, 18)
	collector.Pod, collector.Container = "telemetry/a-collector-with-a-long-name-7f9c-and-more", "collector"
	monitor := liveRow("user", "conmon", "kubepods.slice/y", 0.0001, 1, 4)
	monitor.Pod, monitor.Container = "ran/vdu-1", "(monitor)"
	free := liveRow("kernel_other", "kworker/u16:3", "/", 0.000001, 1, 6)
	free.Owner = audit.Owner{PoolName: audit.PoolName{Pool: "guaranteed"}, CPUs: cpuset.Of(6)}
	r := livereport.Report{
		Seconds: 30.01, Cost: 0.02, CPUs: cpuset.Of(4, 5, 6, 9, 12, 14, 16, 18), Watched: 240, Foreign: 2.5051, Share: new(1 - 2.5051/240),
		Owners: []livereport.OwnerShare{{}, {}},
		Kinds:  []livereport.Total{{Kind: "user", Seconds: 2.505, Switches: 1204}, {Kind: "kernel_bound", Seconds: 0.0125, Switches: 250}, {Kind: "kernel_other", Seconds: 0.0001, Switches: 2}, {Kind: "unknown"}},
		Tasks: []livereport.Row{
			collector,
			liveRow("user", "\x1b[2J\n\xff\u202e", "", 0.005, 1, 5),
			liveRow("user", "0123456789abcdef", "system.slice/system-a\nb.slice/a-service-with-a-long-name.service", 0.002, 2, 4),
			monitor,
			liveRow("unknown", "", "/", 0.0001, 1, 4),
			free,
			liveRow("kernel_bound", "ksoftirqd/*", "/", 0.0125, 250, 4, 5),
		},
		Changed: cpuset.Of(7), Unread: []string{"a\x1b[31m"},
		Probe: livereport.Probe{Mode: "btf", Runs: 123456, Seconds: 0.0123456},
	}
	golden(t, "auditlive", func(w io.Writer) error {
		printLive(w.(*layout.Writer), r)
		return nil
	})
}

// TestLiveRows checks that a table has at most 40 rows and counts the others.
func TestLiveRows(t *testing.T) {
	r := livereport.Report{Share: new(0.5), More: livereport.Total{Seconds: 1, Switches: 10}}
	for i := range 100 {
		r.Tasks = append(r.Tasks, liveRow("user", fmt.Sprint("x", i), "a", 0.5, 2, 4))
	}
	text := liveText(t, r)
	if n := strings.Count(text, "user task"); n != 40 || !strings.Contains(text, "\nand 60 more rows: 31.000s, with 130 switches; -o json has up to 4096 rows\n") {
		t.Errorf("%d rows; want 40, and a count of the others:\n%s", n, text)
	}
	r.Tasks = r.Tasks[:1]
	if text = liveText(t, r); !strings.Contains(text, "\nand tasks without a row: 1.000s, with 10 switches;") {
		t.Errorf("text lacks the tasks without a row:\n%s", text)
	}
	r.More = livereport.Total{}
	if text = liveText(t, r); strings.Contains(text, "\nand ") {
		t.Errorf("text counts more rows; want none:\n%s", text)
	}
}

// TestLiveText checks the text of reports without findings, and without a share.
func TestLiveText(t *testing.T) {
	const clean = `30.0 s on 2 exclusive CPUs (4-5) of 1 owner, which took 0.01 s of CPU time
eBPF program on sched_switch (tracepoint): 0 runs

No task of another owner ran there.
Share of exclusive CPU time without foreign tasks: 100 % (foreign tasks: 0.000ms of 60.0 s, with 0 switches)
The kernel's own threads that are bound to these CPUs do not count: 0.000ms, with 0 switches
`
	r := livereport.Report{Seconds: 30, Cost: 0.01, CPUs: cpuset.Range(4, 5), Watched: 60, Share: new(1.0), Owners: make([]livereport.OwnerShare, 1), Probe: livereport.Probe{Mode: "tracepoint"}}
	if d := gocmp.Diff(clean, liveText(t, r)); d != "" {
		t.Errorf("text (-want +got):\n%s", d)
	}
	r.Share, r.NoShare = nil, "no owner"
	if text := liveText(t, r); !strings.Contains(text, "\nno share: no owner\n") || strings.Contains(text, "Share of") {
		t.Errorf("text without a share:\n%s", text)
	}
	for share, want := range map[float64]string{1: "100 %", 1 - 1e-12: "<100 %", 0.99999996: "<100 %", 0.99999: "99.9990 %", 0: "0.0000 %"} {
		if got := percentage(100*share, 4) + " %"; got != want {
			t.Errorf("a share of %v = %q; want %q", share, got, want)
		}
	}
}

// TestLiveGuide checks that the guide shows the layout of a report.
func TestLiveGuide(t *testing.T) {
	const guide = "../../docs/how-to/prove-exclusivity.md"
	chronyd := liveRow("user", "chronyd", "system.slice/chrony.service", 0.000112, 1, 5)
	worker := liveRow("kernel_other", "kworker/u16:3", "/", 0.000031, 2, 8)
	worker.Owner.Pod, worker.Owner.Name = "", "du.service"
	r := livereport.Report{
		Seconds: 30, Cost: 0.04, CPUs: cpuset.Range(4, 9), Watched: 180, Foreign: 0.000143, Share: new(1 - 0.000143/180), Owners: make([]livereport.OwnerShare, 2),
		Kinds: []livereport.Total{{Kind: "user", Seconds: 0.000112, Switches: 1}, {Kind: "kernel_bound", Seconds: 0.00192, Switches: 118}, {Kind: "kernel_other", Seconds: 0.000031, Switches: 2}},
		Tasks: []livereport.Row{chronyd, worker, liveRow("kernel_bound", "ksoftirqd/*", "/", 0.00192, 118, 4, 5, 6, 7)},
		Probe: livereport.Probe{Mode: "btf", Runs: 61200, Seconds: 61200 * 95e-9},
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	if want := liveText(t, r); !strings.Contains(string(text), "```\n"+want+"```\n") {
		t.Errorf("%s does not contain\n%s", guide, want)
	}
}

func liveText(t *testing.T, r livereport.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := layout.Print(&out, func(w *layout.Writer) { printLive(w, r) }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
