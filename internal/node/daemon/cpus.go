package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// watchCPUs reports CPUs that go online or offline until ctx ends. It reads the topology in its
// own goroutine, because a runtime without an answer can delay the queue of the workers.
// Containers could then run on CPUs of other owners.
func (l *Loop) watchCPUs(ctx context.Context) {
	if l.CPUs == nil {
		return
	}
	last := "" // the last error
	actor.KeepTrying(ctx, func() error {
		err := l.CPUs.Watch(ctx, func() error {
			l.box.Post(cpuWatchChanged{})
			err := l.readCPUs()
			if err == nil {
				last = ""
			}
			return err
		})
		if ctx.Err() == nil {
			l.box.Post(cpuWatchChanged{err})
		}
		return err
	}, func(err error) {
		if last != err.Error() { // log each error once, because the watch is retried without end
			last = err.Error()
			l.log.Error("watch CPUs; until that succeeds, only the resync finds CPUs that go offline or come online", "error", err)
		}
	})
}

// readCPUs reads the topology and posts a change. Several goroutines call it, and the lock keeps
// the order of readings and events equal.
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

// rereadCPUs reads the CPUs in a resync, because an event may have been lost.
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

// cpuWatchChanged reports the state of the watch of CPUs: nil while it works.
type cpuWatchChanged struct{ err error }

func (cpuWatchChanged) scope(*Loop) scope { return scopeAll }

func (e cpuWatchChanged) apply(l *Loop) { l.status.cpusLost = e.err != nil }

// cpuReadFailed is the error of reading the CPUs in a resync.
type cpuReadFailed struct{ err error }

func (cpuReadFailed) scope(*Loop) scope { return scopeAll }

func (e cpuReadFailed) apply(l *Loop) {
	l.log.Error("read CPUs; the next resync tries again", "error", e.err)
}

// cpusChanged holds the topology after a change.
type cpusChanged struct{ topology *topology.Topology }

func (cpusChanged) scope(*Loop) scope { return scopeAll }

// apply builds the pools for the new CPUs. The next pass moves the containers that have lost
// CPUs. All cgroups are read again, because a cgroup that has lost all of its CPUs runs on the
// CPUs of its parent.
func (e cpusChanged) apply(l *Loop) {
	settings := l.settings
	if before, now := settings.Topology.Online, e.topology.Online; !now.Equal(before) { // not only the present CPUs have changed
		l.historyLog.Add(history.Event{Kind: history.CPUs, Before: before.String(), Value: now.String()})
		l.log.Warn("the online CPUs have changed", "online", now, "gone", before.Difference(now), "came", now.Difference(before))
	}
	if err := l.settings.Change(l.settings.Config, e.topology, l.journal.Accepted()); err != nil {
		l.log.Error("pools of these CPUs cannot be made; those before stay in force", "error", err)
		return
	}
	l.useSettings(settings)
	l.cache.InvalidateAll()
}

// cpuState returns the state of the watch of CPUs as a source.
func (l *Loop) cpuState() telemetry.SourceState {
	if l.status.cpusLost {
		return telemetry.SourceLost
	}
	return telemetry.SourceOK
}
