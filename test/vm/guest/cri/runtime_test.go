//go:build guest

package cri_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

const (
	image = "localhost/cpupoold/work:1"
	// limit bounds one call: the machine is emulated.
	limit = 2 * time.Minute
)

// readNode returns the image's description of its runtime.
func readNode(t *testing.T) guestnode.Runtime {
	t.Helper()
	node, err := guestnode.ReadRuntime()
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// kubelet makes pods and containers on a real runtime, in the place of the
// kubelet, which would remove pods that it does not know.
type kubelet struct {
	node guestnode.Runtime
	rpc  runtime.RuntimeServiceClient
	pods map[string]*runtime.PodSandboxConfig
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	command(t, "systemctl", "stop", "kubelet")
	t.Cleanup(func() { command(t, "systemctl", "start", "kubelet") })
	node := readNode(t)
	conn, err := grpc.NewClient("unix://"+node.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return &kubelet{node, runtime.NewRuntimeServiceClient(conn), make(map[string]*runtime.PodSandboxConfig)}
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (k *kubelet) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

func (k *kubelet) RunPod(s testnode.PodSpec) (string, error) {
	config := &runtime.PodSandboxConfig{
		Metadata: &runtime.PodSandboxMetadata{Name: s.Name, Namespace: s.Namespace, Uid: s.UID},
		Labels: map[string]string{
			"io.kubernetes.pod.name": s.Name, "io.kubernetes.pod.namespace": s.Namespace, "io.kubernetes.pod.uid": s.UID,
		},
		Annotations:  s.Annotations,
		LogDirectory: "/var/log/pods/" + s.UID,
		Linux: &runtime.LinuxPodSandboxConfig{
			CgroupParent: k.parent(s),
			Resources:    resources(s.Resources),
			SecurityContext: &runtime.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE},
			},
		},
	}
	ctx, cancel := k.call()
	defer cancel()
	r, err := k.rpc.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: config, RuntimeHandler: s.RuntimeHandler})
	if err != nil {
		return "", err
	}
	k.pods[r.GetPodSandboxId()] = config
	return r.GetPodSandboxId(), nil
}

// parent names the pod's cgroup as the kubelet does.
func (k *kubelet) parent(s testnode.PodSpec) string {
	guaranteed := s.QoS == "" || s.QoS == "guaranteed"
	if k.node.Driver == cgroup.DriverCgroupfs {
		if guaranteed {
			return "/kubepods/pod" + s.UID
		}
		return "/kubepods/" + s.QoS + "/pod" + s.UID
	}
	slice := "kubepods-pod"
	if !guaranteed {
		slice = "kubepods-" + s.QoS + "-pod"
	}
	return slice + strings.ReplaceAll(s.UID, "-", "_") + ".slice"
}

func (k *kubelet) StopPod(id string) error {
	ctx, cancel := k.call()
	defer cancel()
	_, err := k.rpc.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

func (k *kubelet) RemovePod(id string) error {
	ctx, cancel := k.call()
	defer cancel()
	if _, err := k.rpc.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		return err
	}
	parent := k.pods[id].GetLinux().GetCgroupParent()
	delete(k.pods, id)
	if k.node.Driver == cgroup.DriverCgroupfs {
		return os.Remove(filepath.Join("/sys/fs/cgroup", parent))
	}
	if out, err := exec.CommandContext(ctx, "systemctl", "stop", parent).CombinedOutput(); err != nil {
		return fmt.Errorf("stop %s: %w: %s", parent, err, out)
	}
	return nil
}

func (k *kubelet) CreateContainer(podID string, s testnode.ContainerSpec) (string, error) {
	ctx, cancel := k.call()
	defer cancel()
	r, err := k.rpc.CreateContainer(ctx, &runtime.CreateContainerRequest{
		PodSandboxId: podID,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: s.Name, Attempt: s.Attempt},
			Image:    &runtime.ImageSpec{Image: image},
			Args:     []string{"sleep"},
			LogPath:  s.Name + ".log",
			Linux:    &runtime.LinuxContainerConfig{Resources: resources(s.Resources)},
		},
		SandboxConfig: k.pods[podID],
	})
	return r.GetContainerId(), err
}

func (k *kubelet) StartContainer(id string) error {
	ctx, cancel := k.call()
	defer cancel()
	_, err := k.rpc.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: id})
	return err
}

func (k *kubelet) StopContainer(id string) error {
	ctx, cancel := k.call()
	defer cancel()
	_, err := k.rpc.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: id})
	return err
}

func (k *kubelet) RemoveContainer(id string) error {
	ctx, cancel := k.call()
	defer cancel()
	_, err := k.rpc.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: id})
	return err
}

func resources(r cri.Resources) *runtime.LinuxContainerResources {
	return &runtime.LinuxContainerResources{CpuShares: int64(r.Shares), CpuQuota: r.Quota, CpuPeriod: r.Period, CpusetCpus: r.CPUs}
}
