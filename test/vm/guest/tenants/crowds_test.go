//go:build guest

package tenants_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// fewThreads is the minimum number of threads that the node must bear, so that the test means something.
const fewThreads = 10_000

// TestCrowds starts a privileged pod with 20,000 cgroups in its own cgroup, and a privileged pod with as many threads as the node bears, at most
// 25,000. Meanwhile pods with exclusive CPUs start and become partitions. The daemon reports no problem of another pod. The test makes the pods
// over CRI: the kubelet watches each cgroup, and an emulated node has no time for anything else then.
func TestCrowds(t *testing.T) {
	n := newCrowded(t)
	copyProgram(t)
	n.StartDaemon(strings.Replace(configuration, "cpus: 4-7\n", "cpus: 4-7\n  isolation: partition\n", 1))
	quiet := n.rounds("before")

	n.start("nested", 0)
	n.start("crowd", 0)
	cgroups := n.grown("nested", nested)
	threads := n.grown("crowd", crowd)
	if cgroups < nested || threads < fewThreads {
		t.Errorf("%d cgroups and %d threads; want at least %d and %d", cgroups, threads, nested, fewThreads)
	}
	before, began := n.cpuTime(), time.Now()
	attacked := n.rounds("attacked")
	used, window := n.cpuTime()-before, time.Since(began)
	t.Logf("with %d cgroups and %d threads: creation and start of a container in %v, %v before; daemon: %d KiB of memory at most, %.2f of one CPU", cgroups,
		threads, attacked.Round(time.Millisecond), quiet.Round(time.Millisecond), n.peak()>>10, used.Seconds()/window.Seconds())
	for _, p := range n.status().Problems {
		if p.Pod != "default/"+n.FullName("nested") && p.Pod != "default/"+n.FullName("crowd") {
			t.Errorf("problem of another pod = %+v; want none", p)
		}
	}
}

// crowded is a node without a kubelet.
type crowded struct {
	node
	rpc  runtime.RuntimeServiceClient
	made int
}

// newCrowded stops the kubelet. It removes all pods at the end of the test.
func newCrowded(t *testing.T) *crowded {
	t.Helper()
	n := &crowded{node: node{guestnode.New(t)}}
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

// rounds starts and ends pods with an exclusive CPU. Each becomes a partition. It returns the median time from the creation to the start of a container.
func (n *crowded) rounds(name string) time.Duration {
	n.Helper()
	var took []time.Duration
	for i := range rounds {
		pod := fmt.Sprintf("%s-%d", name, i)
		sandbox, lasted := n.start(pod, 1)
		took = append(took, lasted)
		n.owns(pod)
		n.isPartition(pod)
		n.answersProbes()
		n.remove(sandbox)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// start starts a pod with one container. With exclusive CPUs, the container sleeps in a Guaranteed pod. Without, it runs the attack of the pod's name in
// a privileged pod. It returns the id of the sandbox, and the time for the creation and the start of the container.
func (n *crowded) start(name string, exclusive int64) (sandbox string, lasted time.Duration) {
	n.Helper()
	class, attacks := guaranteed, exclusive == 0
	resources := wholeCPUs(exclusive)
	if attacks {
		class, resources = bestEffort, &runtime.LinuxContainerResources{CpuShares: 2}
	}
	p := n.sandbox(name, class, resources, attacks)
	if attacks {
		p.container.Command, p.container.Args = []string{programInside, "attack", name}, nil
		p.container.Mounts = []*runtime.Mount{{HostPath: program, ContainerPath: programInside}, {HostPath: progress, ContainerPath: progressInside}}
	}
	ctx, cancel := context.WithTimeout(n.Context(), guestnode.NodeTimeout)
	defer cancel()
	for {
		began := time.Now()
		_, err := n.run(ctx, p)
		switch {
		case err == nil:
			return p.id, time.Since(began)
		case ctx.Err() != nil || !guestnode.TriesAgain(err):
			n.Fatalf("start container of %s: %v\n%s", name, err, n.Evidence())
		}
		n.Logf("tried again: %v", err)
	}
}

// The QoS classes of pods, as parts of the names of their cgroups.
const (
	guaranteed = ""
	burstable  = "-burstable"
	bestEffort = "-besteffort"
)

// wholeCPUs returns the resources of a container that requests whole CPUs in a Guaranteed pod.
func wholeCPUs(cpus int64) *runtime.LinuxContainerResources {
	return &runtime.LinuxContainerResources{CpuShares: cpus * 1024, CpuQuota: cpus * 100_000, CpuPeriod: 100_000}
}

// criPod is a running sandbox and its container, which may not exist yet.
type criPod struct {
	id        string
	config    *runtime.PodSandboxConfig
	container *runtime.ContainerConfig
}

// sandbox starts a pod without a container.
func (n *crowded) sandbox(name, class string, resources *runtime.LinuxContainerResources, privileged bool) criPod {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), guestnode.NodeTimeout)
	defer cancel()
	n.made++
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n.made)
	host := &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE, Pid: runtime.NamespaceMode_CONTAINER}
	p := criPod{
		config: &runtime.PodSandboxConfig{
			Metadata: &runtime.PodSandboxMetadata{Name: n.FullName(name), Namespace: "default", Uid: uid},
			Linux: &runtime.LinuxPodSandboxConfig{
				CgroupParent:    "kubepods" + class + "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice",
				Resources:       resources,
				SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: host, Privileged: privileged},
			},
		},
		container: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: "app"}, Image: &runtime.ImageSpec{Image: manifest.Image}, Args: []string{"pause"},
			Labels: map[string]string{"io.kubernetes.container.name": "app"},
			Linux: &runtime.LinuxContainerConfig{Resources: resources,
				SecurityContext: &runtime.LinuxContainerSecurityContext{NamespaceOptions: host, Privileged: privileged}},
		},
	}
	made, err := n.rpc.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		n.Fatalf("run pod %s: %v", name, err)
	}
	p.id = made.GetPodSandboxId()
	return p
}

// create creates the pod's container for the next time, and returns its id.
func (n *crowded) create(ctx context.Context, p criPod) (string, error) {
	made, err := n.rpc.CreateContainer(ctx, &runtime.CreateContainerRequest{PodSandboxId: p.id, SandboxConfig: p.config, Config: p.container})
	p.container.Metadata.Attempt++
	return made.GetContainerId(), err
}

// run creates and starts the pod's container.
func (n *crowded) run(ctx context.Context, p criPod) (id string, err error) {
	if id, err = n.create(ctx, p); err == nil {
		_, err = n.rpc.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: id})
	}
	return id, err
}

// remove stops and removes a pod.
func (n *crowded) remove(sandbox string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), guestnode.NodeTimeout)
	defer cancel()
	if err := guestnode.RemovePod(ctx, n.rpc, sandbox); err != nil {
		n.Error(err)
	}
}

// removeAll removes all pods.
func (n *crowded) removeAll() {
	n.Helper()
	pods, _, err := n.Client.List(context.Background())
	if err != nil {
		n.Fatal(err)
	}
	for _, p := range pods {
		n.remove(p.ID)
	}
}

// grown waits until an attack has made all attempts, or makes no more, and returns their number.
func (n *crowded) grown(name string, all int64) (count int64) {
	n.Helper()
	last, since := int64(-1), time.Now()
	n.Every(time.Second, "end of attack "+name, func() error {
		text, err := os.ReadFile(filepath.Join(progress, name))
		if err == nil {
			count, err = strconv.ParseInt(string(text), 10, 64)
		}
		if err != nil {
			return err
		}
		if count != last {
			last, since = count, time.Now()
		}
		if count < all && (count == 0 || time.Since(since) < 20*time.Second) {
			return fmt.Errorf("%d of %d", count, all)
		}
		return nil
	})
	return count
}

// isPartition checks that the kernel has made a valid partition of the pod's container.
func (n *crowded) isPartition(pod string) {
	n.Helper()
	n.Eventually("partition of "+pod, func() error {
		own, err := n.Find(pod, "app")
		if err != nil {
			return err
		}
		text, err := n.FS.ReadFile(own.Path, cgroup.FilePartition)
		if state := strings.TrimSpace(string(text)); err == nil && state != "isolated" && state != "root" {
			err = fmt.Errorf("it is %q", state)
		}
		return err
	})
}
