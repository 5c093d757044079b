package inventory

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// PodStatus is a pod and what systemd holds for it.
type PodStatus struct {
	cri.Pod
	pause, slice cgroup.UnitState // of the pause container's scope and the pod's slice
	Partial      error            // what the runtime left out
	// foundSlice and foundPause are its cgroups, where the runtime left those out.
	foundSlice, foundPause cgroup.Path
}

// ContainerStatus is a container and what systemd holds for it.
type ContainerStatus struct {
	cri.Container
	AsOf    int              // the model's clock when it was asked for
	unit    cgroup.UnitState // of its scope
	Partial error            // what the runtime left out
	found   cgroup.Path      // its cgroup, where the runtime left that out
}

// FetchPod asks for the details of a pod. Details that are missing in the
// runtime's answer leave the pod without a cgroup; the model says so. Patience is
// the limit for systemd's part.
func FetchPod(ctx context.Context, rt hostenv.Runtime, units hostenv.Units, driver cgroup.Driver, id string, patience time.Duration) (PodStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	p, err := rt.PodStatus(ctx, id)
	if _, partial := errors.AsType[*cri.InfoError](err); err != nil && !partial {
		return PodStatus{}, err
	}
	f := PodStatus{Pod: p, Partial: err}
	if slice, pause, err := podPaths(p, driver); err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		f.slice, f.pause = hostenv.UnitState(ctx, units, slice), hostenv.UnitState(ctx, units, pause)
	}
	return f, nil
}

func FetchContainer(ctx context.Context, rt hostenv.Runtime, units hostenv.Units, driver cgroup.Driver, id string, patience time.Duration) (ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	c, err := rt.ContainerStatus(ctx, id)
	if _, partial := errors.AsType[*cri.InfoError](err); err != nil && !partial {
		return ContainerStatus{}, err
	}
	f := ContainerStatus{Container: c, Partial: err}
	if path, err := cgroup.ContainerPath(c.CgroupsPath, driver); err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		f.unit = hostenv.UnitState(ctx, units, path)
	}
	return f, nil
}

func FetchUnit(h *hostenv.Host, ctx context.Context, name string) UnitStatus {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	u, err := h.Units.Unit(ctx, name)
	return UnitStatus{Name: name, Unit: u, files: hostslices.Settings(u.Files, u.CPUs, h.UnitFile), Err: err}
}
