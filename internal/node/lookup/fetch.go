package lookup

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// unitTimeout is the limit for the answer of systemd about one unit. A container is placed
// without the answer, and systemd is busy for seconds during a daemon-reload.
const unitTimeout = time.Second

// PodStatus is a pod as the runtime and systemd report it.
type PodStatus struct {
	cri.Pod
	// Partial lists the details that are missing in the runtime's answer.
	Partial error
	// Err is the error of FetchPod.
	Err error

	// AsOf is the clock of the inventory at the time of the question.
	AsOf                 int
	PauseUnit, SliceUnit cgroup.UnitState
	// foundSlice and foundPause replace cgroups that are missing in the answer.
	foundSlice, foundPause cgroup.Path
}

// ContainerStatus is a container as the runtime and systemd report it.
type ContainerStatus struct {
	cri.Container
	// Partial lists the details that are missing in the runtime's answer.
	Partial error
	// Err is the error of FetchContainer.
	Err error

	// AsOf is the clock of the inventory at the time of the question.
	AsOf int
	Unit cgroup.UnitState
	// found replaces a cgroup that is missing in the answer.
	found  cgroup.Path
	Own    bool // a process is in its own cgroup
	Hosted bool // it is running, and its own cgroup has no process
	Lost   bool // it is running, and its cgroup does not exist
}

// UnitStatus is a unit as systemd reports it.
type UnitStatus struct {
	// Name is the name in the configuration.
	Name string
	Unit systemd.Unit
	// Err is the error of FetchUnit.
	Err   error
	Files hostslices.Setting // CPUs in the unit files of an administrator
}

// Record returns the values with which systemd would start the unit or write its cgroup
// again.
func (f *UnitStatus) Record() cgroup.Current {
	return cgroup.Current{Unit: f.Unit.UnitState, Recorded: f.Unit.CPUs, RecordedKnown: f.Err == nil && f.Unit.Known}
}

// FetchPod asks the runtime and systemd for a sandbox. asOf is the inventory's clock at the
// time of the question.
func FetchPod(ctx context.Context, h *hostenv.Host, id string, asOf int) PodStatus {
	f := fetchPod(ctx, h, id, unitTimeout)
	f.AsOf = asOf
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
		if f.Resources.Shares == 0 {
			f.Resources = totalOf(h, slice)
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		f.SliceUnit, f.PauseUnit = h.UnitState(ctx, slice), h.UnitState(ctx, pause)
	}
	return f
}

// totalOf returns the total of a Guaranteed pod by the quota of its cgroup, zero if the cgroup
// has no quota. The kubelet computes both from the same limits
// (k8s.io/kubernetes 1.37.0, pkg/kubelet/cm/helpers_linux.go, ResourceConfigForPod).
func totalOf(h *hostenv.Host, slice cgroup.Path) cri.Resources {
	if _, qos, ok := cgroup.PodOf(slice); !ok || pools.QoS(qos) != pools.QoSGuaranteed {
		return cri.Resources{}
	}
	st, err := h.Cgroups.Read(slice)
	if err != nil || st.Quota <= 0 || st.Period <= 0 {
		return cri.Resources{}
	}
	return cri.Resources{Shares: workload.MilliCPUToShares(st.Quota * 1000 / st.Period), Quota: st.Quota, Period: st.Period}
}

// FetchContainer asks the runtime and systemd for a container. asOf is the inventory's
// clock at the time of the question. It is 0 for a question in the queue of the container's
// updates. That answer is newer than the updates before it, so its record counts. The
// resources that NRI has reported stay, because the runtime may still apply them.
func FetchContainer(ctx context.Context, h *hostenv.Host, id string, asOf int) ContainerStatus {
	f := fetchContainer(ctx, h, id, unitTimeout)
	f.AsOf = asOf
	return f
}

func fetchContainer(ctx context.Context, h *hostenv.Host, id string, limit time.Duration) ContainerStatus {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	c, err := h.Runtime.ContainerStatus(ctx, id)
	if _, partial := errors.AsType[*cri.InfoError](err); err != nil && !partial {
		return ContainerStatus{Container: cri.Container{ID: id}, Err: err}
	}
	if h.CRIO == nil {
		c.SharedCPUs = "" // other runtimes do not read it back
	}
	f := ContainerStatus{Container: c, Partial: err}
	if path, err := cgroup.ContainerPath(c.CgroupsPath, h.Driver); err == nil {
		f.observe(h, path) // after the report: the container may end
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		f.Unit = h.UnitState(ctx, path)
	}
	return f
}

// FetchUnit asks systemd for a unit of the configuration.
func FetchUnit(ctx context.Context, h *hostenv.Host, name string) UnitStatus {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	u, err := h.Units.Unit(ctx, name)
	return UnitStatus{Name: name, Unit: u, Files: hostslices.Settings(u.Files, u.CPUs, h.UnitFile), Err: err}
}

// observe records whether processes run in the cgroup of a container that the runtime has just reported.
func (f *ContainerStatus) observe(h *hostenv.Host, p cgroup.Path) {
	if h.Cgroups == nil || p == "" || f.State == cri.Exited {
		return
	}
	st, err := h.Cgroups.Read(p)
	f.Lost = f.State == cri.Running && errors.Is(err, cgroup.ErrGone)
	f.Own = err == nil && st.Populated
	f.Hosted = f.Lost || f.State == cri.Running && err == nil && !f.Own
}

// Cgroups returns the cgroups of the pod and of its pause container.
func (f *PodStatus) Cgroups(d cgroup.Driver) (slice, pause cgroup.Path, err error) {
	if f.isLost() {
		return f.foundSlice, f.foundPause, nil
	}
	return podPaths(f.Pod, d)
}

// Cgroup returns the cgroup of the container.
func (f *ContainerStatus) Cgroup(d cgroup.Driver) (cgroup.Path, error) {
	if f.isLost() {
		return f.found, nil
	}
	return cgroup.ContainerPath(f.CgroupsPath, d)
}

// podPaths returns the cgroups of a pod and of its pause container.
func podPaths(p cri.Pod, d cgroup.Driver) (slice, pause cgroup.Path, err error) {
	if p.CgroupsPath != "" {
		if pause, err = cgroup.ContainerPath(p.CgroupsPath, d); err != nil {
			return "", "", err
		}
	}
	if p.CgroupParent != "" {
		slice, err = cgroup.PodPath(p.CgroupParent, d)
		return slice, pause, err
	}
	return pause.Parent(), pause, nil
}
