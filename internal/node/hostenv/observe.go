package hostenv

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # Observing
//
// With mode: observe the daemon reads, decides and compares as usual, and reports the
// writes instead of making them. The host enforces this, so that no caller can forget it:
// cgroups, runtime and systemd refuse every change, and the runtime's NRI is not used. The
// values written before stay, with the journal, so that `cpupoold restore` still works.

// ErrObserving is the error of every change of an observing host.
var ErrObserving = errors.New("mode is observe: nothing is written")

// Observing returns the same host, which refuses every change.
func (h Host) Observing() Host {
	h.Observes = true
	h.Cgroups = h.Cgroups.ReadOnly()
	if h.Runtime != nil {
		h.Runtime = observedRuntime{h.Runtime}
	}
	if h.Units != nil {
		h.Units = observedUnits{h.Units}
	}
	h.NRISocket, h.RecentDir = "", ""
	return h
}

type observedRuntime struct{ Runtime }

func (observedRuntime) UpdateCPUs(context.Context, string, cpuset.Set) error { return ErrObserving }

func (observedRuntime) UpdateMems(context.Context, string, cpuset.Set) error { return ErrObserving }

func (observedRuntime) Stop(context.Context, string, time.Duration) error { return ErrObserving }

type observedUnits struct{ Units }

func (observedUnits) Apply(context.Context, cgroup.Write) error { return ErrObserving }

func (observedUnits) Revert(context.Context, string, []cgroup.Property, cpuset.Set) error {
	return ErrObserving
}
