package daemon

import (
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
)

// cpuWatchChanged reports the state of the watch of CPUs: nil while it works.
type cpuWatchChanged struct{ err error }

func (e cpuWatchChanged) apply(l *Loop) { l.publisher.States.CPUs(e.err) }

// cpusChanged holds the usable CPUs after a change.
type cpusChanged struct{ usablecpus.Machine }

// apply builds the pools for the new CPUs. The next pass moves the containers that have lost
// CPUs. All cgroups are read again, because a cgroup that has lost all of its CPUs runs on the
// CPUs of its parent.
func (e cpusChanged) apply(l *Loop) {
	settings := l.settings
	l.publisher.States.Withhold(e.Withheld)
	if before, now := settings.Topology.Online, e.Topology.Online; !now.Equal(before) { // not only the present CPUs have changed
		l.publisher.History().Add(history.Event{Kind: history.CPUs, Before: before.String(), Value: now.String()})
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
