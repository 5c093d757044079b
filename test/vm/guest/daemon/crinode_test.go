//go:build guest

package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// runtimeNode makes pods directly over CRI, in the place of the kubelet, which would end pods that it does not know.
type runtimeNode struct {
	*node
	rpc  runtime.RuntimeServiceClient
	made atomic.Int64
	// inSystem makes pods in the kubelet's system partition.
	inSystem bool
}

// withoutKubelet stops the kubelet until the end of the test. The cleanup removes the containers
// of the test.
func (n *node) withoutKubelet() *runtimeNode {
	n.Helper()
	n.run("systemctl", "stop", "kubelet")
	conn, err := grpc.NewClient("unix://"+n.image.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.Fatal(err)
	}
	r := &runtimeNode{node: n, rpc: runtime.NewRuntimeServiceClient(conn)}
	n.Cleanup(func() {
		if !n.keepsPods {
			r.removeAll()
		}
		_ = conn.Close()
	})
	return r
}

func (r *runtimeNode) removeAll() {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	pods, _, err := r.client.List(ctx)
	if err != nil {
		r.Fatal(err)
	}
	for _, p := range pods {
		r.removePod(pod{id: p.ID})
	}
}

// pod and its one container.
type pod struct {
	id, container, name string
	path                cgroup.Path // of the container
	log                 string      // file
}

// start makes a pod with one container of the given CPUs: whole ones are Guaranteed.
func (r *runtimeNode) start(milli int64, namespace string, annotations map[string]string) (pod, error) {
	return r.startWith(milli, namespace, annotations, "pause")
}

// startReporter starts a container whose process reports the CPUs that it had at its start.
func (r *runtimeNode) startReporter(milli int64) (pod, error) {
	return r.startWith(milli, "default", nil, "report")
}

func (r *runtimeNode) startWith(milli int64, namespace string, annotations map[string]string, command string) (pod, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	number := r.made.Add(1)
	name := fmt.Sprintf("pod%d", number)
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", number)
	slice := "kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	if milli%1000 != 0 {
		slice = "kubepods-burstable" + strings.TrimPrefix(slice, "kubepods")
	}
	if r.inSystem {
		slice = "kubepods-system" + strings.TrimPrefix(slice, "kubepods")
	}
	res := &runtime.LinuxContainerResources{CpuShares: max(milli*1024/1000, 2)}
	if milli%1000 == 0 {
		res.CpuQuota, res.CpuPeriod = milli*100, 100_000
	}
	sandbox := &runtime.PodSandboxConfig{
		Metadata:     &runtime.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: uid},
		Annotations:  annotations,
		LogDirectory: filepath.Join("/var/log/pods", uid),
		Linux:        &runtime.LinuxPodSandboxConfig{CgroupParent: slice, Resources: res, SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE}}},
	}
	if err := os.RemoveAll(sandbox.GetLogDirectory()); err != nil { // of a test before, which the runtime would append to
		return pod{}, err
	}
	run, err := r.rpc.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return pod{}, fmt.Errorf("run pod: %w", err)
	}
	p := pod{id: run.GetPodSandboxId(), name: name, log: filepath.Join(sandbox.GetLogDirectory(), "app.log")}
	if command == "" { // only the sandbox
		return p, nil
	}
	parent, err := cgroup.PodPath(slice, cgroup.DriverSystemd)
	if err != nil {
		return p, err
	}
	request := &runtime.CreateContainerRequest{
		PodSandboxId:  p.id,
		SandboxConfig: sandbox,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: "app"},
			Labels:   containerLabels("app"),
			Image:    &runtime.ImageSpec{Image: manifest.Image},
			Args:     []string{command},
			LogPath:  "app.log",
			Linux: &runtime.LinuxContainerConfig{Resources: res, SecurityContext: &runtime.LinuxContainerSecurityContext{
				NamespaceOptions: &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE}}},
		},
	}
	for {
		p.container, err = r.begin(ctx, request)
		if ctx.Err() != nil || !guestnode.TriesAgain(err) {
			p.path = parent.Join(r.scope(p.container))
			return p, err
		}
		r.Logf("tried again: %v", err)
		request.Config.Metadata.Attempt++
	}
}

// containerLabels returns the labels by which CRI-O reports the name of a container over NRI. The
// kubelet sets them.
func containerLabels(name string) map[string]string {
	return map[string]string{"io.kubernetes.container.name": name}
}

// begin creates and starts a container.
func (r *runtimeNode) begin(ctx context.Context, request *runtime.CreateContainerRequest) (id string, err error) {
	created, err := r.rpc.CreateContainer(ctx, request)
	if err != nil {
		return "", fmt.Errorf("create container: %w", err)
	}
	id = created.GetContainerId()
	if _, err := r.rpc.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: id}); err != nil {
		return id, fmt.Errorf("start container: %w", err)
	}
	return id, nil
}

// mustStart is start for pods that nothing disturbs.
func (r *runtimeNode) mustStart(milli int64, namespace string, annotations map[string]string) pod {
	r.Helper()
	p, err := r.start(milli, namespace, annotations)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

func (r *runtimeNode) removePod(p pod) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	if err := guestnode.RemovePod(ctx, r.rpc, p.id); err != nil {
		r.Error(err)
	}
}

// onCPUs waits until a pod's container runs on as many guaranteed CPUs as it has asked for, and returns them.
func (r *runtimeNode) onCPUs(p pod, count int) string {
	r.Helper()
	var cpus string
	r.eventually(p.name+" on exclusive CPUs", func() error {
		st, err := r.fs.Read(p.path)
		if err != nil {
			return err
		}
		cpus = st.Effective.String()
		if st.Effective.Len() != count || !st.Effective.IsSubsetOf(guaranteed()) {
			return fmt.Errorf("%s runs on %s", p.name, cpus)
		}
		return nil
	})
	return cpus
}
