//go:build guest

package firstcpus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// node makes pods directly over CRI, in the place of the kubelet, which would end pods that it does not know.
type node struct {
	*guestnode.Node

	rpc       runtime.RuntimeServiceClient
	made      atomic.Int64
	unstarted atomic.Int64 // containers that were created, and not let begin
}

// newNode stops the kubelet until the end of the test. The cleanup removes the containers
// of the test.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{Node: guestnode.New(t)}
	n.Run("systemctl", "stop", "kubelet")
	conn, err := grpc.NewClient("unix://"+n.Runtime.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	n.rpc = runtime.NewRuntimeServiceClient(conn)
	t.Cleanup(func() {
		n.removeAll()
		_ = conn.Close()
	})
	return n
}

// allowTime raises two timeouts of the runtime from 2 s to 20 s. The first is the wait for the daemon's NRI reply, after which a container
// begins anywhere. The second is containerd's wait for the state of a pod, after which it looks for the pod's namespaces at process 0.
// Emulated CPUs can exceed both.
func allowTime(t *testing.T) {
	t.Helper()
	n := guestnode.New(t)
	if n.Runtime.Name == "cri-o" {
		configure(n, "/etc/crio/crio.conf.d/time.conf", "[crio.nri]\nnri_plugin_request_timeout = \"20s\"\n")
		return
	}
	if isOld(n) {
		configure(n, oldConfig, stateTime)
		return
	}
	text := "version = 4\n" + stateTime
	if n.Runtime.NRI {
		text += "[plugins.'io.containerd.nri.v1.nri']\nplugin_request_timeout = '20s'\n"
	}
	configure(n, "/etc/containerd/conf.d/time.toml", text)
}

const (
	stateTime = "\n[timeouts]\n'io.containerd.timeout.task.state' = '20s'\n" // of containerd, see allowTime
	oldConfig = "/etc/containerd/config.toml"                                // all that containerd 1.7 reads
)

// isOld reports whether the runtime is containerd 1.7.
func isOld(n *guestnode.Node) bool {
	n.Helper()
	ctx, cancel := patiently()
	defer cancel()
	name, version, err := n.Client.Version(ctx)
	if err != nil {
		n.Fatal(err)
	}
	return name == "containerd" && strings.HasPrefix(strings.TrimPrefix(version, "v"), "1.7.")
}

// configure adds to a file of the runtime's, or makes it, until the end of the test.
func configure(n *guestnode.Node, file, text string) {
	n.Helper()
	before, err := os.ReadFile(file)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		if isNew {
			if err := os.Remove(file); err != nil {
				n.Error(err)
			}
		} else {
			n.Write(file, string(before))
		}
		restart(n)
	})
	n.Write(file, string(before)+text)
	restart(n)
}

// restart restarts the runtime and waits until it answers.
func restart(n *guestnode.Node) {
	n.Helper()
	n.Run("systemctl", "restart", n.Runtime.Unit)
	n.Eventually("runtime", func() error {
		ctx, cancel := patiently()
		defer cancel()
		_, _, err := n.Client.List(ctx)
		return err
	})
}

func patiently() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), guestnode.NodeTimeout)
}

// pod has one container, whose process reports its state at its start.
type pod struct {
	id, container, name string
	log                 string // file
	request             *runtime.CreateContainerRequest
}

// start makes a pod whose container asks for that many thousandths of a CPU: with whole ones it is Guaranteed.
func (n *node) start(milli int64, environment ...*runtime.KeyValue) (pod, error) {
	return n.startWith(milli, func(r *runtime.CreateContainerRequest) { r.Config.Envs = environment })
}

// startWith is start, with a change of the request that creates the container.
func (n *node) startWith(milli int64, change func(*runtime.CreateContainerRequest)) (pod, error) {
	ctx, cancel := patiently()
	defer cancel()
	number := n.made.Add(1)
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", number)
	res := &runtime.LinuxContainerResources{CpuShares: max(milli*1024/1000, 2)}
	if milli%1000 == 0 {
		res.CpuQuota, res.CpuPeriod = milli*100, 100_000
	}
	// As the kubelet does; without a PID namespace of the pod, CRI-O needs no process that holds it.
	namespaces := &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE, Pid: runtime.NamespaceMode_CONTAINER}
	name := fmt.Sprintf("pod%d", number)
	// The kubelet's labels: over NRI, CRI-O takes a container's name from them, and not from its metadata.
	labels := map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": uid}
	sandbox := &runtime.PodSandboxConfig{
		Metadata:     &runtime.PodSandboxMetadata{Name: name, Namespace: "default", Uid: uid},
		Labels:       maps.Clone(labels),
		LogDirectory: filepath.Join("/var/log/pods", uid),
		Linux: &runtime.LinuxPodSandboxConfig{
			CgroupParent:    n.parent(uid, milli%1000 == 0),
			Resources:       res,
			SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: namespaces},
		},
	}
	if err := os.RemoveAll(sandbox.GetLogDirectory()); err != nil { // of a test before, which the runtime would append to
		return pod{}, err
	}
	run, err := n.rpc.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return pod{}, fmt.Errorf("run pod: %w", err)
	}
	p := pod{id: run.GetPodSandboxId(), name: name, log: filepath.Join(sandbox.GetLogDirectory(), "app.log")}
	labels["io.kubernetes.container.name"] = "app"
	request := &runtime.CreateContainerRequest{
		PodSandboxId:  p.id,
		SandboxConfig: sandbox,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: "app"},
			Labels:   labels,
			Image:    &runtime.ImageSpec{Image: manifest.Image},
			Args:     []string{"report"},
			LogPath:  "app.log",
			Linux: &runtime.LinuxContainerConfig{
				Resources:       res,
				SecurityContext: &runtime.LinuxContainerSecurityContext{NamespaceOptions: namespaces},
			},
		},
	}
	change(request)
	p.request = request
	p.container, err = n.beginAgain(ctx, request)
	return p, err
}

// beginAgain creates and starts a container, as often as the kubelet would.
func (n *node) beginAgain(ctx context.Context, request *runtime.CreateContainerRequest) (id string, err error) {
	for {
		id, err = n.begin(ctx, request)
		if ctx.Err() != nil || !guestnode.TriesAgain(err) {
			return id, err
		}
		n.Logf("tried again: %v", err)
		request.Config.Metadata.Attempt++
	}
}

// begin creates and starts a container.
func (n *node) begin(ctx context.Context, request *runtime.CreateContainerRequest) (id string, err error) {
	created, err := n.rpc.CreateContainer(ctx, request)
	if err != nil {
		return "", fmt.Errorf("create container: %w", err)
	}
	id = created.GetContainerId()
	if _, err := n.rpc.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: id}); err != nil {
		n.unstarted.Add(1)
		return id, fmt.Errorf("start container: %w", err)
	}
	return id, nil
}

// parent names a pod's cgroup as the kubelet does.
func (n *node) parent(uid string, guaranteed bool) string {
	if n.Runtime.Driver == cgroup.DriverCgroupfs {
		if guaranteed {
			return "/kubepods/pod" + uid
		}
		return "/kubepods/burstable/pod" + uid
	}
	slice := "kubepods-pod"
	if !guaranteed {
		slice = "kubepods-burstable-pod"
	}
	return slice + strings.ReplaceAll(uid, "-", "_") + ".slice"
}

func (n *node) remove(id string) {
	n.Helper()
	ctx, cancel := patiently()
	defer cancel()
	if err := guestnode.RemovePod(ctx, n.rpc, id); err != nil {
		n.Error(err)
	}
}

func (n *node) removeAll() {
	n.Helper()
	ctx, cancel := patiently()
	defer cancel()
	pods, _, err := n.Client.List(ctx)
	if err != nil {
		n.Fatal(err)
	}
	for _, p := range pods {
		n.remove(p.ID)
	}
	if n.Runtime.Driver != cgroup.DriverCgroupfs {
		return
	}
	// The kubelet removes the cgroups of pods where systemd does not.
	for _, pattern := range []string{"/sys/fs/cgroup/kubepods/pod*", "/sys/fs/cgroup/kubepods/burstable/pod*"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			n.Fatal(err)
		}
		for _, dir := range dirs {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				n.Error(err)
			}
		}
	}
}

// cgroup returns the cgroup of a pod's container.
func (n *node) cgroup(p pod) (cgroup.State, error) {
	ctx, cancel := patiently()
	defer cancel()
	full, err := n.Client.ContainerStatus(ctx, p.container)
	if err != nil {
		return cgroup.State{}, err
	}
	if full.State != cri.Running {
		return cgroup.State{}, fmt.Errorf("container of %s does not run: %v", p.name, full.State)
	}
	path, err := cgroup.ContainerPath(full.CgroupsPath, n.Runtime.Driver)
	if err != nil {
		return cgroup.State{}, err
	}
	return n.FS.Read(path)
}

// metrics are the lines of the daemon's /metrics that begin with one of the prefixes.
func (n *node) metrics(prefixes ...string) (string, error) {
	ctx, cancel := patiently()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9466/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(string(body)) {
		for _, prefix := range prefixes {
			if strings.HasPrefix(line, prefix) {
				b.WriteString(line)
			}
		}
	}
	return b.String(), nil
}
