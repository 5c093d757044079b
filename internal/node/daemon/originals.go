package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// noteOriginals records what the writes will replace, before the first of them.
func (l *loop) noteOriginals(writes []cgroup.Write) {
	for _, w := range writes {
		c := l.tree.Current[w.Path.Scope()]
		if c.Inner != nil && w.Path == c.Inner.Path {
			c = cgroup.Current{State: *c.Inner, Exists: true}
		}
		if name := l.model.UnitAt(w.Path); name != "" {
			l.ledger.Note(undo.UnitOriginal(w, l.model.UnitName(name), c.Unit))
			continue
		}
		l.ledger.Note(undo.OriginalOf(w, c))
	}
}

// save hands the journal to a worker if it has changed. Only one save is under
// way at a time; what changes meanwhile goes into the next.
func (l *loop) save(now time.Time) {
	if l.Observes || l.ledger.Sent > l.ledger.Durable || l.ledger.Changes == l.ledger.Durable || now.Before(l.status.journalRetry) {
		return
	}
	upTo, j := l.ledger.Changes, l.ledger.Journal()
	l.ledger.Sent, l.ledger.Outdated = upTo, false
	if !l.ledger.Safe() {
		l.timers.journal.Reset(journalPatience)
	}
	l.Disk.Submit("journal", func(context.Context) actor.Event {
		undo.SortOriginals(j.Originals)
		return saved{upTo: upTo, err: errors.Join(undo.JournalMark(l.Files, j.BootID).Leave(), undo.SaveJournal(l.Journal, j))}
	})
}

func (l *loop) onSaved(e saved) {
	if e.err != nil {
		l.log.Error("journal not written; writes go ahead, and what they replace may not be known to restore", "journal", l.Journal, "error", e.err)
		l.ledger.Sent = l.ledger.Durable
		l.status.journalLate, l.status.journalErr = true, e.err // nobody waits for it
		l.status.journalRetry = time.Now().Add(undo.JournalPause)
		l.timers.journal.Stop() // the disk has answered
		return
	}
	l.ledger.Durable = e.upTo
	if l.ledger.Safe() {
		l.status.journalLate = false
		l.timers.journal.Stop()
	}
}

// journalProblems says that undo is at risk.
func (l *loop) journalProblems() []pools.Problem {
	if !l.status.journalLate {
		return nil
	}
	return []pools.Problem{{Reason: pools.Reason{Code: undo.CodeJournal, Text: fmt.Sprintf(
		"journal %s: %s; `cpupoold restore` may not know what the daemon replaces meanwhile. Make room on the disk, or repair it",
		l.Journal, l.status.journalErr)}}}
}
