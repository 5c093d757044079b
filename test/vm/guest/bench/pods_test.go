//go:build guest

package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// maker makes pods over CRI, in the place of the kubelet. Several goroutines may use it.
type maker struct {
	rpc  runtime.RuntimeServiceClient
	made atomic.Int64

	mu    sync.Mutex      // guards asked
	asked []time.Duration // duration of each creation, including the daemon's NRI reply
}

func newMaker(t *testing.T) *maker {
	t.Helper()
	conn, err := grpc.NewClient(runtimeSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &maker{rpc: runtime.NewRuntimeServiceClient(conn)}
}

// kind holds the resource requests of a pod's containers.
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

// scope is the cgroup of a container.
func (p pod) scope(container string) cgroup.Path {
	return p.slice.Join("cri-containerd-" + container + ".scope")
}

// sandbox makes a pod that will have n containers.
func (m *maker) sandbox(ctx context.Context, k kind, n int64) (pod, error) {
	number := m.made.Add(1)
	uid := fmt.Sprintf("00000000-0000-4000-9000-%012d", number)
	slice := "kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	res, total := &runtime.LinuxContainerResources{CpuShares: 102}, &runtime.LinuxContainerResources{CpuShares: 102 * n}
	if k.cpus > 0 {
		slice = strings.Replace(slice, "burstable-", "", 1)
		res, total = whole(k.cpus), whole(n*k.cpus)
	}
	p := pod{res: res, config: &runtime.PodSandboxConfig{
		Metadata:    &runtime.PodSandboxMetadata{Name: fmt.Sprintf("pod%d", number), Namespace: k.namespace, Uid: uid},
		Annotations: k.annotations,
		Linux: &runtime.LinuxPodSandboxConfig{CgroupParent: slice, Resources: total,
			SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: hostNetwork()}},
	}}
	made, err := m.rpc.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return pod{}, fmt.Errorf("run pod: %w", err)
	}
	p.id = made.GetPodSandboxId()
	p.slice, err = cgroup.PodPath(slice, cgroup.DriverSystemd)
	return p, err
}

func whole(cpus int64) *runtime.LinuxContainerResources {
	return &runtime.LinuxContainerResources{CpuShares: cpus * 1024, CpuQuota: cpus * 100_000, CpuPeriod: 100_000}
}

func hostNetwork() *runtime.NamespaceOption {
	return &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE}
}

// create makes a container that does nothing, for the attempt-th time, and does not start it.
func (m *maker) create(ctx context.Context, p pod, name string, attempt int) (string, error) {
	began := time.Now()
	made, err := m.rpc.CreateContainer(ctx, &runtime.CreateContainerRequest{
		PodSandboxId:  p.id,
		SandboxConfig: p.config,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: name, Attempt: uint32(attempt)},
			Image:    &runtime.ImageSpec{Image: manifest.Image},
			Args:     []string{"pause"},
			Linux: &runtime.LinuxContainerConfig{Resources: p.res,
				SecurityContext: &runtime.LinuxContainerSecurityContext{NamespaceOptions: hostNetwork()}},
		},
	})
	if err != nil {
		return "", fmt.Errorf("create container: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, time.Since(began))
	return made.GetContainerId(), nil
}

func (m *maker) start(ctx context.Context, container string) error {
	_, err := m.rpc.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: container})
	return err
}

// end ends a container at once, and removes it.
func (m *maker) end(ctx context.Context, container string) error {
	if _, err := m.rpc.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: container}); err != nil {
		return err
	}
	_, err := m.rpc.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: container})
	return err
}

func (m *maker) remove(ctx context.Context, p pod) error {
	if _, err := m.rpc.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return err
	}
	_, err := m.rpc.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: p.id})
	return err
}

// answers returns the durations of creations since its last call.
func (m *maker) answers() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked
	m.asked = nil
	slices.Sort(asked)
	return fmt.Sprintf("created in %v (p50), %v at most", asked[len(asked)/2], asked[len(asked)-1])
}
