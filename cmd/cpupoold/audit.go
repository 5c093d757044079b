package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/auditor"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Bounds of the flags of audit. An interval below a millisecond would show the audit
// itself.
const (
	minAuditInterval = time.Millisecond
	maxAuditDuration = 24 * time.Hour
)

// auditShare bounds what an audit takes of the machine: it rests three times as long as
// a look has taken, whatever the interval is.
const auditShare = 3

// ownersTimeout is the maximum time to read the owners of CPUs at the end, after a signal
// to stop.
const ownersTimeout = 20 * time.Second

func (a *app) audit() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "List tasks that run, or may run, on CPUs of other owners",
		Long: `Audit scans all tasks of the machine repeatedly, and the kernel's counts of interrupts. It
lists the tasks that ran on CPUs of another owner, and the tasks that may run there. It finds
the owners of CPUs as plan does, also without a running daemon. It writes nothing. It counts
kernel work for a CPU (ksoftirqd, migration, timer ticks, softirqs) separately, because the
kernel must do this work on that CPU.

The score is the share of the CPU time that no foreign task used. 100 means that no foreign
task ran. Audit cannot list a task that starts and ends between two scans, but counts
its time (UNSEEN). It does not sample interrupts: the kernel counts them.

A score needs two scans. An audit with a duration makes at least two, even if they take longer
than the duration. --duration 0s makes one scan, and no score.

--live 30s counts each task instead that the kernel ran on exclusive CPUs in that time, by an
eBPF program on the kernel's scheduler. It misses no task, however short. It needs root, or the
capabilities CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH. The end of the command removes the
program. A CPU counts if it keeps its owner during the audit.

A signal (Ctrl-C) ends the audit early. It then prints the findings of the scans so far. Exit
code 3 means that there are findings; with --ran, findings of tasks that ran; with --live, user
tasks and kernel threads that are not bound to their CPU. Exit code 1 means that a single scan
has no findings, because a signal ended the audit before the second. With --live, it means that
no exclusive CPU kept its owner.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	duration := c.Flags().Duration("duration", 10*time.Second, "time of the audit; 0 for one scan of the CPUs on which tasks may run, without a score")
	interval := c.Flags().Duration("interval", 100*time.Millisecond, "minimum pause between scans; longer if a scan takes long")
	ran := c.Flags().Bool("ran", false, "list only tasks that ran there, not tasks that may run there")
	live := c.Flags().Duration("live", 0, "time of a live audit, which counts each task on exclusive CPUs; without scans")
	c.RunE = func(c *cobra.Command, _ []string) error {
		isLive := c.Flags().Changed("live")
		if isLive {
			if err := checkLive(c, *live); err != nil {
				return err
			}
		}
		if *duration < 0 || *duration > maxAuditDuration {
			return usage.New(c, fmt.Errorf("--duration %v: write 0s to %v", *duration, maxAuditDuration))
		}
		if *ran && *duration == 0 {
			return usage.New(c, errors.New("--ran needs two scans: use --duration 1s or longer"))
		}
		if *interval < minAuditInterval || *interval > maxAuditDuration {
			return usage.New(c, fmt.Errorf("--interval %v: write %v to %v", *interval, minAuditInterval, maxAuditDuration))
		}
		cfg, t, err := a.load()
		if err != nil {
			return err
		}
		if isLive {
			return a.auditLive(c.Context(), *output, *live, cfg, t)
		}
		w, err := auditor.Open()
		if err != nil {
			return err
		}
		r, err := auditing{
			owners:   a.owners(cfg, t),
			watcher:  w,
			duration: *duration, interval: *interval, cost: processTime,
		}.run(c.Context())
		if err != nil {
			return err
		}
		if *ran {
			r = r.OnlyRan()
		}
		err = a.show(*output, r, func(w *layout.Writer) { printAudit(w, r) })
		return cmp.Or(err, auditResult(r, *duration))
	}
	return c
}

// auditResult returns the exit code of a report. A report without findings and without the
// requested score is an error.
func auditResult(r audit.Report, duration time.Duration) error {
	switch {
	case len(r.Findings) > 0:
		return exitCode(exitFindings)
	case duration > 0 && r.NoScore != "":
		return errors.New("no score: " + r.NoScore)
	}
	return nil
}

// readOwners returns the owners of CPUs, and the objects that could not be read.
type readOwners func(context.Context) (audit.Ownership, []string, error)

func (a *app) owners(cfg *config.Config, t *topology.Topology) readOwners {
	return func(ctx context.Context) (audit.Ownership, []string, error) {
		return preview.Owners(ctx, cfg, t, a.logger(cfg))
	}
}

// again returns the owners at the end of an audit, also after a signal to stop. Without an answer it
// returns the former owners.
func (read readOwners) again(ctx context.Context, before audit.Ownership) (audit.Ownership, []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownersTimeout)
	defer cancel()
	after, unread, err := read(ctx)
	if err != nil {
		return before, []string{"the present owners of CPUs are unknown, and the former ones are assumed: " + err.Error()}
	}
	return after, unread
}

// auditing is an audit of this machine, or of a test's fake.
type auditing struct {
	owners  readOwners
	watcher interface {
		Scan(o audit.Ownership, at uint64) error
		Evidence() (audit.Evidence, []string)
	}
	duration, interval time.Duration
	cost               func() time.Duration
}

// run looks until the time is over or ctx ends.
func (a auditing) run(ctx context.Context) (audit.Report, error) {
	before, unread, err := a.owners(ctx)
	if err != nil {
		return audit.Report{}, err
	}
	spent := a.cost()
	if err := a.scan(ctx, before); err != nil {
		return audit.Report{}, err
	}
	spent = a.cost() - spent
	e, missed := a.watcher.Evidence()
	unread = append(unread, missed...)

	after, more := a.owners.again(ctx, before)
	settled, changed := audit.Settled(before, after)
	r := audit.Evaluate(settled, e)
	r.Cost, r.Changed = spent.Seconds(), changed
	r.Unread = distinct(append(unread, more...))
	return r, nil
}

// scan scans once, and with a duration at least twice: a score needs two scans. The last scan
// begins at the end of the duration. A scan that takes longer than the duration is followed by
// the second one at once. A signal ends it after one scan more at most.
func (a auditing) scan(ctx context.Context, o audit.Ownership) error {
	began := time.Now()
	for scans := 1; ; scans++ {
		at := time.Since(began)
		if err := a.watcher.Scan(o, uint64(at)); err != nil {
			return err
		}
		left := max(a.duration-time.Since(began), 0)
		isOver := ctx.Err() != nil || left == 0 && (a.duration == 0 || scans > 1)
		if isOver { // a signal is no error
			return nil
		}
		rest := max(a.interval, auditShare*(time.Since(began)-at))
		select {
		case <-ctx.Done(): // one scan more
		case <-time.After(min(rest, left)):
		}
	}
}

func distinct(lines []string) (all []string) {
	said := make(map[string]bool)
	for _, l := range lines {
		if !said[l] {
			all = append(all, l)
		}
		said[l] = true
	}
	return all
}

func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func printAudit(w *layout.Writer, r audit.Report) {
	fmt.Fprintf(w, "%.1f s, %s of %d tasks, which took %.2f s of CPU time\n\n", r.Seconds, layout.Count(r.Scans, "scan"), r.Tasks, r.Cost)
	out := layout.NewTable("POOL OR OWNER", "CPUS", "SCORE", "OTHERS", "UNSEEN", "TASKS", "IRQS", "FIRED")
	for _, s := range r.Scores {
		name := inspect.FullPool(s.Pool, s.Type)
		if s.Name != "" {
			name = " " + path.Join(s.Pod, s.Name)
		}
		var rated, others, unseen string // empty without two scans
		if s.Score != nil {
			rated, others, unseen = percentage(*s.Score, 3), fmt.Sprintf("%.3fs", s.Others), fmt.Sprintf("%.2fs", s.Unseen)
		}
		out.Row(layout.Middle(name, 24), layout.Middle(s.CPUs.String(), 9), rated, others, unseen, fmt.Sprint(s.ExposedTasks), fmt.Sprint(s.ExposedInterrupts), fmt.Sprint(s.DeviceInterrupts))
	}
	if len(r.Scores) == 0 {
		out.Row("-", "-", "-", "-", "-", "-", "-", "-")
	}
	w.Table(out)
	if r.NoScore != "" {
		w.Paragraph("no score: " + r.NoScore)
	}
	printFound(w, r.Findings)
	printKernel(w, r.Kernel)
	if !r.Changed.IsEmpty() {
		fmt.Fprintf(w, "CPUs %s got other owners during the audit and were not examined\n", r.Changed)
	}
	printUnread(w, r.Unread)
}

func printFound(w *layout.Writer, found []audit.Finding) {
	if len(found) == 0 {
		fmt.Fprintln(w, "\nNo task was found on CPUs of another owner.")
		return
	}
	ran := slices.IndexFunc(found, func(f audit.Finding) bool { return f.Ran.IsEmpty() }) // tasks that were only allowed come last
	if ran < 0 {
		ran = len(found)
	}
	for _, part := range []struct {
		title, unit string
		of          []audit.Finding
	}{{"Ran on CPUs of another owner:", "RAN", found[:ran]}, {"Was allowed to:", "RAN", found[ran:]}} {
		if len(part.of) == 0 {
			continue
		}
		fmt.Fprintln(w, "\n"+part.title)
		out := layout.NewTable("RUNS IN", "TASK", "CPUS", part.unit, "OWNER")
		for _, f := range part.of {
			cpus, amount := f.Ran, fmt.Sprintf("%.3fs", f.RanSeconds)
			switch {
			case f.Kind == audit.Interrupt:
				amount = fmt.Sprintf("%d times", f.Count)
			case f.Ran.IsEmpty():
				cpus, amount = f.Allowed, ""
			}
			out.Row(layout.Middle(placeOf(f), 24), layout.Middle(tasks(f), 16), layout.Middle(cpus.String(), 9), amount, layout.Middle(ownerName(f.Owner), 15))
		}
		w.Table(out)
	}
}

// printKernel prints a line for each owner.
func printKernel(w *layout.Writer, works []audit.KernelWork) {
	if len(works) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWork of the kernel that cannot be moved, by the owner of the CPUs:")
	out := layout.NewTable("OWNER", "THREADS", "RAN", "SOFTIRQS", "INTERRUPTS")
	for len(works) > 0 {
		o := works[0].Owner
		end := slices.IndexFunc(works, func(w audit.KernelWork) bool { return w.Owner.Pod != o.Pod || w.Owner.Name != o.Name })
		if end < 0 {
			end = len(works)
		}
		threads, ran, softirqs := 0, 0.0, uint64(0)
		var interrupts []audit.KernelWork
		for _, work := range works[:end] {
			threads += work.Tasks
			ran += work.Seconds
			switch work.Class {
			case "softirq":
				softirqs += work.Count
			case "interrupt":
				interrupts = append(interrupts, work)
			}
		}
		slices.SortStableFunc(interrupts, func(a, b audit.KernelWork) int { return cmp.Compare(b.Count, a.Count) })
		var most []string
		for _, work := range interrupts[:min(len(interrupts), 3)] {
			most = append(most, fmt.Sprintf("%s %d", work.Name, work.Count))
		}
		out.Row(layout.Middle(ownerName(o), 24), fmt.Sprint(threads), fmt.Sprintf("%.3fs", ran), fmt.Sprint(softirqs), layout.Middle(strings.Join(most, ", "), 26))
		works = works[end:]
	}
	w.Table(out)
}

func placeOf(f audit.Finding) string {
	// The names of cgroups in a pod that belong to no container (desired.Settings.Ownership).
	noContainer := map[string]string{"(monitor)": "conmon of ", "(sandbox)": "VM of ", "(other)": "in "}
	switch {
	case f.Pod != "" && noContainer[f.Container] != "":
		return noContainer[f.Container] + f.Pod
	case f.Pod != "":
		return f.Pod + "/" + f.Container
	case f.Unit != "":
		return f.Unit
	case f.Kind == audit.Process:
		return "/" + f.Cgroup
	case f.Kind == audit.Interrupt:
		return "interrupt"
	}
	return "kernel"
}

// tasks names the tasks of a finding, a single one with its number.
func tasks(f audit.Finding) string {
	switch {
	case f.Kind == audit.Interrupt:
		return strings.TrimPrefix(f.Name, "IRQ ")
	case f.TaskCount == 1:
		return fmt.Sprintf("%s[%d]", layout.Middle(f.Name, 10), f.Tasks[0].TID)
	}
	return fmt.Sprintf("%s ×%d", layout.Middle(f.Name, 12), f.TaskCount)
}

// percentage formats a percentage, which is 100 only without any foreign task.
func percentage(p float64, digits int) string {
	text := strconv.FormatFloat(p, 'f', digits, 64)
	switch {
	case !strings.HasPrefix(text, "100"):
		return text
	case p < 100:
		return "<100"
	}
	return "100"
}
