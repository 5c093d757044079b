package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// eyes take some time for each look.
type eyes struct {
	looks int
	takes time.Duration
	fails error
}

func (e *eyes) Scan(audit.Ownership, uint64) error {
	e.looks++
	time.Sleep(e.takes) //nolint:forbidigo // the bubble's clock
	return e.fails
}

func (e *eyes) Evidence() (audit.Evidence, []string) {
	return audit.Evidence{Scans: e.looks, Tasks: []audit.Task{{Reading: audit.Reading{TID: 1, Comm: "hog"}, PID: 1, Leader: "hog", Allowed: cpuset.Of(4)}}}, []string{"twice"}
}

func owned() audit.Ownership {
	return audit.Ownership{Pools: []audit.Pool{{PoolName: audit.PoolName{Pool: "guaranteed"}, CPUs: cpuset.Range(4, 7)}}, Places: []audit.Place{{PoolName: audit.PoolName{Pool: "guaranteed"}, Name: "du", Cgroup: "du", CPUs: cpuset.Of(4), Exclusive: true}}}
}

func TestAuditing(t *testing.T) {
	for name, c := range map[string]struct {
		takes, stop time.Duration // of each scan; the time of a signal
		looks       int
	}{
		"quick looks":     {0, time.Hour, 101},
		"slow looks":      {100 * time.Millisecond, time.Hour, 26}, // rest three times as long
		"a slow second":   {4500 * time.Millisecond, time.Hour, 2}, // ends after the duration
		"longer scans":    {11 * time.Second, time.Hour, 2},        // each takes longer than the duration
		"stopped at once": {0, 0, 1},
		"stopped":         {0, 2050 * time.Millisecond, 22},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.stop)
				defer cancel()
				asked := 0
				see := &eyes{takes: c.takes}
				r, err := auditing{
					owners: func(ctx context.Context) (audit.Ownership, []string, error) {
						if asked++; ctx.Err() != nil && asked > 1 {
							t.Error("the second query is not sent")
						}
						return owned(), []string{"twice"}, nil
					},
					watcher: see, duration: 10 * time.Second, interval: 100 * time.Millisecond,
					cost: func() time.Duration { return time.Duration(asked*see.looks) * time.Second },
				}.run(ctx)
				if err != nil || r.Scans != c.looks || len(r.Findings) != 1 || asked != 2 || r.Cost != float64(c.looks) {
					t.Errorf("report %+v, %v; want %d scans, and the findings", r, err, c.looks)
				}
				if d := cmp.Diff([]string{"twice"}, r.Unread); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// TestAuditingWithoutOwners checks an audit without owners from the daemon. The first audit
// without them has no findings. A later one keeps the earlier owners.
func TestAuditingWithoutOwners(t *testing.T) {
	answers := []error{nil, errors.New("no runtime")}
	a := auditing{
		owners: func(context.Context) (audit.Ownership, []string, error) {
			err := answers[0]
			answers = answers[1:]
			return owned(), nil, err
		},
		watcher: &eyes{}, interval: time.Second, cost: func() time.Duration { return 0 },
	}
	r, err := a.run(t.Context())
	if err != nil || len(r.Findings) != 1 || len(r.Unread) != 2 || !strings.Contains(r.Unread[1], "no runtime") {
		t.Errorf("report %+v, %v", r, err)
	}
	answers = []error{errors.New("no runtime")}
	if r, err = a.run(t.Context()); err == nil || len(r.Findings) > 0 {
		t.Errorf("without owners: %+v, %v", r, err)
	}
	answers, a.watcher = []error{nil}, &eyes{fails: errors.New("no process")}
	if _, err = a.run(t.Context()); err == nil {
		t.Error("audit without processes = no error; want one")
	}
}

// TestAuditResult checks the exit codes of reports: one scan does not give a score.
func TestAuditResult(t *testing.T) {
	for name, c := range map[string]struct {
		scans    int
		found    bool
		duration time.Duration
		code     int
		err      bool
	}{
		"two scans, no findings":       {2, false, time.Second, 0, false},
		"two scans, findings":          {2, true, time.Second, exitFindings, false},
		"one scan, no findings":        {1, false, time.Second, 0, true},
		"one scan, findings":           {1, true, time.Second, exitFindings, false},
		"one scan requested":           {1, false, 0, 0, false},
		"one scan requested, findings": {1, true, 0, exitFindings, false},
	} {
		e := audit.Evidence{Scans: c.scans, Elapsed: uint64(c.scans-1) * 1e9}
		if c.found {
			e.Tasks = []audit.Task{{Reading: audit.Reading{TID: 1, Comm: "hog"}, PID: 1, Leader: "hog", Allowed: cpuset.Of(4)}}
		}
		err := auditResult(audit.Evaluate(owned(), e), c.duration)
		code, _ := errors.AsType[exitCode](err)
		if int(code) != c.code || (err != nil && code == 0) != c.err {
			t.Errorf("%s: %v; want exit code %d, an error: %t", name, err, c.code, c.err)
		}
		if c.err && !strings.Contains(err.Error(), "--duration 1s") {
			t.Errorf("%s: %v; want the remedy", name, err)
		}
	}
	var stderr bytes.Buffer
	if code := execute(t.Context(), streams{out: &stderr, err: &stderr}, []string{"audit", "--ran", "--duration", "0s"}); code != exitUsage || !strings.Contains(stderr.String(), "--ran needs two scans") {
		t.Errorf("--ran with one scan: exit code %d, %s; want a usage error", code, &stderr)
	}
}

func TestPrintAudit(t *testing.T) {
	guaranteed := audit.PoolName{Pool: "guaranteed"}
	du := audit.Owner{PoolName: guaranteed, Pod: "ran/vdu-0", Name: "du", CPUs: cpuset.Range(4, 5)}
	r := audit.Report{
		Seconds: 10, Scans: 97, Tasks: 1234, Cost: 0.5,
		Scores: []audit.Score{
			{PoolName: guaranteed, CPUs: cpuset.Range(4, 5), Score: new(99.99999), Others: 0.0001, ExposedTasks: 12, ExposedInterrupts: 1, DeviceInterrupts: 40},
			{PoolName: guaranteed, Pod: "ran/vdu-0", Name: "du", CPUs: cpuset.Range(4, 5), Score: new(87.5), Others: 2.5, Unseen: 0.25},
			{PoolName: audit.PoolName{Pool: "management", Type: "radio"}, CPUs: cpuset.Of(0, 2, 4, 6, 8, 10, 12, 14), Score: new(100.0)},
		},
		Findings: []audit.Finding{
			{Kind: audit.Process, Pod: "telemetry/a-collector-with-a-long-name-7f9c", Container: "collector", Name: "collector-thread", Owner: du, Ran: cpuset.Of(5), RanSeconds: 2.5, TaskCount: 12},
			{Kind: audit.Interrupt, Name: "IRQ 25 virtio0-input.0", Owner: du, Ran: cpuset.Of(4), Count: 40},
			{Kind: audit.Process, Unit: "chronyd.service", Name: "chronyd", Owner: du, Allowed: cpuset.Range(4, 5), TaskCount: 1, Tasks: []audit.TaskFinding{{PID: 812, TID: 812}}},
			{Kind: audit.Process, Pod: "ran/vdu-1", Container: "(monitor)", Name: "conmon", Owner: du, Allowed: cpuset.Range(4, 5), TaskCount: 1, Tasks: []audit.TaskFinding{{PID: 900, TID: 900}}},
			{Kind: audit.Thread, Name: "kthreadd", Owner: du, Allowed: cpuset.Range(4, 5), TaskCount: 1, Tasks: []audit.TaskFinding{{PID: 2, TID: 2}}},
		},
		Kernel: []audit.KernelWork{
			{Owner: du, Class: "interrupt", Name: "LOC", Count: 2510}, {Owner: du, Class: "interrupt", Name: "RES", Count: 3},
			{Owner: du, Class: "per-cpu-kernel-thread", Tasks: 14, Seconds: 0.0125}, {Owner: du, Class: "softirq", Name: "TIMER", Count: 2000},
		},
		Changed: cpuset.Of(7), Unread: []string{"11/task: permission denied"},
	}
	const want = `10.0 s, 97 scans of 1234 tasks, which took 0.50 s of CPU time

POOL OR OWNER     CPUS       SCORE   OTHERS  UNSEEN  TASKS  IRQS  FIRED
guaranteed        4-5        <100    0.000s  0.00s   12     1     40
 ran/vdu-0/du     4-5        87.500  2.500s  0.25s   0      0     0
management/radio  0,2,…2,14  100     0.000s  0.00s   0      0     0

Ran on CPUs of another owner:
RUNS IN                   TASK              CPUS  RAN       OWNER
telemetry/a…9c/collector  colle…thread ×12  5     2.500s    ran/vdu-0/du
interrupt                 25 virt…-input.0  4     40 times  ran/vdu-0/du

Was allowed to:
RUNS IN              TASK          CPUS  RAN  OWNER
chronyd.service      chronyd[812]  4-5   -    ran/vdu-0/du
conmon of ran/vdu-1  conmon[900]   4-5   -    ran/vdu-0/du
kernel               kthreadd[2]   4-5   -    ran/vdu-0/du

Work of the kernel that cannot be moved, by the owner of the CPUs:
OWNER         THREADS  RAN     SOFTIRQS  INTERRUPTS
ran/vdu-0/du  14       0.013s  2000      LOC 2510, RES 3
CPUs 7 got other owners during the audit and were not examined
not read: 11/task: permission denied
`
	var out bytes.Buffer
	if err := layout.Print(&out, func(w *layout.Writer) { printAudit(w, r) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("columns of a line = %d; want at most 80: %s", n, line)
		}
	}
	out.Reset()
	once := audit.Evaluate(owned(), audit.Evidence{Scans: 1, Count: 272})
	const noScore = `0.0 s, 1 scan of 272 tasks, which took 0.00 s of CPU time

POOL OR OWNER  CPUS  SCORE  OTHERS  UNSEEN  TASKS  IRQS  FIRED
guaranteed     4     -      -       -       0      0     0
 du            4     -      -       -       0      0     0
no score: a score is about the time between two scans, and this audit has made 1; use --duration 1s or longer, and let the audit end

No task was found on CPUs of another owner.
`
	if err := layout.Print(&out, func(w *layout.Writer) { printAudit(w, once) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(noScore, out.String()); diff != "" {
		t.Errorf("one scan (-want +got):\n%s", diff)
	}
	var text bytes.Buffer
	if err := document.Write(&text, once); err != nil || strings.Contains(text.String(), `"score"`) || !strings.Contains(text.String(), `"noScore": "a score is about`) {
		t.Errorf("one scan as JSON: %v, %s", err, &text)
	}
	out.Reset()
	if err := layout.Print(&out, func(w *layout.Writer) { printAudit(w, audit.Report{}) }); err != nil || !strings.Contains(out.String(), "No task was found") {
		t.Errorf("without findings: %v, %s", err, &out)
	}
}
