//go:build guest

package daemon_test

import (
	"context"
	"strings"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// realRuntime implements scenario.Runtime with the machine's runtime, systemd and the kernel.
type realRuntime struct {
	rpc     runtime.RuntimeServiceClient
	cgroups *cgroup.FS
	scope   func(id string) string
	pods    map[string]*runtime.PodSandboxConfig
	paths   map[string]cgroup.Path // of containers and sandboxes
	in      map[string]string      // containers' sandboxes
	has     map[string]*runtime.LinuxContainerResources
	resized int // how often
}

func (r *runtimeNode) runtime() *realRuntime {
	return &realRuntime{rpc: r.rpc, cgroups: r.fs, scope: r.scope, pods: make(map[string]*runtime.PodSandboxConfig), paths: make(map[string]cgroup.Path),
		in: make(map[string]string), has: make(map[string]*runtime.LinuxContainerResources)}
}

func call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), nodeTimeout)
}

func linuxResources(r cri.Resources) *runtime.LinuxContainerResources {
	return &runtime.LinuxContainerResources{CpuShares: int64(r.Shares), CpuQuota: r.Quota, CpuPeriod: r.Period}
}

func hostNetwork() *runtime.NamespaceOption {
	return &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE}
}

// podSlice returns the unit of a pod, as the kubelet names it.
func podSlice(s testnode.PodSpec) string {
	slice := "kubepods-pod"
	if s.QoS != "guaranteed" {
		slice = "kubepods-" + s.QoS + "-pod"
	}
	return slice + strings.ReplaceAll(s.UID, "-", "_") + ".slice"
}

func (r *realRuntime) RunPod(s testnode.PodSpec) (string, error) {
	ctx, cancel := call()
	defer cancel()
	c := &runtime.PodSandboxConfig{
		Metadata:    &runtime.PodSandboxMetadata{Name: s.Name, Namespace: s.Namespace, Uid: s.UID},
		Annotations: s.Annotations,
		Linux: &runtime.LinuxPodSandboxConfig{
			CgroupParent:    podSlice(s),
			Resources:       linuxResources(s.Resources),
			SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: hostNetwork()},
		},
	}
	run, err := r.rpc.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: c})
	if err != nil {
		return "", err
	}
	id := run.GetPodSandboxId()
	r.pods[id] = c
	return id, r.place(id, id)
}

// place remembers the cgroup of a container or sandbox.
func (r *realRuntime) place(podID, id string) error {
	parent, err := cgroup.PodPath(r.pods[podID].GetLinux().GetCgroupParent(), cgroup.DriverSystemd)
	r.paths[id] = parent.Join(r.scope(id))
	return err
}

func (r *realRuntime) StopPod(id string) error {
	ctx, cancel := call()
	defer cancel()
	_, err := r.rpc.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

func (r *realRuntime) RemovePod(id string) error {
	ctx, cancel := call()
	defer cancel()
	return guestnode.RemovePod(ctx, r.rpc, id)
}

func (r *realRuntime) CreateContainer(podID string, s testnode.ContainerSpec) (string, error) {
	ctx, cancel := call()
	defer cancel()
	created, err := r.rpc.CreateContainer(ctx, &runtime.CreateContainerRequest{
		PodSandboxId:  podID,
		SandboxConfig: r.pods[podID],
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: s.Name, Attempt: s.Attempt},
			Labels:   containerLabels(s.Name),
			Image:    &runtime.ImageSpec{Image: manifest.Image},
			Args:     []string{"pause"},
			Linux: &runtime.LinuxContainerConfig{
				Resources:       linuxResources(s.Resources),
				SecurityContext: &runtime.LinuxContainerSecurityContext{NamespaceOptions: hostNetwork()},
			},
		},
	})
	if err != nil {
		return "", err
	}
	id := created.GetContainerId()
	r.in[id], r.has[id] = podID, linuxResources(s.Resources)
	return id, r.place(podID, id)
}

func (r *realRuntime) StartContainer(id string) error {
	ctx, cancel := call()
	defer cancel()
	_, err := r.rpc.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: id})
	return err
}

func (r *realRuntime) StopContainer(id string) error {
	ctx, cancel := call()
	defer cancel()
	_, err := r.rpc.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: id})
	return err
}

func (r *realRuntime) RemoveContainer(id string) error {
	ctx, cancel := call()
	defer cancel()
	_, err := r.rpc.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: id})
	return err
}

// Resize sends the pod's total, too, if the runtime supports that field.
func (r *realRuntime) Resize(id string, to cri.Resources) error {
	ctx, cancel := call()
	defer cancel()
	was, is := r.has[id], linuxResources(to)
	if _, err := r.rpc.UpdateContainerResources(ctx, &runtime.UpdateContainerResourcesRequest{ContainerId: id, Linux: is}); err != nil {
		return err
	}
	r.has[id] = is
	r.resized++
	total := r.pods[r.in[id]].GetLinux().GetResources()
	if total.GetCpuShares() == 0 {
		return nil
	}
	total.CpuShares += is.GetCpuShares() - was.GetCpuShares()
	total.CpuQuota += is.GetCpuQuota() - was.GetCpuQuota()
	_, err := r.rpc.UpdatePodSandboxResources(ctx, &runtime.UpdatePodSandboxResourcesRequest{PodSandboxId: r.in[id], Resources: total})
	return err
}

// directory returns the directory of a container's cgroup.
func (r *realRuntime) directory(id string) string { return "/sys/fs/cgroup/" + string(r.paths[id]) }

func (r *realRuntime) CPUs(id string) (cpuset.Set, bool) {
	p, known := r.paths[id]
	if !known {
		return cpuset.Set{}, false
	}
	return r.cpus(p)
}

func (r *realRuntime) UnitCPUs(name string) (cpuset.Set, bool) {
	return r.cpus(cgroup.Path("system.slice").Join(name))
}

func (r *realRuntime) cpus(p cgroup.Path) (cpuset.Set, bool) {
	st, err := r.cgroups.Read(p)
	return st.Effective, err == nil && st.Populated
}
