package hostenv

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// # Observing
//
// With mode: observe the daemon reads, decides and compares as usual, and reports the
// writes instead of making them. The host enforces this, so that no caller can forget it:
// cgroups, runtime and systemd refuse every change, and the runtime's NRI is not used. The
// values written before stay, with the journal, so that `cpupoold restore` still works.

// errObserving is the error of every change of an observing host.
var errObserving = errors.New("mode is observe: nothing is written")

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

// Writable returns the error of every change if the host observes, else nil.
func (h *Host) Writable() error {
	if h.Observes {
		return errObserving
	}
	return nil
}

type observedRuntime struct{ Runtime }

func (observedRuntime) UpdateCPUs(context.Context, string, cpuset.Set) error { return errObserving }

func (observedRuntime) UpdateMems(context.Context, string, cpuset.Set) error { return errObserving }

func (observedRuntime) Stop(context.Context, string, time.Duration) error { return errObserving }

type observedUnits struct{ Units }

func (observedUnits) Apply(context.Context, cgroup.Write) error { return errObserving }

func (observedUnits) Revert(context.Context, string, []systemd.Property, cpuset.Set) error {
	return errObserving
}
