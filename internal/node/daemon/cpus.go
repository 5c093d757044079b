package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
)

// watchCPUs reports CPUs that go online or offline until ctx ends, and CPUs that the root cgroup
// lacks. It reads the topology in its own goroutine, because a runtime without an answer can delay
// the queue of the workers. Containers could then run on CPUs of other owners.
func (l *Loop) watchCPUs(ctx context.Context) {
	if l.CPUs == nil {
		return
	}
	actor.KeepTrying(ctx, func() error {
		err := l.usable.Watch(ctx, func() { l.box.Post(cpuWatchChanged{}) }, l.useCPUs)
		if ctx.Err() == nil {
			l.box.Post(cpuWatchChanged{err})
		}
		return err
	}, l.usable.LogLost)
}

// useCPUs posts a change of the usable CPUs.
func (l *Loop) useCPUs(m usablecpus.Machine) { l.box.Post(cpusChanged{m}) }

// rereadCPUs reads the CPUs in a resync, because an event may have been lost.
func (l *Loop) rereadCPUs() {
	if l.CPUs == nil {
		return
	}
	l.workers.Queries.Submit("cpus", func(context.Context) event {
		l.usable.Resync(l.useCPUs)
		return nil
	})
}

// cpuWatchChanged reports the state of the watch of CPUs: nil while it works.
type cpuWatchChanged struct{ err error }

func (e cpuWatchChanged) apply(l *Loop) { l.status.cpusLost = e.err != nil }

// cpusChanged holds the usable CPUs after a change.
type cpusChanged struct{ usablecpus.Machine }

// apply builds the pools for the new CPUs. The next pass moves the containers that have lost
// CPUs. All cgroups are read again, because a cgroup that has lost all of its CPUs runs on the
// CPUs of its parent.
func (e cpusChanged) apply(l *Loop) {
	settings := l.settings
	l.status.withheld = e.Withheld
	if before, now := settings.Topology.Online, e.Topology.Online; !now.Equal(before) { // not only the present CPUs have changed
		l.historyLog.Add(history.Event{Kind: history.CPUs, Before: before.String(), Value: now.String()})
		l.log.Warn("the online CPUs have changed", "online", now, "gone", before.Difference(now), "came", now.Difference(before), "withheld", usablecpus.Of(e.Withheld))
	}
	if err := l.settings.Change(l.settings.Config, e.Topology, l.journal.Accepted()); err != nil {
		l.log.Error("pools of these CPUs cannot be made; those before stay in force", "error", err)
		return
	}
	l.useSettings(settings)
	l.cache.InvalidateAll()
	l.partitions.RecheckAll()
}

// cpuState returns the state of the watch of CPUs as a source.
func (l *Loop) cpuState() telemetry.SourceState {
	if l.status.cpusLost {
		return telemetry.SourceLost
	}
	return telemetry.SourceOK
}
