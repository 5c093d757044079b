package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/internal/node/appfiles"
	"github.com/cpupoold/cpupoold/internal/node/publish"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// newPublisher returns the publisher of the state of the loop.
func newPublisher(l *Loop) *publish.Publisher {
	return publish.New(publish.Sources{
		Host: &l.Host, Log: l.log, Now: l.now, Notify: l.notify, Settings: &l.settings, Inventory: l.inventory, Cache: l.cache, Journal: l.journal,
		Backoffs: l.backoffs, Drifts: l.drifts, Quiet: l.quiet, Partitions: l.partitions, Units: l.units, Others: &l.others, Auxiliary: l.auxiliary,
		Hints: l.hints, Kubelet: &l.kubelet, Refusals: l.refusalLog, Exposures: l.exposureMeter, Files: l.files, Permission: &l.permission,
		Watch: l.watch, States: l.states, Requests: l.requests,
	})
}

// publish replaces the state that other goroutines and the cluster see, and logs changes.
func (l *Loop) publish() {
	now, pass := l.now(), l.status.pass()
	if pass.Planned {
		l.publisher.Note(pass)
		l.writeApplications(now)
	}
	l.publisher.Publish(pass, now)
}

// pass returns the decisions and the results of the last pass.
func (s *status) pass() *publish.Pass {
	return &publish.Pass{Planned: s.planned, Began: s.began, Plan: s.plan, Input: s.input, Targets: s.targets, Deferred: s.deferred, Unreadable: s.unreadable, Auxiliary: s.auxiliary}
}

// count counts a write that was made or refused.
func (l *Loop) count(w cgroup.Write, err error) { l.publisher.Count(w, err) }

// tuned is the event that the tuner has read or changed the host's settings.
type tuned struct{}

func (tuned) apply(*Loop) {}

func (tuned) ownResult() {}

// newFiles returns the files for applications, which write writes.
func newFiles(l *Loop, write func([]appcpus.Entry, bool) appcpus.Result) *appfiles.Files {
	return appfiles.New(appfiles.Sources{Settings: &l.settings, Inventory: l.inventory, Cache: l.cache, Log: l.log, CRIO: l.CRIO != nil}, write)
}

// filesWritten is the result of writing the files for applications.
type filesWritten struct{ appcpus.Result }

// writeApplications submits the files for applications if they must be written.
func (l *Loop) writeApplications(now time.Time) {
	if job := l.files.Write(&l.status.plan, l.status.targets, now); job != nil {
		l.workers.Disk.Submit("files", func(context.Context) event { return filesWritten{job()} })
	}
}

func (e filesWritten) scope(l *Loop) scope {
	switch {
	case e.Err != nil:
		return scopeAll
	case l.files.ChangesNothing(e.Result, l.now()):
		return scopeNone
	}
	return scopeAnswer
}

func (e filesWritten) apply(l *Loop) { l.files.Take(e.Result, l.now()) }
