package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/auditor"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/usage"
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

// ownersPatience is the maximum time to read the owners of CPUs at the end, after a signal
// to stop.
const ownersPatience = 20 * time.Second

func (a *app) audit() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "List tasks that run, or may run, on CPUs of other owners",
		Long: `Audit scans all tasks of the machine for a while, and the kernel's counts of interrupts. It
lists the tasks that ran on CPUs of another owner, and the tasks that may run there. It finds
the owners of CPUs as plan does, whether or not a daemon runs. It writes nothing. It counts
the kernel's own work for a CPU (ksoftirqd, migration, timer ticks, softirqs) apart, because
the kernel does it on the CPU that causes it.

The score is the share of the CPU time that no foreign task used. 100 means that no foreign
task ran. Audit does not see a task that comes and goes between two scans, but counts its
time (UNSEEN). It does not sample interrupts: the kernel counts them.

A score needs two scans. An audit with a duration makes two, also if they take longer than the
duration. With --duration 0s there is one scan and no score.

A signal (Ctrl-C) ends the audit early. It then prints the findings of the scans so far. Exit
code 3 means that there are findings; with --ran, findings of tasks that ran. Exit code 1 means
that a single scan has no findings, because a signal ended the audit before the second.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	duration := c.Flags().Duration("duration", 10*time.Second, "time of the audit; 0 for one scan of the CPUs on which tasks may run, without a score")
	interval := c.Flags().Duration("interval", 100*time.Millisecond, "minimum pause between scans; longer if a scan takes long")
	ran := c.Flags().Bool("ran", false, "list only tasks that ran there, not tasks that may")
	c.RunE = func(c *cobra.Command, _ []string) error {
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
		w, err := auditor.Open()
		if err != nil {
			return err
		}
		r, err := auditing{
			owners: func(ctx context.Context) (audit.Ownership, []string, error) {
				return preview.Owners(ctx, cfg, t, a.logger(cfg))
			},
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

// auditing is an audit of this machine, or of a test's fake.
type auditing struct {
	owners  func(context.Context) (audit.Ownership, []string, error)
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

	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownersPatience)
	defer cancel()
	after, more, err := a.owners(asking)
	if err != nil {
		after = before
		more = []string{"the present owners of CPUs are unknown, and the former ones are assumed: " + err.Error()}
	}
	settled, changed := audit.Settled(before, after)
	r := audit.Judge(settled, e)
	r.Cost, r.Changed = spent.Seconds(), changed
	r.Unread = distinct(append(unread, more...))
	return r, nil
}

// ended reports whether the command must end. Its end is no error.
func ended(ctx context.Context) bool { return ctx.Err() != nil }

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
		if ended(ctx) || left == 0 && (a.duration == 0 || scans > 1) {
			return nil
		}
		rest := max(a.interval, auditShare*(time.Since(began)-at))
		select {
		case <-ctx.Done(): // one scan more
		case <-time.After(min(rest, left)):
		}
	}
}

// distinct removes repeated lines.
func distinct(lines []string) []string {
	var all []string
	said := make(map[string]bool)
	for _, l := range lines {
		if !said[l] {
			all = append(all, l)
		}
		said[l] = true
	}
	return all
}

// processTime is the CPU time of this process.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
