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

// unitTimeout is the limit for the answer of systemd about one unit. A container is placed
// without the answer, and systemd is busy for seconds during a daemon-reload.
const unitTimeout = time.Second

// PodStatus is a pod as the runtime and systemd report it.
type PodStatus struct {
	cri.Pod
	Partial error // details that the runtime did not report
	Err     error // FetchPod got no answer
	asOf    int   // clock of the inventory when the runtime was asked

	pauseUnit, sliceUnit   cgroup.UnitState
	foundSlice, foundPause cgroup.Path // found by name because the runtime did not report them
}

// ContainerStatus is a container as the runtime and systemd report it.
type ContainerStatus struct {
	cri.Container
	Partial error // details that the runtime did not report
	Err     error // FetchContainer got no answer
	asOf    int   // clock of the inventory when the runtime was asked

	unit  cgroup.UnitState
	found cgroup.Path // found by name because the runtime did not report it
}

// UnitStatus is a unit as systemd reports it.
type UnitStatus struct {
	Name  string // in the configuration
	Unit  cgroup.Unit
	Err   error // FetchUnit got no answer
	files hostslices.Setting
}

// FetchPod asks the runtime and systemd for a sandbox. asOf is the inventory's clock at the
// time of the question.
func FetchPod(ctx context.Context, h *hostenv.Host, id string, asOf int) PodStatus {
	f := fetchPod(ctx, h, id, unitTimeout)
	f.asOf = asOf
	return f
}

func fetchPod(ctx context.Context, h *hostenv.Host, id string, limit time.Duration) PodStatus {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	p, err := h.Runtime.PodStatus(ctx, id)
	if _, partial := errors.AsType[*cri.InfoError](err); err != nil && !partial {
		return PodStatus{Pod: cri.Pod{ID: id}, Err: err}
	}
	f := PodStatus{Pod: p, Partial: err}
	if slice, pause, err := podPaths(p, h.Driver); err == nil {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		f.sliceUnit, f.pauseUnit = hostenv.UnitState(ctx, h.Units, slice), hostenv.UnitState(ctx, h.Units, pause)
	}
	return f
}

// FetchContainer asks the runtime and systemd for a container. asOf is the inventory's
// clock at the time of the question. With 0 the resources that NRI has reported stay.
func FetchContainer(ctx context.Context, h *hostenv.Host, id string, asOf int) ContainerStatus {
	f := fetchContainer(ctx, h, id, unitTimeout)
	f.asOf = asOf
	return f
}

func fetchContainer(ctx context.Context, h *hostenv.Host, id string, limit time.Duration) ContainerStatus {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	c, err := h.Runtime.ContainerStatus(ctx, id)
	if _, partial := errors.AsType[*cri.InfoError](err); err != nil && !partial {
		return ContainerStatus{Container: cri.Container{ID: id}, Err: err}
	}
	f := ContainerStatus{Container: c, Partial: err}
	if path, err := cgroup.ContainerPath(c.CgroupsPath, h.Driver); err == nil {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		f.unit = hostenv.UnitState(ctx, h.Units, path)
	}
	return f
}

// FetchUnit asks systemd for a unit of the configuration.
func FetchUnit(ctx context.Context, h *hostenv.Host, name string) UnitStatus {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	u, err := h.Units.Unit(ctx, name)
	return UnitStatus{Name: name, Unit: u, files: hostslices.Settings(u.Files, u.CPUs, h.UnitFile), Err: err}
}
