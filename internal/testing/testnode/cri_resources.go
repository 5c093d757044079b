package testnode

import (
	"context"
	"fmt"
	"path"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// apply writes the resources to a cgroup, as runc does at creation and at each update. It writes
// all of them, first as properties of the unit and then as files. It does not write a cpuset
// without a record.
func (c RuntimeConfig) apply(dir string, r cri.Resources) error {
	if c.Tree == nil {
		return nil
	}
	var properties []systemd.Property
	var files [][2]string
	if r.Shares != 0 {
		w := strconv.FormatUint(cgroup.WeightQuadratic(r.Shares), 10)
		properties = append(properties, systemd.Property{Name: cgroup.UnitWeight, Value: w})
		files = append(files, [2]string{cgroup.FileWeight, w})
	}
	if r.Quota != 0 {
		perSecond, limit := cgroup.ValueInf, "max"
		period := r.Period
		if period == 0 {
			period = defaultPeriod
		}
		if r.Quota > 0 {
			perSecond = strconv.FormatInt(perSecondUSec(r.Quota, period), 10)
			limit = strconv.FormatInt(r.Quota, 10)
		}
		properties = append(properties, systemd.Property{Name: cgroup.UnitQuota, Value: perSecond})
		files = append(files, [2]string{cgroup.FileMax, fmt.Sprintf("%s %d", limit, period)})
	}
	if r.CPUs != "" {
		properties = append(properties, systemd.Property{Name: cgroup.UnitCPUs, Value: r.CPUs})
		files = append(files, [2]string{cgroup.FileCPUs, r.CPUs})
	}
	if r.Mems != "" {
		properties = append(properties, systemd.Property{Name: cgroup.UnitMems, Value: r.Mems})
		files = append(files, [2]string{cgroup.FileMems, r.Mems})
	}
	if c.Units != nil && c.Driver == cri.Systemd && len(properties) > 0 {
		if err := c.Units.SetProperties(context.Background(), path.Base(dir), properties); err != nil {
			return err
		}
	}
	for _, at := range c.levels(dir) {
		for _, f := range files {
			if err := c.Tree.Write(path.Join(at, f[0]), f[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// levels returns the cgroups of a container. Its processes are in the last one.
func (c RuntimeConfig) levels(scope string) []string {
	if !c.Crun || c.Driver != cri.Systemd {
		return []string{scope}
	}
	return []string{scope, path.Join(scope, "container")}
}

// perSecondUSec returns CPUQuotaPerSecUSec like opencontainers/cgroups: rounded up to the
// precision of systemd, 10 ms per second.
func perSecondUSec(quota, period int64) int64 {
	const unit = 10_000
	return (quota*1_000_000/period + unit - 1) / unit * unit
}

// updatable returns a container that accepts updates. The caller holds r.mu.
func (r *Runtime) updatable(id string) (*container, error) {
	c, ok := r.containers[id]
	crio := r.config.Flavor == CRIO
	switch {
	case !ok && crio:
		return nil, status.Errorf(codes.Unknown, "container with ID starting with %s not found", id)
	case !ok:
		return nil, status.Errorf(codes.NotFound, "container %q", id)
	case crio && c.state == cri.Exited:
		return nil, status.Errorf(codes.Unknown, "container %s is not running or created state: stopped", c.id)
	}
	return c, nil
}

// update merges the set fields into the spec, and applies the whole spec to the cgroup of the
// container. Until the entrypoint starts, containerd only records it. CRI-O passes only the set
// fields to the OCI runtime (cri-o, runtime_oci.go, UpdateContainer). runc adds the others from its state, and crun does not.
func (r *Runtime) update(id string, with *runtime.LinuxContainerResources) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.updatable(id)
	if err != nil {
		return err
	}
	updated := c.recorded
	merge(&updated, with)
	applied := updated
	if r.config.Crun && r.config.Flavor == CRIO {
		applied = cri.Resources{}
		merge(&applied, with)
	}
	if c.cgroup && (c.state == cri.Running || r.config.Flavor == CRIO) {
		err := r.faults.errorOf(OCIUpdate)
		if err == nil {
			err = r.config.apply(c.scope, applied)
		}
		if err != nil {
			return status.Errorf(codes.Unknown, "update resources of container %q: %v", c.id, err)
		}
	}
	c.recorded, c.shown = updated, updated
	return nil
}

// withSharedCPUs returns an update with the CPUs that CRI-O adds: the CPUs in the variable
// OPENSHIFT_SHARED_CPUS of the container (cri-o 1.34.0, reapplySharedCPUs).
func (r *Runtime) withSharedCPUs(c *container, linux *runtime.LinuxContainerResources) (*runtime.LinuxContainerResources, error) {
	r.mu.Lock()
	value := cri.SharedCPUs(c.env)
	r.mu.Unlock()
	if value == "" || r.config.Flavor != CRIO {
		return linux, nil
	}
	shared, err := cpuset.Parse(value)
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "%v", err)
	}
	cpus, err := cpuset.Parse(linux.GetCpusetCpus())
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "%v", err)
	}
	with, _ := proto.Clone(linux).(*runtime.LinuxContainerResources)
	with.CpusetCpus = cpus.Union(shared).String()
	return with, nil
}

// ResizePod gives a pod a new total, as the kubelet does for pod-level resources. CRI-O does not
// report it.
func (r *Runtime) ResizePod(id string, to cri.Resources) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.pods[id]
	if !ok {
		return fmt.Errorf("resize pod %s: no such pod", id)
	}
	if p.ownTotal = true; r.config.Flavor == Containerd {
		p.resized = &to
	}
	return nil
}

// updateFromPlugin is update for an NRI plugin. The plugin receives no error for an unknown
// container.
func (r *Runtime) updateFromPlugin(id string, with *runtime.LinuxContainerResources) error {
	r.mu.Lock()
	_, err := r.updatable(id)
	r.mu.Unlock()
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return r.update(id, with)
}

func merge(into *cri.Resources, from *runtime.LinuxContainerResources) {
	if v := from.GetCpuShares(); v != 0 {
		into.Shares = uint64(v)
	}
	if v := from.GetCpuQuota(); v != 0 {
		into.Quota = v
	}
	if v := from.GetCpuPeriod(); v != 0 {
		into.Period = v
	}
	if v := from.GetCpusetCpus(); v != "" {
		into.CPUs = v
	}
	if v := from.GetCpusetMems(); v != "" {
		into.Mems = v
	}
}

// Resize changes the resources of a container as the kubelet does: it updates the container, and
// then sends the new total of the pod (UpdatePodSandboxResources), if the pod has one. CRI-O
// ignores the total.
func (r *Runtime) Resize(id string, to cri.Resources) error {
	r.mu.Lock()
	c, ok := r.containers[id]
	var was cri.Resources
	if ok {
		was = c.Resources
	}
	r.mu.Unlock()
	linux := &runtime.LinuxContainerResources{CpuShares: int64(to.Shares), CpuQuota: to.Quota, CpuPeriod: to.Period}
	if _, err := (&service{r: r}).UpdateContainerResources(context.Background(), &runtime.UpdateContainerResourcesRequest{ContainerId: id, Linux: linux}); err != nil {
		return err
	}
	if total, changed := r.resized(c, was, to); changed {
		return r.nri.updatePod(c.pod, total)
	}
	return nil
}

// resized records the resources of a container after a resize. It returns the new total of the
// pod if the kubelet sends one and the runtime supports it.
func (r *Runtime) resized(c *container, was, to cri.Resources) (total cri.Resources, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Resources = to
	total = c.pod.Resources
	if c.pod.resized != nil {
		total = *c.pod.resized
	}
	if total.Shares == 0 || r.config.Flavor != Containerd || c.pod.ownTotal {
		return total, false
	}
	total.Shares += to.Shares - was.Shares
	total.Quota += to.Quota - was.Quota
	c.pod.resized = &total
	return total, true
}
