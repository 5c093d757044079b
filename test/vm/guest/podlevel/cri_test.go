//go:build guest

package podlevel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// kubelet sends requests to the runtime that the real kubelet sends only with an API server. The real kubelet is stopped, because it ends containers
// that it does not know.
type kubelet struct {
	*node
	rpc runtime.RuntimeServiceClient
}

func (n *node) instead() *kubelet {
	n.Helper()
	n.Run("systemctl", "stop", "kubelet")
	conn, err := grpc.NewClient("unix://"+n.Runtime.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = conn.Close() })
	return &kubelet{n, runtime.NewRuntimeServiceClient(conn)}
}

// resources returns the resources of a container, or the total of a pod, with a number of whole CPUs
// (k8s.io/kubernetes 1.37.0, pkg/kubelet/kuberuntime/kuberuntime_container_linux.go).
func resources(cpus int) *runtime.LinuxContainerResources {
	return &runtime.LinuxContainerResources{CpuShares: int64(cpus) * 1024, CpuQuota: int64(cpus) * 100_000, CpuPeriod: 100_000}
}

// onHost returns the namespaces of the pods of this test. Each container has its own PID namespace, as in a pod without
// shareProcessNamespace.
func onHost() *runtime.NamespaceOption {
	return &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE, Pid: runtime.NamespaceMode_CONTAINER}
}

// sandbox returns the configuration of a sandbox without resources.
func sandbox(p cri.Pod) *runtime.PodSandboxConfig {
	return &runtime.PodSandboxConfig{
		Metadata:     &runtime.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: p.UID},
		LogDirectory: "/var/log/pods/" + p.UID,
		Linux: &runtime.LinuxPodSandboxConfig{
			CgroupParent:    "kubepods-pod" + strings.ReplaceAll(p.UID, "-", "_") + ".slice",
			SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: onHost()},
		},
	}
}

// create starts a container with the resources of the whole pod, as the kubelet does for one without its own.
func (k *kubelet) create(p cri.Pod, name string, cpus int) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), guestnode.NodeTimeout)
	defer cancel()
	if err := os.MkdirAll(sandbox(p).GetLogDirectory(), 0o755); err != nil { // CRI-O requires it
		k.Fatal(err)
	}
	request := &runtime.CreateContainerRequest{
		PodSandboxId:  p.ID,
		SandboxConfig: sandbox(p),
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: name},
			Labels: map[string]string{
				"io.kubernetes.container.name": name, "io.kubernetes.pod.name": p.Name,
				"io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID,
			},
			Image:   &runtime.ImageSpec{Image: manifest.Image},
			Args:    []string{"pause"},
			LogPath: name + ".log",
			Linux: &runtime.LinuxContainerConfig{
				Resources:       resources(cpus),
				SecurityContext: &runtime.LinuxContainerSecurityContext{NamespaceOptions: onHost()},
			},
		},
	}
	k.Every(time.Second, "creation of "+name, func() error {
		created, err := k.rpc.CreateContainer(ctx, request)
		if err == nil {
			_, err = k.rpc.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: created.GetContainerId()})
		}
		if err != nil && !guestnode.TriesAgain(err) {
			k.Fatalf("create %s: %v\n%s", name, err, k.Evidence())
		}
		request.Config.Metadata.Attempt++
		return err
	})
}

// TestEphemeral checks row 22: an ephemeral container shares the pool of the pod.
func TestEphemeral(t *testing.T) {
	n := newNode(t)
	n.Apply(pod("p22", 4, bare("a"), bare("b")))
	before := n.settles("before", of("p22", map[string]string{"a": "pool 4", "b": "pool 4"}))
	a, err := n.Find("p22", "a")
	if err != nil {
		t.Fatal(err)
	}
	n.instead().create(a.Pod, "e", 4)
	n.keeps("beside it", before, n.settles("beside it", of("p22", map[string]string{"a": "pool 4", "b": "pool 4", "e": "pool 4"})))
}

// TestResize checks row 25: the pod grows from 4 to 5 CPUs, and shrinks to 4. In between, pod and containers have different values. The kubelet
// uses this order and these values (k8s.io/kubernetes 1.37.0, pkg/kubelet/kuberuntime/kuberuntime_manager.go, doPodResizeAction). It sends the new quota of a pod
// before the shares, and it compares the quota with the one of the cgroup. The daemon has lifted that one, so each quota is a rise.
func TestResize(t *testing.T) {
	n := newNode(t)
	n.Apply(pod("p25", 4, bare("a"), bare("b")))
	four := of("p25", map[string]string{"a": "pool 4", "b": "pool 4"})
	five := of("p25", map[string]string{"a": "pool 5", "b": "pool 5"})
	n.settles("before", four)
	a, errA := n.Find("p25", "a")
	b, errB := n.Find("p25", "b")
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	k := n.instead()
	// The daemon knows only of a pod that is ten minutes old that no container was an init container.
	n.Run("date", "-s", "+11 minutes")
	n.Run("systemctl", "restart", "cpupoold")
	n.connected()
	before := n.settles("eleven minutes later", four)

	ctx, cancel := context.WithTimeout(t.Context(), guestnode.NodeTimeout)
	defer cancel()
	ofPod := func(shares, quota int) error {
		r := resources(shares)
		r.CpuQuota = resources(quota).CpuQuota
		_, err := k.rpc.UpdatePodSandboxResources(ctx, &runtime.UpdatePodSandboxResourcesRequest{PodSandboxId: a.PodID, Resources: r})
		if err == nil {
			_, err = n.Try("systemctl", "set-property", "--runtime", path.Base(string(a.Path.Parent())), fmt.Sprintf("CPUQuota=%d00%%", quota))
		}
		return err
	}
	ofContainer := func(id string, cpus int) error {
		_, err := k.rpc.UpdateContainerResources(ctx, &runtime.UpdateContainerResourcesRequest{ContainerId: id, Linux: resources(cpus)})
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
		want roles
	}{
		{"the pod has the quota of 5", func() error { return ofPod(4, 5) }, four},
		{"the pod grows", func() error { return ofPod(5, 5) }, four},
		{"a grows", func() error { return ofContainer(a.ID, 5) }, four},
		{"b grows", func() error { return ofContainer(b.ID, 5) }, five},
		{"the pod has the quota of 4", func() error { return ofPod(5, 4) }, five},
		{"a shrinks", func() error { return ofContainer(a.ID, 4) }, five},
		{"b shrinks", func() error { return ofContainer(b.ID, 4) }, four},
		{"the pod shrinks", func() error { return ofPod(4, 4) }, four},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v\n%s", step.name, err, n.Evidence())
		}
		if !n.Runtime.NRI { // only NRI reports a resize; docs/explanation/guarantees.md
			n.Run("systemctl", "restart", "cpupoold")
			n.connected()
		}
		now := n.settles(step.name, step.want)
		if was, is := before["p25/a"], now["p25/a"]; !was.IsSubsetOf(is) && !is.IsSubsetOf(was) {
			t.Errorf("%s: CPUs of a changed from %s to %s; want one a subset of the other", step.name, was, is)
		}
		n.keeps(step.name, cpus{"owner/app": before["owner/app"]}, now)
		before = now
	}
}

// TestTotalUnknown checks row 24: the sandbox has no resources. The quota of the pod's cgroup counts. Without a quota, no container gets the CPUs of
// the pod. The kubelet always sends the resources, so the test makes the sandbox.
func TestTotalUnknown(t *testing.T) {
	n := newNode(t)
	k := n.instead()
	for i, tt := range []struct {
		pod   string
		quota string // of the pod's cgroup
		want  string
	}{
		{"quota", "400%", "pool 4"},
		{"none", "", "shared"},
	} {
		p := cri.Pod{Name: tt.pod, Namespace: "default", UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i)}
		config := sandbox(p)
		slice := config.GetLinux().GetCgroupParent()
		n.Run("systemctl", "start", slice)
		n.Run("systemctl", "set-property", "--runtime", slice, "CPUQuota="+tt.quota)
		run, err := k.rpc.RunPodSandbox(t.Context(), &runtime.RunPodSandboxRequest{Config: config})
		if err != nil {
			t.Fatal(err)
		}
		p.ID = run.GetPodSandboxId()
		k.create(p, "a", 4)
		n.settles(tt.pod+": one container", of(tt.pod, map[string]string{"a": "own 4"}))
		k.create(p, "b", 4)
		n.settles(tt.pod+": two containers", of(tt.pod, map[string]string{"a": tt.want, "b": tt.want}))
		unknown := slices.ContainsFunc(n.Plan().Plan.Problems, func(problem pools.Problem) bool {
			return problem.PodUID == p.UID && problem.Code == pools.CodePodTotalUnknown
		})
		if unknown != (tt.want == "shared") {
			t.Errorf("%s: problem %s is %t", tt.pod, pools.CodePodTotalUnknown, unknown)
		}
		if _, err := k.rpc.StopPodSandbox(t.Context(), &runtime.StopPodSandboxRequest{PodSandboxId: p.ID}); err != nil {
			t.Fatal(err)
		}
	}
}
