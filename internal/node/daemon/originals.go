package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// noteOriginals records what the writes will replace, before the first of them.
func (l *Loop) noteOriginals(writes []cgroup.Write) {
	for _, w := range writes {
		c := l.cache.Current(w.Path.Scope())
		if c.Inner != nil && w.Path == c.Inner.Path {
			c = cgroup.Current{State: *c.Inner, Exists: true}
		}
		if name := l.inventory.UnitAt(w.Path); name != "" {
			l.journal.Note(undo.UnitOriginal(w, l.inventory.UnitName(name), c.Unit))
			continue
		}
		l.journal.Note(undo.OriginalOf(w, c))
	}
}

// save hands the journal to a worker if it has changed. Only one save is under
// way at a time; what changes meanwhile goes into the next.
func (l *Loop) save(now time.Time) {
	if l.Observes || l.journal.Sent > l.journal.Durable || l.journal.Changes == l.journal.Durable || now.Before(l.status.journalRetry) {
		return
	}
	upTo, j := l.journal.Changes, l.journal.Document()
	l.journal.Sent, l.journal.Outdated = upTo, false
	if !l.journal.Safe() {
		l.timers.journal.set(l.now().Add(journalPatience))
	}
	l.workers.Disk.Submit("journal", func(context.Context) event {
		undo.SortOriginals(j.Originals)
		return saved{upTo: upTo, err: errors.Join(undo.Mark(l.RunDir, j.BootID).Leave(), undo.Save(l.JournalFile, j))}
	})
}

// scope: a journal on disk that nothing waits for needs no pass, unless newer changes follow.
func (e saved) scope(l *Loop) scope {
	if e.err == nil && !l.status.journalLate && e.upTo == l.journal.Changes {
		return scopeNone
	}
	return scopeAnswer
}

func (e saved) apply(l *Loop) {
	if e.err != nil {
		l.log.Error("journal not written; writes go ahead, and what they replace may not be known to restore", "journal", l.JournalFile, "error", e.err)
		l.journal.Sent = l.journal.Durable
		l.status.journalLate, l.status.journalErr = true, e.err // nobody waits for it
		l.status.journalRetry = l.now().Add(undo.JournalPause)
		l.timers.journal.clear() // the disk has answered
		return
	}
	l.journal.Durable = e.upTo
	if l.journal.Safe() {
		l.status.journalLate = false
		l.timers.journal.clear()
	}
}

// journalProblems says that undo is at risk.
func (l *Loop) journalProblems() []pools.Problem {
	if !l.status.journalLate {
		return nil
	}
	return []pools.Problem{{Reason: pools.Reason{Code: undo.CodeNotWritten, Text: fmt.Sprintf(
		"journal %s: %s; `cpupoold restore` may not know what the daemon replaces meanwhile. Make room on the disk, or repair it",
		l.JournalFile, l.status.journalErr)}}}
}

func (saved) ownResult() {}
