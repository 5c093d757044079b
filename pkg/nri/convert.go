package nri

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/internal/bounded"
)

// podOf converts a pod. NRI does not report its attempt and the time of its creation. Of the two
// resources of a pod, PodResources is the total of the pod. Resources belongs to the pause
// container (containerd 2.1, internal/cri/nri/nri_api_linux.go), and is not the total.
func podOf(p *api.PodSandbox) cri.Pod {
	linux := p.GetLinux()
	return cri.Pod{
		ID:             p.GetId(),
		UID:            p.GetUid(),
		Namespace:      p.GetNamespace(),
		Name:           p.GetName(),
		Ready:          true,
		Annotations:    p.GetAnnotations(), // without unwanted ones: see trim
		RuntimeHandler: p.GetRuntimeHandler(),
		Detailed:       true,
		CgroupParent:   linux.GetCgroupParent(),
		CgroupsPath:    linux.GetCgroupsPath(),
		Resources:      resourcesOf(linux.GetPodResources()),
		PID:            int(p.GetPid()),
	}
}

// containerOf converts a container. now stands for the time of its creation,
// where the runtime does not tell it (NRI before 0.10).
func containerOf(c *api.Container, now time.Time) cri.Container {
	linux := c.GetLinux()
	r := resourcesOf(linux.GetResources())
	ct := cri.Container{
		ID:          c.GetId(),
		PodID:       c.GetPodSandboxId(),
		Name:        c.GetName(),
		State:       stateOf(c.GetState()),
		CreatedAt:   now,
		Detailed:    true,
		CgroupsPath: linux.GetCgroupsPath(),
		PID:         int(c.GetPid()),
		// NRI shows only the spec. In a new container it contains the kubelet's
		// request.
		Requested:  r,
		Recorded:   r,
		SharedCPUs: cri.SharedCPUs(c.GetEnv()),
		HasDevices: len(c.GetCDIDevices()) > 0,
		Claims:     claimsOf(c),
	}
	if at := c.GetCreatedAt(); at > 0 {
		ct.CreatedAt = time.Unix(0, at)
	}
	if at := c.GetFinishedAt(); at > 0 && ct.State == cri.Exited {
		ct.FinishedAt = time.Unix(0, at)
	}
	return ct
}

// claimsOf returns the references of a container to ResourceClaims.
//
// containerd reports the CDI devices of the kubelet's request alone (GetCDIDevices in
// internal/cri/nri/nri_api_linux.go of containerd 2.4.2; versions before containerd#12767 report
// none). Both runtimes also add the devices of annotations cdi.k8s.io/... in the kubelet's request, and
// report none of these here (WithCDI in internal/cri/opts/spec_linux.go of containerd 2.4.2;
// specInjectCDIDevices in internal/factory/container/device_linux.go of cri-o 1.34.0). The request does
// not contain the annotations of pods and images, so they cannot add a device. CRI-O reports no CDI
// devices at all (containerToNRI in internal/nri/container.go of cri-o 1.34.0).
//
// Both runtimes report the environment with the variables of CDI. In CRI-O a variable of the pod or
// image replaces one of CDI (createSandboxContainer in server/container_create.go of cri-o 1.34.0).
func claimsOf(c *api.Container) cri.ClaimRefs {
	names := make([]string, 0, len(c.GetCDIDevices()))
	for _, d := range c.GetCDIDevices() {
		names = append(names, d.GetName())
	}
	return cri.ClaimRefsOf(names, c.GetEnv())
}

func stateOf(s api.ContainerState) cri.State {
	switch s {
	case api.ContainerState_CONTAINER_CREATED:
		return cri.Created
	case api.ContainerState_CONTAINER_RUNNING, api.ContainerState_CONTAINER_PAUSED:
		return cri.Running
	case api.ContainerState_CONTAINER_STOPPED:
		return cri.Exited
	default:
		return cri.Unknown
	}
}

// maxShares is the kernel's maximum; it lowers greater values.
const maxShares = 262144

func resourcesOf(r *api.LinuxResources) cri.Resources {
	cpu := r.GetCpu()
	period := cpu.GetPeriod().GetValue()
	if period > math.MaxInt64 {
		period = 0 // no kernel takes it: as if unset
	}
	return cri.Resources{
		Shares: min(cpu.GetShares().GetValue(), maxShares),
		Quota:  cpu.GetQuota().GetValue(),
		Period: int64(period),
		CPUs:   cpu.GetCpus(),
		Mems:   cpu.GetMems(),
	}
}

func adjustmentOf(a Adjustment) *api.ContainerAdjustment {
	var to api.ContainerAdjustment
	if !a.CPUs.IsEmpty() {
		to.SetLinuxCPUSetCPUs(a.CPUs.String())
	}
	if !a.Mems.IsEmpty() {
		to.SetLinuxCPUSetMems(a.Mems.String())
	}
	if a.Shares != 0 {
		to.SetLinuxCPUShares(a.Shares)
	}
	switch {
	case a.Unlimited:
		to.SetLinuxCPUQuota(-1)
	case a.Quota > 0:
		to.SetLinuxCPUQuota(a.Quota)
		to.SetLinuxCPUPeriod(a.Period)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if a.Env[name] == "" {
			to.RemoveEnv(name)
		}
		to.AddEnv(name, a.Env[name])
	}
	return &to
}

func updatesOf(us []Update) []*api.ContainerUpdate {
	var to []*api.ContainerUpdate
	for _, u := range us {
		if u.CPUs.IsEmpty() {
			continue // would leave the cpuset as it is
		}
		up := &api.ContainerUpdate{ContainerId: u.Container, IgnoreFailure: true}
		up.SetLinuxCPUSetCPUs(u.CPUs.String())
		to = append(to, up)
	}
	return to
}

// insteadOf returns updates by which the runtime applies the non-zero fields of r, and its
// own request otherwise: it merges an update of the same container into the request.
func insteadOf(id string, r cri.Resources) []*api.ContainerUpdate {
	if r == (cri.Resources{}) {
		return nil
	}
	up := &api.ContainerUpdate{ContainerId: id}
	if r.Shares != 0 {
		up.SetLinuxCPUShares(r.Shares)
	}
	if r.Quota != 0 {
		up.SetLinuxCPUQuota(r.Quota)
	}
	if r.Period != 0 {
		up.SetLinuxCPUPeriod(r.Period)
	}
	if r.CPUs != "" {
		up.SetLinuxCPUSetCPUs(r.CPUs)
	}
	if r.Mems != "" {
		up.SetLinuxCPUSetMems(r.Mems)
	}
	return []*api.ContainerUpdate{up}
}

// trim removes from a request of the runtime the large parts that cpupoold does not read,
// annotations above all. keep reports whether pods need an annotation. It runs as soon as a
// request is decoded: the stub collects all messages of Synchronize, and each has up to
// 4 MiB.
func trim(request any, keep func(annotation string) bool) {
	switch r := request.(type) {
	case *api.SynchronizeRequest:
		for _, p := range r.GetPods() {
			trimPod(p, keep)
		}
		for _, c := range r.GetContainers() {
			trimContainer(c)
		}
		return
	case interface{ GetPod() *api.PodSandbox }:
		trimPod(r.GetPod(), keep)
	}
	if r, ok := request.(interface{ GetContainer() *api.Container }); ok {
		trimContainer(r.GetContainer())
	}
}

func trimPod(p *api.PodSandbox, keep func(annotation string) bool) {
	if p == nil {
		return
	}
	p.Annotations, p.Labels = bounded.Annotations(p.Annotations, keep), nil
}

func trimContainer(c *api.Container) {
	if c == nil {
		return
	}
	devices, env := claimsOf(c).Names()
	if value := cri.SharedCPUs(c.Env); value != "" {
		env = append(env, cri.SharedCPUsVariable+"="+value)
	}
	// CRI-O has the annotations of the pod in each container.
	c.Annotations, c.Labels, c.Args, c.Env, c.Mounts, c.Hooks, c.CDIDevices = nil, nil, nil, env, nil, nil, nil
	for _, name := range devices {
		c.CDIDevices = append(c.CDIDevices, &api.CDIDevice{Name: name})
	}
}
