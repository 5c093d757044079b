package testnode

import (
	"maps"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

func (p *pod) toNRI() *api.PodSandbox {
	return &api.PodSandbox{
		Id: p.id, Name: p.Name, Uid: p.UID, Namespace: p.Namespace,
		Labels: p.labels(), Annotations: maps.Clone(p.Annotations),
		RuntimeHandler: p.RuntimeHandler,
		Pid:            uint32(p.pid),
		Linux: &api.LinuxPodSandbox{
			CgroupParent: p.parent,
			CgroupsPath:  p.path,
			PodResources: nriOfCRI(criResources(p.Resources)),
			Resources:    nriOfCRI(criResources(cri.Resources{Shares: 2})),
		},
	}
}

func (c *container) toNRI() *api.Container {
	state := api.ContainerState_CONTAINER_UNKNOWN
	switch c.state {
	case cri.Created:
		state = api.ContainerState_CONTAINER_CREATED
	case cri.Running:
		state = api.ContainerState_CONTAINER_RUNNING
	case cri.Exited:
		state = api.ContainerState_CONTAINER_STOPPED
	}
	ct := &api.Container{
		Id: c.id, PodSandboxId: c.pod.id, Name: c.Name, State: state,
		Env:       slices.Clone(c.env),
		Pid:       uint32(c.pid),
		CreatedAt: c.created.UnixNano(),
		Linux:     &api.LinuxContainer{CgroupsPath: c.path, Resources: nriOfCRI(criResources(c.recorded))},
	}
	for _, name := range c.CDIDevices {
		ct.CDIDevices = append(ct.CDIDevices, &api.CDIDevice{Name: name})
	}
	if !c.finished.IsZero() {
		ct.FinishedAt = c.finished.UnixNano()
	}
	return ct
}

// adjust merges the adjustment of a plugin into the spec.
func (c *container) adjust(a *api.ContainerAdjustment) {
	merge(&c.recorded, criOfNRI(a.GetLinux().GetResources()))
	for _, kv := range a.GetEnv() {
		name, removed := kv.IsMarkedForRemoval()
		c.env = slices.DeleteFunc(c.env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if !removed {
			c.env = append(c.env, name+"="+kv.GetValue())
		}
	}
}

// nriOfCRI omits zero fields, because a zero is a value in NRI.
func nriOfCRI(r *runtime.LinuxContainerResources) *api.LinuxResources {
	cpu := &api.LinuxCPU{Cpus: r.GetCpusetCpus(), Mems: r.GetCpusetMems()}
	if v := r.GetCpuShares(); v != 0 {
		cpu.Shares = api.UInt64(v)
	}
	if v := r.GetCpuQuota(); v != 0 {
		cpu.Quota = api.Int64(v)
	}
	if v := r.GetCpuPeriod(); v != 0 {
		cpu.Period = api.UInt64(v)
	}
	return &api.LinuxResources{Cpu: cpu}
}

func criOfNRI(r *api.LinuxResources) *runtime.LinuxContainerResources {
	cpu := r.GetCpu()
	return &runtime.LinuxContainerResources{
		CpuShares:  int64(cpu.GetShares().GetValue()),
		CpuQuota:   cpu.GetQuota().GetValue(),
		CpuPeriod:  int64(cpu.GetPeriod().GetValue()),
		CpusetCpus: cpu.GetCpus(),
		CpusetMems: cpu.GetMems(),
	}
}
