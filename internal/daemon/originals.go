package daemon

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// kernelFile returns the file of the cgroup that a write ends in, by whichever
// way it goes.
func kernelFile(w cgroup.Write) string {
	switch w.Property {
	case cgroup.CRICPUs, cgroup.UnitCPUs:
		return cgroup.FileCPUs
	case cgroup.CRIMems, cgroup.UnitMems:
		return cgroup.FileMems
	case cgroup.UnitWeight:
		return cgroup.FileWeight
	case cgroup.UnitQuota:
		return cgroup.FileMax
	}
	return w.Property
}

// original is what a write is about to replace, as the kernel prints it.
func original(w cgroup.Write, c cgroup.Current) Original {
	o := Original{Path: w.Path, File: kernelFile(w), Container: w.Container}
	switch o.File {
	case cgroup.FileCPUs:
		o.Value = c.CPUs.String()
		if !c.Exists {
			o.Value = c.Recorded.String()
		}
	case cgroup.FileMems:
		o.Value = c.Mems.String()
		if !c.Exists {
			o.Value = c.RecordedMems.String()
		}
	case cgroup.FileWeight:
		o.Value = strconv.FormatUint(c.Weight, 10)
	case cgroup.FileMax:
		o.Value = maxValue(c.Quota, c.Period)
	}
	return o
}

// unitOriginal is the property of a systemd unit that a write is about to replace,
// whichever way it goes: systemd has set the file by it, or will.
func unitOriginal(w cgroup.Write, unit string, st cgroup.UnitState) Original {
	o := Original{Path: w.Path, File: kernelFile(w), Unit: unit}
	switch o.File {
	case cgroup.FileCPUs:
		o.Value = st.CPUs.String()
	case cgroup.FileMems:
		o.Value = st.Mems.String()
	case cgroup.FileWeight:
		o.Value = weightValue(st.Weight)
	}
	return o
}

// weightValue is a unit's weight in text, empty if it is not set.
func weightValue(w uint64) string {
	if w == 0 {
		return ""
	}
	return strconv.FormatUint(w, 10)
}

// unlimited is what cpu.max is where nobody has asked for a quota.
const unlimited = cgroup.ValueMax + " 100000"

// maxValue is cpu.max as the kernel prints it.
func maxValue(quota, period int64) string {
	if quota < 0 {
		return fmt.Sprintf("%s %d", cgroup.ValueMax, period)
	}
	return fmt.Sprintf("%d %d", quota, period)
}

// noteOriginals records what the writes will replace, before the first of them.
func (l *loop) noteOriginals(writes []cgroup.Write) {
	for _, w := range writes {
		c := l.tree.current[w.Path.Scope()]
		if c.Inner != nil && w.Path == c.Inner.Path {
			c = cgroup.Current{State: *c.Inner, Exists: true}
		}
		if name := l.model.unitAt(w.Path); name != "" {
			l.ledger.note(unitOriginal(w, l.model.unitName(name), c.Unit))
			continue
		}
		l.ledger.note(original(w, c))
	}
}

// save hands the journal to a worker if it has changed. Only one save is under
// way at a time; what changes meanwhile goes into the next.
func (l *loop) save(now time.Time) {
	if l.observes || l.ledger.sent > l.ledger.durable || l.ledger.changes == l.ledger.durable || now.Before(l.status.journalRetry) {
		return
	}
	upTo, j := l.ledger.changes, l.ledger.journal()
	l.ledger.sent, l.ledger.outdated = upTo, false
	if !l.ledger.safe() {
		l.timers.journal.Reset(journalPatience)
	}
	l.disk.submit("journal", func(context.Context) event {
		sortOriginals(j.Originals)
		return saved{upTo: upTo, err: errors.Join(journalMark(l.files, j.BootID).Leave(), SaveJournal(l.journal, j))}
	})
}

func (l *loop) onSaved(e saved) {
	if e.err != nil {
		l.log.Error("journal not written; writes go ahead, and what they replace may not be known to restore", "journal", l.journal, "error", e.err)
		l.ledger.sent = l.ledger.durable
		l.status.journalLate, l.status.journalErr = true, e.err // nobody waits for it
		l.status.journalRetry = time.Now().Add(journalPause)
		l.timers.journal.Stop() // the disk has answered
		return
	}
	l.ledger.durable = e.upTo
	if l.ledger.safe() {
		l.status.journalLate = false
		l.timers.journal.Stop()
	}
}

// codeJournal is the code of a journal that is not written.
const codeJournal pools.Code = "JournalNotWritten"

var errSlowDisk = errors.New("the disk does not answer")

// journalProblems says that undo is at risk.
func (l *loop) journalProblems() []pools.Problem {
	if !l.status.journalLate {
		return nil
	}
	return []pools.Problem{{Reason: pools.Reason{Code: codeJournal, Text: fmt.Sprintf(
		"journal %s: %s; `cpupoold restore` may not know what the daemon replaces meanwhile. Make room on the disk, or repair it",
		l.journal, l.status.journalErr)}}}
}

// journalPause is how long a journal that could not be written is left alone.
const journalPause = 5 * time.Second
