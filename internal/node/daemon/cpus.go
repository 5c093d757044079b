package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// watchCPUs hears of CPUs that come and go. It reads the topology itself: behind the
// questions to a runtime that does not answer, containers could wait on CPUs of others.
func (l *Loop) watchCPUs(ctx context.Context) {
	if l.CPUs == nil {
		return
	}
	told := ""
	keepTrying(ctx, func() error {
		err := l.CPUs.Watch(ctx, func() error {
			l.box.Post(cpuWatchChanged{})
			err := l.readCPUs()
			if err == nil {
				told = ""
			}
			return err
		})
		if ctx.Err() == nil {
			l.box.Post(cpuWatchChanged{err})
		}
		return err
	}, func(err error) {
		if told != err.Error() { // it is tried again for as long as the daemon runs
			told = err.Error()
			l.log.Error("CPUs that go offline or come online are not heard of; until they are, the resync finds them", "error", err)
		}
	})
}

// readCPUs reads the CPUs as they are. It is called from several goroutines; what is
// read last is posted last.
func (l *Loop) readCPUs() error {
	l.readingCPUs.Lock()
	defer l.readingCPUs.Unlock()
	t, err := l.CPUs.Read(l.lastRead)
	if err == nil && t != l.lastRead {
		l.lastRead = t
		l.box.Post(cpusChanged{t})
	}
	return err
}

// rereadCPUs is what the resync does about CPUs, in case that an event was lost.
func (l *Loop) rereadCPUs() {
	if l.CPUs == nil {
		return
	}
	l.workers.Queries.Submit("cpus", func(context.Context) event {
		if err := l.readCPUs(); err != nil {
			return cpuReadFailed{err}
		}
		return nil
	})
}

// cpuWatchChanged says that CPUs that come and go are heard of, or why not.
type cpuWatchChanged struct{ err error }

func (cpuWatchChanged) scope(*Loop) scope { return scopeAll }

func (e cpuWatchChanged) apply(l *Loop) { l.status.cpusLost = e.err != nil }

// cpuReadFailed says why the resync could not read the CPUs.
type cpuReadFailed struct{ err error }

func (cpuReadFailed) scope(*Loop) scope { return scopeAll }

func (e cpuReadFailed) apply(l *Loop) {
	l.log.Error("read CPUs; the next resync tries again", "error", e.err)
}

// cpusChanged are the CPUs after some have come or gone.
type cpusChanged struct{ topology *topology.Topology }

func (cpusChanged) scope(*Loop) scope { return scopeAll }

// apply makes the pools anew. The pass that follows moves those who have lost their
// CPUs, of whom some may run on CPUs of others by now: a cgroup without any of its own
// runs on its parent's. So all are read again.
func (e cpusChanged) apply(l *Loop) {
	told := l.settings
	if before, now := told.Topology.Online, e.topology.Online; !now.Equal(before) { // and not only what is present
		l.historyLog.Add(history.Event{Kind: history.CPUs, Before: before.String(), Value: now.String()})
		l.log.Warn("CPUs have come or gone", "online", now, "gone", before.Difference(now), "came", now.Difference(before))
	}
	if err := l.settings.Change(l.settings.Config, e.topology, l.journal.Accepted()); err != nil {
		l.log.Error("pools of these CPUs cannot be made; those before stay in force", "error", err)
		return
	}
	l.useSettings(told)
	l.cache.InvalidateAll()
}

// cpuState is how the source fares.
func (l *Loop) cpuState() telemetry.SourceState {
	if l.status.cpusLost {
		return telemetry.SourceLost
	}
	return telemetry.SourceOK
}
