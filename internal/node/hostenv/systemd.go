package hostenv

import (
	"context"
	"os"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// Units is the part of the systemd client that the daemon uses.
type Units interface {
	Properties(ctx context.Context, unit string) (cgroup.UnitState, error)
	Apply(ctx context.Context, w cgroup.Write) error
	Unit(ctx context.Context, name string) (systemd.Unit, error)
	Revert(ctx context.Context, unit string, originals []systemd.Property, nodes cpuset.Set) error
	WatchReload(ctx context.Context, wake func()) error
	WatchUnits(ctx context.Context, units []string, wake func(unit string)) error
}

// UnitState returns the properties that systemd records for the unit of a cgroup. Without
// an answer the state is unknown, so that every lasting value is recorded again.
func (h *Host) UnitState(ctx context.Context, p cgroup.Path) cgroup.UnitState {
	unit, ok := p.Unit()
	if h.Units == nil || !ok {
		return cgroup.UnitState{}
	}
	st, err := h.Units.Properties(ctx, unit)
	if err != nil {
		return cgroup.UnitState{}
	}
	return st
}

// systemdRuns reports whether systemd is the init process, as sd_booted(3) does.
func systemdRuns() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// unitFileLimit is far above the size of any unit file, in bytes.
const unitFileLimit = 1 << 20
