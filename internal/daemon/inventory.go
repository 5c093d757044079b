package daemon

import (
	"cmp"
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
	// startPatience is the limit for the configured units before the first listing is
	// complete: nothing is written without them then, so that to ask again takes
	// longer than to wait.
	startPatience = 5 * time.Second
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

// limits are those of a census: for each unit, and for the runtime's lists.
type limits struct{ unit, listing time.Duration }

// census asks the runtime for everything, and for the details of what is not known
// yet, and systemd for the units of the configuration. One object that cannot be
// read does not spoil the others: it is listed without details, with why, and asked
// for again next time.
func census(ctx context.Context, h *host, names []string, within limits, known func(id string) bool) listed {
	// Neither waits for the other: systemd may take its time for each unit.
	units := make(chan []unitFetched, 1)
	go func() { units <- h.askAll(ctx, names, within.unit) }()
	l := h.inspect(ctx, within.listing, known)
	if h.managers != nil {
		l.crio = h.managers()
	}
	l.units = <-units
	l.failed = l.failures()
	return l
}

// askAll asks systemd for units.
func (h *host) askAll(ctx context.Context, names []string, patience time.Duration) []unitFetched {
	if h.units == nil {
		return nil
	}
	all := make([]unitFetched, len(names))
	var g errgroup.Group
	g.SetLimit(maxWorkers)
	for i, name := range names {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			all[i] = h.askUnit(ctx, name)
			return nil
		})
	}
	_ = g.Wait() // no job returns an error
	return all
}

// listAll is one question, whose answer tells whether the runtime hangs: the details of
// many objects may take it longer, and so may the first answer on a node that boots.
func (h *host) listAll(ctx context.Context, patience time.Duration) ([]cri.Pod, []cri.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return h.runtime.List(ctx)
}

// inspect asks the runtime.
func (h *host) inspect(ctx context.Context, patience time.Duration, known func(id string) bool) listed {
	if h.runtime == nil {
		return listed{}
	}
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	pods, containers, err := h.listAll(ctx, patience)
	if err != nil {
		return listed{err: err}
	}
	var l listed
	// Most are known, and many: they stay in the lists that they came in.
	l.known.pods = slices.DeleteFunc(pods, func(p cri.Pod) bool {
		if known(p.ID) {
			return false
		}
		l.pods = append(l.pods, podFacts{Pod: p})
		return true
	})
	l.known.containers = slices.DeleteFunc(containers, func(c cri.Container) bool {
		if known(c.ID) {
			return false
		}
		l.containers = append(l.containers, containerFacts{Container: c})
		return true
	})
	var g errgroup.Group
	g.SetLimit(maxWorkers)
	for i := range l.pods {
		g.Go(func() error {
			l.pods[i] = h.inspectPod(ctx, l.pods[i].Pod)
			return nil
		})
	}
	for i := range l.containers {
		g.Go(func() error {
			l.containers[i] = h.inspectContainer(ctx, l.containers[i].Container)
			return nil
		})
	}
	_ = g.Wait() // no job returns an error
	l.pods = append(l.pods, h.inspectUnlisted(ctx, l)...)
	l.locate(h.cgroups)
	return l
}

// inspectPod asks for the details of a pod that is listed.
func (h *host) inspectPod(ctx context.Context, p cri.Pod) podFacts {
	f, err := lookAtPod(ctx, h.runtime, h.units, h.driver, p.ID, callTimeout)
	switch {
	case err == nil:
		return f
	case errors.Is(err, cri.ErrNotFound):
		err = nil // gone since
	}
	return podFacts{Pod: p, partial: err}
}

// inspectContainer asks for the details of a container that is listed.
func (h *host) inspectContainer(ctx context.Context, c cri.Container) containerFacts {
	f, err := lookAtContainer(ctx, h.runtime, h.units, h.driver, c.ID, callTimeout)
	switch {
	case err == nil:
		f.PodID = cmp.Or(f.PodID, c.PodID)
		return f
	case errors.Is(err, cri.ErrNotFound):
		err = nil
	}
	return containerFacts{Container: c, partial: err}
}

// failures are why objects have no details.
func (l *listed) failures() []error {
	var all []error
	add := func(err error) {
		if err != nil {
			all = append(all, err)
		}
	}
	for i := range l.units {
		add(l.units[i].err)
	}
	for i := range l.pods {
		add(l.pods[i].partial)
	}
	for i := range l.containers {
		add(l.containers[i].partial)
	}
	return all
}

// locate finds the cgroups that the runtime does not tell: their names say whose they
// are, and of which class, and the kernel what they have.
func (l *listed) locate(fs *cgroup.FS) {
	var ids []string
	for _, p := range l.pods {
		if p.lost() {
			ids = append(ids, p.ID)
		}
	}
	for _, c := range l.containers {
		if c.lost() {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	// What has not been found when an error ended the walk stays unknown, as it was.
	found, _ := locate(fs, ids)
	for i := range l.pods {
		if p := &l.pods[i]; p.lost() {
			p.foundSlice, p.foundPause = found.pods[p.UID], found.containers[p.ID]
		}
	}
	for i := range l.containers {
		if c := &l.containers[i]; c.lost() {
			c.found = found.containers[c.ID]
		}
	}
}

// lost says that the runtime has not told where the object's cgroups are.
func (f *podFacts) lost() bool {
	return f.partial != nil && f.CgroupParent == "" && f.CgroupsPath == ""
}

func (f *containerFacts) lost() bool { return f.partial != nil && f.CgroupsPath == "" }

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
