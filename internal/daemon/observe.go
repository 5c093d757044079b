package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	cluster "github.com/cpupoold/cpupoold/internal/node"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// # Observing
//
// With mode: observe the daemon looks, decides and compares as ever, and what it would
// write it tells. That nothing is written is not left to each place that could: its host
// cannot write. Cgroups, runtime and systemd refuse whatever would change something, and
// the runtime's NRI does not know of it. What was written before stays as it is, the
// journal too, so that `cpupoold restore` can still put everything back.

// errObserving is the answer to whatever would change something.
var errObserving = errors.New("mode is observe: nothing is written")

// observing is the host of a daemon that writes nothing.
func (h host) observing() host {
	h.observes = true
	h.cgroups = h.cgroups.ReadOnly()
	if h.runtime != nil {
		h.runtime = observedRuntime{h.runtime}
	}
	if h.units != nil {
		h.units = observedUnits{h.units}
	}
	h.nriSocket, h.files = "", ""
	return h
}

// observedRuntime answers questions, and changes nothing.
type observedRuntime struct{ runtimeClient }

func (observedRuntime) UpdateCPUs(context.Context, string, cpuset.Set) error { return errObserving }
func (observedRuntime) UpdateMems(context.Context, string, cpuset.Set) error { return errObserving }
func (observedRuntime) Stop(context.Context, string, time.Duration) error    { return errObserving }

// Watch tells of events, where the runtime does.
func (r observedRuntime) Watch(ctx context.Context, h cri.Handler) error {
	if source, ok := r.runtimeClient.(eventSource); ok {
		return source.Watch(ctx, h)
	}
	<-ctx.Done()
	return ctx.Err()
}

// observedUnits is the same of systemd.
type observedUnits struct{ unitManager }

func (observedUnits) Apply(context.Context, cgroup.Write) error { return errObserving }

func (observedUnits) Revert(context.Context, string, []cgroup.Property, cpuset.Set) error {
	return errObserving
}

// WatchReload tells when systemd reads its units again.
func (u observedUnits) WatchReload(ctx context.Context, wake func()) error {
	if source, ok := u.unitManager.(reloadSource); ok {
		return source.WatchReload(ctx, wake)
	}
	<-ctx.Done()
	return ctx.Err()
}

// WatchUnits tells of units that start and stop.
func (u observedUnits) WatchUnits(ctx context.Context, units []string, wake func(string)) error {
	if source, ok := u.unitManager.(unitSource); ok {
		return source.WatchUnits(ctx, units, wake)
	}
	<-ctx.Done()
	return ctx.Err()
}

// observe tells what a pass would write, each once.
func (l *loop) observe(want []cgroup.Target, options cgroup.Options, now time.Time) {
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
func (l *loop) observed() map[string]int {
	if !l.observes {
		return nil
	}
	counts := map[string]int{string(cgroup.File): 0, string(cgroup.CRI): 0, string(cgroup.DBus): 0}
	for w := range l.status.owed {
		counts[string(w.Via)]++
	}
	return counts
}

// observingCondition says what would be written; nil where everything is.
func (l *loop) observingCondition() *cluster.Condition {
	if !l.observes {
		return nil
	}
	return &cluster.Condition{Ready: true, Reason: "Observing",
		Message: fmt.Sprintf("mode is observe: containers and units are left where they are; %d writes would put them into their pools", len(l.status.owed))}
}

// onlyShow leaves what a daemon does to a Node to one that enforces: how the node fares
// is told, and what the scheduler counts by, and taints, stay as they are. Nor are there
// events: nobody is refused anything, and no pod has less for it.
func onlyShow(s *cluster.State) {
	s.OnlyCondition, s.Resources, s.Pools, s.Pods = true, false, nil, nil
	s.Taint, s.Depletion, s.Topology, s.Problems = "", nil, nil, nil
}

// loadJournal is LoadJournal, which sets a bad one aside, but for who only looks.
func loadJournal(h host, bootID string, now time.Time) (Journal, error) {
	if !h.observes {
		return LoadJournal(h.journal, bootID, now)
	}
	return peekJournal(h.journal)
}
