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
			l.box.Post(cpuEventsLost{})
			err := l.countCPUs()
			if err == nil {
				told = ""
			}
			return err
		})
		if ctx.Err() == nil {
			l.box.Post(cpuEventsLost{err})
		}
		return err
	}, func(err error) {
		if told != err.Error() { // it is tried again for as long as the daemon runs
			told = err.Error()
			l.log.Error("CPUs that go offline or come online are not heard of; until they are, the resync finds them", "error", err)
		}
	})
}

// countCPUs reads the CPUs as they are. It is called from several goroutines; what is
// read last is posted last.
func (l *Loop) countCPUs() error {
	l.counting.Lock()
	defer l.counting.Unlock()
	t, err := l.CPUs.Read(l.counted)
	if err == nil && t != l.counted {
		l.counted = t
		l.box.Post(cpusCounted{t})
	}
	return err
}

// recountCPUs is what the resync does about CPUs, in case that an event was lost.
func (l *Loop) recountCPUs() {
	if l.CPUs == nil {
		return
	}
	l.workers.Queries.Submit("cpus", func(context.Context) event {
		if err := l.countCPUs(); err != nil {
			return cpusUncounted{err}
		}
		return nil
	})
}

// cpuEventsLost says that CPUs that come and go are heard of, or why not.
type cpuEventsLost struct{ err error }

func (cpuEventsLost) scope(*Loop) scope { return scopeAll }

func (e cpuEventsLost) apply(l *Loop) { l.status.cpusLost = e.err != nil }

// cpusUncounted says why the resync could not read the CPUs.
type cpusUncounted struct{ err error }

func (cpusUncounted) scope(*Loop) scope { return scopeAll }

func (e cpusUncounted) apply(l *Loop) {
	l.log.Error("read CPUs; the next resync tries again", "error", e.err)
}

// cpusCounted are the CPUs after some have come or gone.
type cpusCounted struct{ topology *topology.Topology }

func (cpusCounted) scope(*Loop) scope { return scopeAll }

// apply makes the pools anew. The pass that follows moves those who have lost their
// CPUs, of whom some may run on CPUs of others by now: a cgroup without any of its own
// runs on its parent's. So all are read again.
func (e cpusCounted) apply(l *Loop) {
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
