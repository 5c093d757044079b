package daemon

import (
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// observe tells what a pass would write, each once.
func (l *Loop) observe(want []cgroup.Target, options cgroup.Options, now time.Time) {
	writes, deferred := l.diff(want, options, now)
	owed := make(map[cgroup.Write]bool, len(writes))
	for _, w := range writes {
		if owed[w] = true; !l.status.owed[w] {
			l.log.Info("would write", "write", w)
		}
	}
	for w := range l.status.owed {
		if !owed[w] {
			l.log.Info("would not write any more", "write", w)
		}
	}
	l.status.owed, l.status.deferred = owed, deferred
}

// observed counts what is not written, by way; nil where everything is.
func (l *Loop) observed() map[string]int {
	if !l.Observes {
		return nil
	}
	counts := map[string]int{string(cgroup.File): 0, string(cgroup.CRI): 0, string(cgroup.DBus): 0}
	for w := range l.status.owed {
		counts[string(w.Via)]++
	}
	return counts
}

// observingCondition says what would be written; nil where everything is.
func (l *Loop) observingCondition() *nodestatus.Condition {
	if !l.Observes {
		return nil
	}
	return &nodestatus.Condition{Ready: true, Reason: "Observing",
		Message: fmt.Sprintf("mode is observe: containers and units are left where they are; %d writes would put them into their pools", len(l.status.owed))}
}

// loadJournal is LoadJournal, which sets a bad one aside, but for who only looks.
func loadJournal(h hostenv.Host, bootID string, now time.Time) (undo.Document, error) {
	if !h.Observes {
		return undo.Load(h.JournalFile, bootID, now)
	}
	return undo.Peek(h.JournalFile)
}
