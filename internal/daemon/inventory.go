package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// callTimeout is the limit for a question to the runtime or systemd,
// updateTimeout that for a change, which forks the OCI runtime. Both are far
// above what a loaded node needs: they are there so that a hung runtime is
// noticed, not to hurry it.
const (
	callTimeout   = 30 * time.Second
	updateTimeout = 2 * time.Minute
	// unitPatience is the limit for what systemd holds for a new container. The
	// container is placed without it, and systemd is busy for seconds in a
	// daemon-reload.
	unitPatience = time.Second
)

// runtimeClient is what the daemon needs of the CRI client.
type runtimeClient interface {
	List(ctx context.Context) ([]cri.Pod, []cri.Container, error)
	PodStatus(ctx context.Context, id string) (cri.Pod, error)
	ContainerStatus(ctx context.Context, id string) (cri.Container, error)
	UpdateCPUs(ctx context.Context, id string, cpus cpuset.Set) error
	UpdateMems(ctx context.Context, id string, nodes cpuset.Set) error
	Stop(ctx context.Context, id string, timeout time.Duration) error
}

// unitManager is what it needs of systemd; nil where there is none.
type unitManager interface {
	Properties(ctx context.Context, unit string) (cgroup.UnitState, error)
	Apply(ctx context.Context, w cgroup.Write) error
	Unit(ctx context.Context, name string) (cgroup.Unit, error)
	Revert(ctx context.Context, unit string, originals []cgroup.Property, nodes cpuset.Set) error
}

// census asks systemd for the units of the configuration, the runtime for
// everything, and for the details of what is not known yet. One object that cannot
// be read does not spoil the others: it is listed without details and asked for
// again next time.
func census(ctx context.Context, h *host, names []string, known func(id string) bool) listed {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	var pods []cri.Pod
	var containers []cri.Container
	if h.runtime != nil {
		var err error
		if pods, containers, err = h.runtime.List(ctx); err != nil {
			return listed{err: err}
		}
	}
	rt, units, driver := h.runtime, h.units, h.driver
	l := listed{pods: make([]podFacts, len(pods)), containers: make([]containerFacts, len(containers))}
	failed := make([]error, len(pods)+len(containers))
	if units != nil {
		for _, name := range names {
			u := askUnit(ctx, units, name)
			l.units = append(l.units, u)
			if u.err != nil {
				failed = append(failed, u.err)
			}
		}
	}
	var g errgroup.Group
	g.SetLimit(maxWorkers)
	for i, p := range pods {
		l.pods[i].Pod = p
		if known(p.ID) {
			continue
		}
		g.Go(func() error {
			if f, err := lookAtPod(ctx, rt, units, driver, p.ID, callTimeout); err == nil {
				l.pods[i] = f
			} else if !errors.Is(err, cri.ErrNotFound) {
				failed[i] = err
			}
			return nil
		})
	}
	for i, c := range containers {
		l.containers[i].Container = c
		if known(c.ID) {
			continue
		}
		g.Go(func() error {
			if f, err := lookAtContainer(ctx, rt, units, driver, c.ID, callTimeout); err == nil {
				l.containers[i] = f
			} else if !errors.Is(err, cri.ErrNotFound) {
				failed[len(pods)+i] = err
			}
			return nil
		})
	}
	_ = g.Wait() // no job returns an error
	l.failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	return l
}

// lookAtPod asks for the details of a pod. Details that are missing in the
// runtime's answer leave the pod without a cgroup; the model says so. Patience is
// the limit for systemd's part.
func lookAtPod(ctx context.Context, rt runtimeClient, units unitManager, driver cgroup.Driver, id string, patience time.Duration) (podFacts, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	p, err := rt.PodStatus(ctx, id)
	if _, partial := errors.AsType[*cri.InfoError](err); err != nil && !partial {
		return podFacts{}, err
	}
	f := podFacts{Pod: p, partial: err}
	if slice, pause, err := podPaths(p, driver); err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		f.slice, f.pause = unitState(ctx, units, slice), unitState(ctx, units, pause)
	}
	return f, nil
}

func lookAtContainer(ctx context.Context, rt runtimeClient, units unitManager, driver cgroup.Driver, id string, patience time.Duration) (containerFacts, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := rt.ContainerStatus(ctx, id)
	if _, partial := errors.AsType[*cri.InfoError](err); err != nil && !partial {
		return containerFacts{}, err
	}
	f := containerFacts{Container: c, partial: err}
	if path, err := cgroup.ContainerPath(c.CgroupsPath, driver); err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		f.unit = unitState(ctx, units, path)
	}
	return f, nil
}

// unitState asks systemd what it holds for a cgroup. Without an answer it is not
// known, and everything that is to last is recorded again.
func unitState(ctx context.Context, units unitManager, p cgroup.Path) cgroup.UnitState {
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
