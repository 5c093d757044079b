package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/undo"
)

// save hands the journal to a worker if it has changed.
func (l *Loop) save(now time.Time) {
	if l.Observes {
		return
	}
	d, upTo, due := l.journal.BeginSave(now)
	if !due {
		return
	}
	if !l.journal.Safe() && l.schedule.journal.due.IsZero() {
		l.schedule.journal.set(l.now().Add(journalTimeout))
	}
	l.workers.Disk.Submit("journal", func(context.Context) event {
		return saved{upTo: upTo, err: undo.Save(l.JournalFile, l.RunDir, d)}
	})
}

// saved is the result of writing the journal up to change number upTo.
type saved struct {
	upTo int
	err  error
}

// scope: a journal on disk that no write waits for needs no pass, unless newer changes follow.
func (e saved) scope(l *Loop) scope {
	if e.err == nil && l.journal.Late() == nil && !l.journal.ChangedSince(e.upTo) {
		return scopeNone
	}
	return scopeAnswer
}

func (e saved) apply(l *Loop) {
	if e.err != nil {
		l.log.Error("journal not written; writes go ahead, and restore may not know the values that they replace", "journal", l.JournalFile, "error", e.err)
	}
	l.journal.EndSave(e.upTo, e.err, l.now())
	l.schedule.journal.clear() // the disk has answered; the save of newer changes sets it again
}

func (saved) ownResult() {}
