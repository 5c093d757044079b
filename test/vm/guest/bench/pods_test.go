//go:build guest

package bench_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// maker makes pods over CRI, in the place of the kubelet.
type maker struct {
	*testing.T
	rpc  runtime.RuntimeServiceClient
	made int
}

func newMaker(t *testing.T) *maker {
	t.Helper()
	conn, err := grpc.NewClient("unix:///run/containerd/containerd.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &maker{T: t, rpc: runtime.NewRuntimeServiceClient(conn)}
}

// kind is what a pod's containers ask for.
type kind struct {
	namespace   string
	annotations map[string]string
	cpus        int64 // whole ones of each container; 0 is Burstable with a tenth
}

// pod is a sandbox whose containers are made one by one.
type pod struct {
	id     string
	config *runtime.PodSandboxConfig
	res    *runtime.LinuxContainerResources // of each container
	slice  cgroup.Path
}

// sandbox makes a pod that will have n containers.
func (m *maker) sandbox(k kind, n int64) pod {
	m.Helper()
	m.made++
	uid := fmt.Sprintf("00000000-0000-4000-9000-%012d", m.made)
	slice := "kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	res, total := &runtime.LinuxContainerResources{CpuShares: 102}, &runtime.LinuxContainerResources{CpuShares: 102 * n}
	if k.cpus > 0 {
		slice = strings.Replace(slice, "burstable-", "", 1)
		res, total = whole(k.cpus), whole(n*k.cpus)
	}
	p := pod{res: res, config: &runtime.PodSandboxConfig{
		Metadata:    &runtime.PodSandboxMetadata{Name: fmt.Sprintf("pod%d", m.made), Namespace: k.namespace, Uid: uid},
		Annotations: k.annotations,
		Linux: &runtime.LinuxPodSandboxConfig{CgroupParent: slice, Resources: total,
			SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: hostNetwork()}},
	}}
	made, err := m.rpc.RunPodSandbox(m.Context(), &runtime.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		m.Fatalf("run pod: %v", err)
	}
	p.id = made.GetPodSandboxId()
	if p.slice, err = cgroup.PodPath(slice, cgroup.DriverSystemd); err != nil {
		m.Fatal(err)
	}
	return p
}

func whole(cpus int64) *runtime.LinuxContainerResources {
	return &runtime.LinuxContainerResources{CpuShares: cpus * 1024, CpuQuota: cpus * 100_000, CpuPeriod: 100_000}
}

func hostNetwork() *runtime.NamespaceOption {
	return &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE}
}

// create makes a container that does nothing, and does not start it.
func (m *maker) create(p pod, name string) string {
	m.Helper()
	made, err := m.rpc.CreateContainer(m.Context(), &runtime.CreateContainerRequest{
		PodSandboxId:  p.id,
		SandboxConfig: p.config,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: name},
			Image:    &runtime.ImageSpec{Image: manifest.Image},
			Args:     []string{"pause"},
			Linux: &runtime.LinuxContainerConfig{Resources: p.res,
				SecurityContext: &runtime.LinuxContainerSecurityContext{NamespaceOptions: hostNetwork()}},
		},
	})
	if err != nil {
		m.Fatalf("create container: %v", err)
	}
	return made.GetContainerId()
}

func (m *maker) start(container string) {
	m.Helper()
	if _, err := m.rpc.StartContainer(m.Context(), &runtime.StartContainerRequest{ContainerId: container}); err != nil {
		m.Fatalf("start container: %v", err)
	}
}

func (m *maker) remove(p pod) {
	m.Helper()
	if _, err := m.rpc.StopPodSandbox(m.Context(), &runtime.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		m.Fatalf("stop pod: %v", err)
	}
	if _, err := m.rpc.RemovePodSandbox(m.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
		m.Fatalf("remove pod: %v", err)
	}
}
