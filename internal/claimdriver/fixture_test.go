package claimdriver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/claimdriver"
	claimslices "github.com/cpupoold/cpupoold/internal/claimdriver/slices"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// daemon answers the control socket of a node with CPUs 2-5 in device numa0 and 6-9 in numa1.
type daemon struct {
	mu      sync.Mutex
	log     *history.Log
	last    *history.Snapshot
	started time.Time
	answer  inspect.Claims
	refuse  error // of each preparation
	held    map[string]chan struct{}
}

func newDaemon() *daemon {
	l := history.New()
	device := func(name string, node int, cpus cpuset.Set) inspect.ClaimDevice {
		return inspect.ClaimDevice{Name: name, Node: node, CPUs: cpus, Free: cpus, Step: 1, Packages: []int{node}, L3s: 1, ThreadsPerCore: 1}
	}
	return &daemon{log: l, last: l.Snapshot(), started: time.Now(), answer: inspect.Claims{
		Version: inspect.Version, Ready: true, Devices: []inspect.ClaimDevice{device("numa0", 0, cpuset.Range(2, 5)), device("numa1", 1, cpuset.Range(6, 9))},
	}}
}

func (d *daemon) Started() time.Time                           { return d.started }
func (d *daemon) Status() *inspect.Status                      { return nil }
func (d *daemon) Explain(string) (*inspect.Explanation, error) { return nil, errors.New("not used") }

func (d *daemon) History() *history.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

func (d *daemon) Claims() *inspect.Claims {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.answer
	now.Started, now.Sequence, now.Claims = d.started, d.last.Last(), slices.Clone(d.answer.Claims)
	return &now
}

// change changes the node, and wakes the driver.
func (d *daemon) change(f func(*inspect.Claims)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.answer)
	d.log.Add(history.Event{Kind: history.Started})
	d.last = d.log.Snapshot()
}

// refuseAll makes each preparation fail, or none if err is nil.
func (d *daemon) refuseAll(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = err
}

// hold makes the preparation of a claim wait until release is called.
func (d *daemon) hold(uid string) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan struct{})
	d.held = map[string]chan struct{}{uid: c}
	return func() { close(c) }
}

// has reports whether a claim is prepared.
func (d *daemon) has(uid string) bool {
	return slices.ContainsFunc(d.Claims().Claims, func(c inspect.Claim) bool { return c.UID == uid })
}

func (d *daemon) prepare(_ context.Context, claim pools.Claim) (all []control.ClaimCPUs, err error) {
	d.mu.Lock()
	held := d.held[claim.UID]
	d.mu.Unlock()
	if held != nil {
		<-held
	}
	d.change(func(now *inspect.Claims) {
		if err = d.refuse; err != nil {
			return
		}
		i := slices.IndexFunc(now.Claims, func(c inspect.Claim) bool { return c.UID == claim.UID })
		if i >= 0 && now.Claims[i].PodUID != claim.PodUID {
			err = control.Conflict{Text: "the claim is prepared for another pod"}
			return
		}
		if i < 0 {
			c := inspect.Claim{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name, PodUID: claim.PodUID}
			taken := cpuset.Set{}
			for _, o := range now.Claims {
				taken = taken.Union(o.CPUs)
			}
			for _, p := range claim.Parts {
				free := now.Devices[slices.IndexFunc(now.Devices, func(d inspect.ClaimDevice) bool { return d.Name == p.Device })].CPUs.Difference(taken)
				if free.Len() < p.CPUs {
					err = control.Conflict{Text: fmt.Sprintf("%d CPUs of %s; want %d", free.Len(), p.Device, p.CPUs)}
					return
				}
				cpus := cpuset.Of(slices.Collect(free.All())[:p.CPUs]...)
				taken, c.CPUs = taken.Union(cpus), c.CPUs.Union(cpus)
				c.Parts = append(c.Parts, inspect.ClaimPart{Request: p.Request, Device: p.Device, ShareID: p.ShareID, CPUs: cpus})
			}
			now.Claims = append(now.Claims, c)
			i = len(now.Claims) - 1
		}
		for _, p := range now.Claims[i].Parts {
			all = append(all, control.ClaimCPUs(p))
		}
	})
	return all, err
}

func (d *daemon) end(_ context.Context, uid string) (err error) {
	d.change(func(now *inspect.Claims) {
		now.Claims = slices.DeleteFunc(now.Claims, func(c inspect.Claim) bool {
			if c.UID == uid && len(c.Containers) > 0 {
				err = control.Conflict{Text: "container " + c.Containers[0] + " runs"}
			}
			return c.UID == uid && err == nil
		})
	})
	return err
}

// node is a node with the driver, and this test as its kubelet.
type node struct {
	t       *testing.T
	ctx     context.Context // ends before the test is killed
	dir     string          // with run, kubelet and cdi
	daemon  *daemon
	api     *fake.Clientset
	log     *strings.Builder
	address string // of metrics and probes
	plugin  drapb.DRAPluginClient
	conn    *grpc.ClientConn
	stop    func() error // stops the driver, and returns its error
	away    func()       // stops the daemon's server
}

// newNode returns a node. Its driver runs and is registered.
func newNode(t *testing.T, objects ...runtime.Object) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "dra") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, sub := range []string{"run", "kubelet/plugins_registry"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), nodefixture.Timeout)
	t.Cleanup(cancel)
	n := &node{t: t, ctx: ctx, dir: dir, daemon: newDaemon(), api: fake.NewClientset(objects...)}
	n.serveDaemon()
	return n
}

// serveDaemon serves the control socket.
func (n *node) serveDaemon() {
	n.t.Helper()
	socket := control.Socket(filepath.Join(n.dir, "run"))
	server := control.New(nil, time.Minute, control.ClaimFuncs{Prepare: n.daemon.prepare, End: n.daemon.end}, n.daemon, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, socket) }()
	n.away = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("serve the control socket: %v", err)
		}
	})
	n.t.Cleanup(n.away)
	nodefixture.Eventually(n.t, "the daemon listens", func() bool { return control.NewClient(socket).Reach(n.ctx) == nil })
}

// start starts a driver, and registers it as a kubelet does.
func (n *node) start(podUID string) {
	n.t.Helper()
	l, err := new(net.ListenConfig).Listen(n.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.address = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.run(ctx, podUID, l) }()
	n.stop = sync.OnceValue(func() error { cancel(); return <-done })
	n.t.Cleanup(func() { _ = n.stop() })
	n.register(podUID)
}

// run runs a driver.
func (n *node) run(ctx context.Context, podUID string, l net.Listener) error {
	return claimdriver.Run(ctx, claimdriver.Options{
		Node: "worker", PodUID: podUID, Client: n.api, Listener: l, Log: slog.New(slog.NewTextHandler(n.t.Output(), nil)),
		RunDir: filepath.Join(n.dir, "run"), KubeletDir: filepath.Join(n.dir, "kubelet"), CDIDir: filepath.Join(n.dir, "cdi"),
		NUMAAttributes: []resourcev1.QualifiedName{"dra.net/numaNode"}, Accounting: claimslices.Auto,
	})
}

// dial connects to a socket.
func (n *node) dial(socket string) *grpc.ClientConn {
	n.t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// register connects to the plugin of an instance, as a kubelet does.
func (n *node) register(podUID string) {
	n.t.Helper()
	dir, name := filepath.Join(n.dir, "kubelet/plugins_registry"), dra.Driver+"-reg.sock"
	if podUID != "" {
		name = kubeletplugin.RollingUpdateRegistrarSocketFile(dir, dra.Driver, types.UID(podUID))
	}
	r := registerapi.NewRegistrationClient(n.dial(filepath.Join(dir, name)))
	info, err := r.GetInfo(n.ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		n.t.Fatal(err)
	}
	if info.Type != registerapi.DRAPlugin || info.Name != dra.Driver || !slices.Contains(info.SupportedVersions, drapb.DRAPluginService) {
		n.t.Fatalf("the plugin registers as %v", info)
	}
	if _, err := r.NotifyRegistrationStatus(n.ctx, &registerapi.RegistrationStatus{PluginRegistered: true}); err != nil {
		n.t.Fatal(err)
	}
	n.conn = n.dial(info.Endpoint)
	n.plugin = drapb.NewDRAPluginClient(n.conn)
}

// tryPrepare calls the plugin for a claim.
func (n *node) tryPrepare(c *resourcev1.ResourceClaim) (*drapb.NodePrepareResourceResponse, error) {
	a, err := n.plugin.NodePrepareResources(n.ctx, &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil {
		return nil, err
	}
	return a.Claims[string(c.UID)], nil
}

// prepare calls the plugin for a claim, and expects an answer.
func (n *node) prepare(c *resourcev1.ResourceClaim) *drapb.NodePrepareResourceResponse {
	n.t.Helper()
	a, err := n.tryPrepare(c)
	if err != nil {
		n.t.Error(err)
		return &drapb.NodePrepareResourceResponse{Error: err.Error()}
	}
	return a
}

// unprepare calls the plugin for a claim, and returns the error of the claim.
func (n *node) unprepare(c *resourcev1.ResourceClaim) string {
	n.t.Helper()
	a, err := n.plugin.NodeUnprepareResources(n.ctx, &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil {
		n.t.Fatal(err)
	}
	return a.Claims[string(c.UID)].Error
}

// get returns the answer to a request for metrics or probes.
func (n *node) get(path string) string {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.ctx, http.MethodGet, n.address+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// cdi returns the names of the CDI files.
func (n *node) cdi() (names []string) {
	n.t.Helper()
	entries, err := os.ReadDir(filepath.Join(n.dir, "cdi"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// uids are UIDs in the notation of the API.
func uid(n int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// claim returns a claim with request cpus for CPUs of a device, for a pod of the node.
func claim(n int, device, cpus string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ran", Name: fmt.Sprintf("du-%d", n), UID: uid(n),
		Annotations: map[string]string{resourcev1.PodResourceClaimAnnotation: "cpus"},
	}}
	c.Status.Allocation = new(resourcev1.AllocationResult)
	c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{
		Request: "cpus", Driver: dra.Driver, Pool: "worker", Device: device, ShareID: ptr.To(uid(n + 1000)),
		ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse(cpus)},
	}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "du", UID: uid(n + 2000)}}
	return c
}
