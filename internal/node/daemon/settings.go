package daemon

import (
	"reflect"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
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
	if err := l.settings.Change(l.settings.Config, e.Topology, l.journal.Facts().Accepted); err != nil {
		l.log.Error("pools of these CPUs cannot be made; those before stay in force", "error", err)
		return
	}
	l.useSettings(settings)
	l.cache.InvalidateAll()
	l.partitions.RecheckAll()
}

// useSettings applies a change of the settings and logs the differences to before.
func (l *Loop) useSettings(before desired.Settings) {
	if !reflect.DeepEqual(l.settings.Pools, before.Pools) {
		l.log.Info("configuration in force", "pools", l.settings.Pools)
	}
	for _, what := range l.settings.Adapted {
		if !slices.Contains(before.Adapted, what) {
			l.log.Warn("configuration adapted to this machine", "adaption", what)
		}
	}
	l.journal.Accept(l.settings.Fits)
	l.units.Follow(l.schedule.listings.HasListed(), l.now())
}

// configLoaded is a configuration that was read again, or the reason why it is refused.
type configLoaded struct {
	config *config.Config
	err    error
}

func (e configLoaded) apply(l *Loop) {
	var restartKeys []string
	if e.err == nil {
		restartKeys = l.settings.RestartKeys(e.config)
		e.err = l.settings.Change(e.config, l.settings.Topology, l.journal.Facts().Accepted)
	}
	l.publisher.States.Config(e.err)
	if e.err != nil {
		l.publisher.History().Add(history.Event{Kind: history.Config, Error: e.err.Error()})
		return
	}
	l.useSettings(desired.Settings{}) // an administrator expects all messages after a change
	l.publisher.History().Add(history.Event{Kind: history.Config, Cause: "read again"})
	if len(restartKeys) > 0 {
		l.log.Warn("restart the daemon for these keys to take effect", "keys", restartKeys)
	}
	if l.planner.Formula.Configure(e.config.WeightFormula) {
		l.askFormula()
	}
	if l.schedule.listings.HasListed() { // otherwise the first listing is due before
		l.schedule.resync.Set(l.now().Add(l.resyncPeriod()))
	}
}

// permissionsChanged holds the current permissions of the namespaces.
type permissionsChanged struct{ nodestatus.Allowed }

func (e permissionsChanged) apply(l *Loop) { l.planner.Permission.Take(e.Allowed) }
