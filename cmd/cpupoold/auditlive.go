package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/livereport"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

const (
	// minLiveDuration is the shortest live audit. It is as long as the pause between readings.
	minLiveDuration = time.Second
	// liveInterval is the time between readings. The kernel keeps 4,096 rows between them.
	liveInterval = time.Second
	// maxFirstFailures is the number of failed readings after which an audit without any reading ends.
	maxFirstFailures = 3
	// liveProgress is the time between two lines of progress on a terminal.
	liveProgress = 5 * time.Second
	// maxLiveRows is the number of rows that the table shows. Tenants choose the names of commands.
	maxLiveRows = 40
	// maxCommand is the length of the kernel's names of tasks (TASK_COMM_LEN without the end).
	maxCommand = 15
)

func checkLive(c *cobra.Command, live time.Duration) error {
	if live < minLiveDuration || live > maxAuditDuration {
		return usage.New(c, fmt.Errorf("--live %v: write %v to %v", live, minLiveDuration, maxAuditDuration))
	}
	for _, name := range []string{"duration", "interval", "ran"} {
		if c.Flags().Changed(name) {
			return usage.New(c, fmt.Errorf("--live is the duration of a live audit, which makes no scans: omit --%s", name))
		}
	}
	return nil
}

func (a *app) auditLive(ctx context.Context, as format, duration time.Duration, cfg *config.Config, t *topology.Topology) error {
	r, err := liveAuditing{
		owners: a.owners(cfg, t),
		open: func(cpus int) (watch, error) {
			return schedwatch.Open(kernelfs.CgroupRoot, cpus)
		},
		duration: duration, cost: processTime, progress: a.terminalLine,
	}.run(ctx)
	if err != nil {
		return err
	}
	return cmp.Or(a.show(as, r, func(w *layout.Writer) { printLive(w, r) }), liveResult(r))
}

// liveResult returns the exit code of a report. A report without a share is an error, as a
// sampled audit without a score.
func liveResult(r livereport.Report) error {
	switch {
	case slices.ContainsFunc(r.Kinds, livereport.Total.IsForeign):
		return exitCode(exitFindings)
	case r.NoShare != "":
		return errors.New("no share: " + r.NoShare)
	}
	return nil
}

// terminalLine prints a line on the standard error if that is a terminal.
func (a *app) terminalLine(line string) {
	if f := a.terminal(); f != nil {
		_, _ = fmt.Fprintln(f, line)
	}
}

// watch is the part of [schedwatch.Program] that a live audit uses.
type watch interface {
	Own(owners []schedwatch.Owner) (watched cpuset.Set, err error)
	EnableStatistics() error
	Read() (schedwatch.Reading, error)
	Close() error
}

// liveAuditing is a live audit of this machine, or of a test's fake.
type liveAuditing struct {
	owners   readOwners
	open     func(cpus int) (watch, error)
	duration time.Duration
	cost     func() time.Duration
	progress func(string)
}

// run watches until the time is over or ctx ends. It begins with the present owners, and
// compares them with the owners at the end.
func (a liveAuditing) run(ctx context.Context) (r livereport.Report, err error) {
	before, unread, err := a.owners(ctx)
	if err != nil {
		return r, err
	}
	owners := livereport.Owners(before)
	if len(owners) == 0 {
		return r, errors.New("no container and no unit has exclusive CPUs, so there is nothing to watch; `cpupoold status` lists the pools")
	}
	var cpus cpuset.Set
	for _, o := range owners {
		cpus = cpus.Union(o.CPUs)
	}
	spent := a.cost()
	w, err := a.open(cpus.Last() + 1)
	if err != nil {
		return r, fmt.Errorf("%w; without --live, audit samples /proc", err)
	}
	defer func() {
		closed := w.Close()
		if closed != nil && err == nil { // the report is complete
			r.Unread = append(r.Unread, "the end of the program: "+strings.Join(texts(usage.Each(closed)), "; "))
			return
		}
		err = errors.Join(err, closed)
	}()
	if err := w.EnableStatistics(); err != nil {
		unread = append(unread, "the run time of the program: "+err.Error())
	}
	watched, err := w.Own(owners)
	unread = append(unread, texts(usage.Each(err))...)
	if watched.IsEmpty() {
		return r, errors.Join(errors.New("no exclusive CPU can be watched; repeat the audit when the containers run"), err)
	}
	var c livereport.Collector
	took, failed, err := a.watch(ctx, w, &c)
	if err != nil {
		return r, err
	}
	unread = append(unread, failed...)
	spent = a.cost() - spent

	after, more := a.owners.again(ctx, before)
	r = c.Report(before, after)
	r.Seconds, r.Cost = took.Seconds(), spent.Seconds()
	r.Unread = distinct(append(unread, more...))
	return r, nil
}

func texts(errs []error) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

// watch reads the counts until the time is over or ctx ends: a signal is no error. It returns
// the time up to the last reading that did not fail, and describes those that failed. The next reading has their counts and rows.
func (a liveAuditing) watch(ctx context.Context, w watch, c *livereport.Collector) (took time.Duration, unread []string, err error) {
	began := time.Now()
	failures := 0
	var failed error
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	end := time.NewTimer(a.duration)
	defer end.Stop()
	for shown := began; ; {
		select {
		case <-tick.C:
		case <-end.C:
		case <-ctx.Done():
		}
		isOver := ctx.Err() != nil || time.Since(began) >= a.duration
		reading, err := w.Read()
		if err == nil {
			c.Add(reading)
			took = time.Since(began)
		} else {
			failures, failed = failures+1, fmt.Errorf("read the counts of the kernel: %w", err)
		}
		switch {
		case took == 0 && (isOver || failures == maxFirstFailures):
			return 0, nil, failed
		case isOver && failures > 0:
			return took, []string{fmt.Sprintf("%s failed: %v", layout.Count(failures, "reading"), failed)}, nil
		case isOver:
			return took, nil, nil
		}
		if err == nil && time.Since(shown) >= liveProgress {
			shown = time.Now()
			a.progress(liveLine(reading, took, a.duration))
		}
	}
}

func liveLine(r schedwatch.Reading, took, of time.Duration) string {
	var sum schedwatch.Count
	for i := range r.CPUs {
		for kind, n := range r.CPUs[i].Foreign {
			if schedwatch.Kind(kind) != schedwatch.BoundKernel {
				sum.Time += n.Time
				sum.Switches += n.Switches
			}
		}
	}
	return fmt.Sprintf("%.0f s of %.0f s: foreign tasks ran for %s, with %s", took.Seconds(), of.Seconds(), brief(sum.Time.Seconds()), switches(sum.Switches))
}

func printLive(w *layout.Writer, r livereport.Report) {
	w.Paragraph(fmt.Sprintf("%.1f s on %s (%s) of %s, which took %.2f s of CPU time", r.Seconds,
		layout.Count(r.CPUs.Len(), "exclusive CPU"), list(r.CPUs), layout.Count(len(r.Owners), "owner"), r.Cost))
	runs := fmt.Sprintf("eBPF program on sched_switch (%s): %d runs", r.Probe.Mode, r.Probe.Runs)
	if r.Probe.Runs > 0 {
		runs += fmt.Sprintf(" of %.0f ns", 1e9*r.Probe.Seconds/float64(r.Probe.Runs))
	}
	w.Paragraph(runs)
	printLiveTasks(w, r)
	foreign, own := livereport.Total{}, livereport.Total{}
	for _, k := range r.Kinds {
		to := &own
		if k.IsForeign() {
			to = &foreign
		}
		to.Seconds += k.Seconds
		to.Switches += k.Switches
	}
	if r.Share == nil {
		w.Paragraph("no share: " + r.NoShare)
	} else {
		w.Paragraph(fmt.Sprintf("Share of exclusive CPU time without foreign tasks: %s (foreign tasks: %s of %.1f s, with %s)", percentage(100**r.Share, 4)+" %", brief(foreign.Seconds), r.Watched, switches(foreign.Switches)))
		w.Paragraph(fmt.Sprintf("The kernel's own threads that are bound to these CPUs do not count: %s, with %s", brief(own.Seconds), switches(own.Switches)))
	}
	if !r.Changed.IsEmpty() {
		w.Paragraph(fmt.Sprintf("CPUs %s got other owners during the audit, or the owner's cgroup was replaced. They were not examined.", r.Changed))
	}
	printUnread(w, r.Unread)
}

// printLiveTasks prints the first rows of a report, and counts the others.
func printLiveTasks(w *layout.Writer, r livereport.Report) {
	if len(r.Tasks) == 0 && r.More == (livereport.Total{}) {
		fmt.Fprintln(w, "\nNo task of another owner ran there.")
		return
	}
	fmt.Fprintln(w)
	out := layout.NewTable("CPU", "OWNER", "KIND", "COMMAND", "CGROUP", "SWITCHES", "TIME")
	more, rows := r.More, max(len(r.Tasks)-maxLiveRows, 0)
	for i, t := range r.Tasks {
		if i >= maxLiveRows {
			more.Seconds += t.Seconds
			more.Switches += t.Switches
			continue
		}
		out.Row(list(t.Owner.CPUs), layout.Middle(ownerName(t.Owner), 40), kindText(t.Kind), layout.Clip(t.Command, maxCommand), cgroupOf(t), fmt.Sprint(t.Switches), brief(t.Seconds))
	}
	w.Table(out)
	if more != (livereport.Total{}) {
		text := "tasks without a row"
		if rows > 0 {
			text = layout.Count(rows, "more row")
		}
		fmt.Fprintf(w, "and %s: %s, with %s; -o json has up to 4096 rows\n", text, brief(more.Seconds), switches(more.Switches))
	}
	fmt.Fprintln(w)
}

func list(cpus cpuset.Set) string { return layout.Middle(cpus.String(), 12) }

func ownerName(o audit.Owner) string {
	return cmp.Or(path.Join(o.Pod, o.Name), inspect.FullPool(o.Pool, o.Type))
}

func kindText(kind string) string {
	switch kind {
	case "user":
		return "user task"
	case "kernel_bound":
		return "bound thread"
	case "kernel_other":
		return "kernel thread"
	}
	return kind
}

// cgroupOf returns the container of a row, or its cgroup.
func cgroupOf(t livereport.Row) string {
	switch {
	case t.Pod != "":
		return layout.Middle(placeOf(audit.Finding{Pod: t.Pod, Container: t.Container}), 40)
	case t.Cgroup == "":
		return fmt.Sprintf("removed, number %d", t.CgroupID)
	}
	return layout.Middle("/"+strings.TrimPrefix(t.Cgroup, "/"), 40)
}

// brief formats seconds. Less than a second is in milliseconds, because a finding can be short.
func brief(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.3fms", 1e3*s)
	}
	return fmt.Sprintf("%.3fs", s)
}

func switches(n uint64) string {
	if n == 1 {
		return "1 switch"
	}
	return fmt.Sprintf("%d switches", n)
}
