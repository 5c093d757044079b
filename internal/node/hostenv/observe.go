package hostenv

import (
	"context"
	"errors"
	"time"

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

// ErrObserving is the answer to whatever would change something.
var ErrObserving = errors.New("mode is observe: nothing is written")

// Observing is the host of a daemon that writes nothing.
func (h Host) Observing() Host {
	h.Observes = true
	h.Cgroups = h.Cgroups.ReadOnly()
	if h.Runtime != nil {
		h.Runtime = observedRuntime{h.Runtime}
	}
	if h.Units != nil {
		h.Units = observedUnits{h.Units}
	}
	h.NRISocket, h.RunDir = "", ""
	return h
}

// observedRuntime answers questions, and changes nothing.
type observedRuntime struct{ Runtime }

func (observedRuntime) UpdateCPUs(context.Context, string, cpuset.Set) error { return ErrObserving }

func (observedRuntime) UpdateMems(context.Context, string, cpuset.Set) error { return ErrObserving }

func (observedRuntime) Stop(context.Context, string, time.Duration) error { return ErrObserving }

// Watch tells of events, where the runtime does.
func (r observedRuntime) Watch(ctx context.Context, h cri.Handler) error {
	if source, ok := r.Runtime.(EventSource); ok {
		return source.Watch(ctx, h)
	}
	<-ctx.Done()
	return ctx.Err()
}

// observedUnits is the same of systemd.
type observedUnits struct{ Units }

func (observedUnits) Apply(context.Context, cgroup.Write) error { return ErrObserving }

func (observedUnits) Revert(context.Context, string, []cgroup.Property, cpuset.Set) error {
	return ErrObserving
}

// WatchReload tells when systemd reads its units again.
func (u observedUnits) WatchReload(ctx context.Context, wake func()) error {
	if source, ok := u.Units.(ReloadSource); ok {
		return source.WatchReload(ctx, wake)
	}
	<-ctx.Done()
	return ctx.Err()
}

// WatchUnits tells of units that start and stop.
func (u observedUnits) WatchUnits(ctx context.Context, units []string, wake func(string)) error {
	if source, ok := u.Units.(UnitSource); ok {
		return source.WatchUnits(ctx, units, wake)
	}
	<-ctx.Done()
	return ctx.Err()
}
