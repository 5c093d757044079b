package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
)

// publish replaces the state that other goroutines and the cluster see, and logs changes.
func (l *Loop) publish() {
	now, pass := l.now(), &l.last
	if pass.Planned {
		l.publisher.Note(pass)
		if job := l.publisher.Files.Write(&pass.Plan, pass.Targets, now); job != nil {
			l.workers.Disk.Submit("files", func(context.Context) event { return filesWritten{job()} })
		}
	}
	l.publisher.Publish(pass, now)
}

// tuned is the event that the tuner has read or changed the host's settings, or that the live audit
// has a finding.
type tuned struct{}

func (tuned) apply(*Loop) {}

func (tuned) ownResult() {}

// filesWritten is the result of writing the files for applications.
type filesWritten struct{ appcpus.Result }

func (e filesWritten) scope(l *Loop) scope {
	switch {
	case e.Err != nil:
		return scopeAll
	case l.publisher.Files.ChangesNothing(e.Result, l.now()):
		return scopeNone
	}
	return scopeAnswer
}

func (e filesWritten) apply(l *Loop) { l.publisher.Files.Take(e.Result, l.now()) }
