package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/internal/node/appfiles"
)

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
