package hostenv

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const (
	CallTimeout = 30 * time.Second
)

const (
	UpdateTimeout = 2 * time.Minute
)

// Runtime is what the daemon needs of the CRI client.
type Runtime interface {
	List(ctx context.Context) ([]cri.Pod, []cri.Container, error)
	PodStatus(ctx context.Context, id string) (cri.Pod, error)
	ContainerStatus(ctx context.Context, id string) (cri.Container, error)
	UpdateCPUs(ctx context.Context, id string, cpus cpuset.Set) error
	UpdateMems(ctx context.Context, id string, nodes cpuset.Set) error
	Stop(ctx context.Context, id string, timeout time.Duration) error
}

// Units is what it needs of systemd; nil where there is none.
type Units interface {
	Properties(ctx context.Context, unit string) (cgroup.UnitState, error)
	Apply(ctx context.Context, w cgroup.Write) error
	Unit(ctx context.Context, name string) (cgroup.Unit, error)
	Revert(ctx context.Context, unit string, originals []cgroup.Property, nodes cpuset.Set) error
}

// UnitState asks systemd what it holds for a cgroup. Without an answer it is not
// known, and everything that is to last is recorded again.
func UnitState(ctx context.Context, units Units, p cgroup.Path) cgroup.UnitState {
	unit, ok := p.Unit()
	if units == nil || !ok {
		return cgroup.UnitState{}
	}
	st, err := units.Properties(ctx, unit)
	if err != nil {
		return cgroup.UnitState{}
	}
	return st
}
