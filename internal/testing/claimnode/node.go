// Package claimnode is a node for tests of the driver for ResourceClaims: the control socket of a daemon, and
// the calls of a kubelet. Only tests import it.
package claimnode

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/cpupoold/cpupoold/internal/claimdriver"
	claimslices "github.com/cpupoold/cpupoold/internal/claimdriver/slices"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

// Node is a node with the driver, and this test as its kubelet.
type Node struct {
	Dir    string // with run, kubelet and cdi
	Daemon *Daemon
	// Stop stops the last driver, and returns its error. Away stops the server of the control socket.
	Stop func() error
	Away func()

	t       *testing.T
	ctx     context.Context // ends before the test is killed
	name    string
	client  kubernetes.Interface
	address string // of metrics and probes
	conn    *grpc.ClientConn
	plugin  drapb.DRAPluginClient
}

// New returns a node. No driver runs yet.
func New(t *testing.T, name string, client kubernetes.Interface) *Node {
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
	n := &Node{t: t, ctx: ctx, Dir: dir, Daemon: newDaemon(), name: name, client: client}
	n.ServeDaemon()
	return n
}

// ServeDaemon serves the control socket again, after Away.
func (n *Node) ServeDaemon() {
	n.t.Helper()
	socket := control.Socket(filepath.Join(n.Dir, "run"))
	server := control.New(nil, time.Minute, control.ClaimFuncs{Prepare: n.Daemon.prepare, End: n.Daemon.end}, n.Daemon, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, socket) }()
	n.Away = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("serve the control socket: %v", err)
		}
	})
	n.t.Cleanup(n.Away)
	nodefixture.Eventually(n.t, "the daemon listens", func() bool { return control.NewClient(socket).Reach(n.ctx) == nil })
}

// Start starts a driver, and registers it as a kubelet does.
func (n *Node) Start(podUID string) {
	n.t.Helper()
	l, err := new(net.ListenConfig).Listen(n.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.address = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx, podUID, l) }()
	n.Stop = sync.OnceValue(func() error { cancel(); return <-done })
	n.t.Cleanup(func() { _ = n.Stop() })
	n.register(podUID)
}

// Run runs a driver until ctx ends.
func (n *Node) Run(ctx context.Context, podUID string, l net.Listener) error {
	return claimdriver.Run(ctx, claimdriver.Options{
		Node: n.name, PodUID: podUID, Client: n.client, Listener: l, Log: slog.New(slog.NewTextHandler(n.t.Output(), nil)),
		RunDir: filepath.Join(n.Dir, "run"), KubeletDir: filepath.Join(n.Dir, "kubelet"), CDIDir: filepath.Join(n.Dir, "cdi"),
		NUMAAttributes: []resourcev1.QualifiedName{"dra.net/numaNode"}, Accounting: claimslices.Auto,
	})
}

// dial connects to a socket.
func (n *Node) dial(socket string) *grpc.ClientConn {
	n.t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// register connects to the plugin of an instance, as a kubelet does.
func (n *Node) register(podUID string) {
	n.t.Helper()
	dir, name := filepath.Join(n.Dir, "kubelet/plugins_registry"), dra.Driver+"-reg.sock"
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

// TryPrepare calls the plugin for a claim.
func (n *Node) TryPrepare(c *resourcev1.ResourceClaim) (*drapb.NodePrepareResourceResponse, error) {
	a, err := n.plugin.NodePrepareResources(n.ctx, &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil {
		return nil, err
	}
	return a.Claims[string(c.UID)], nil
}

// Prepare calls the plugin for a claim, and expects an answer.
func (n *Node) Prepare(c *resourcev1.ResourceClaim) *drapb.NodePrepareResourceResponse {
	n.t.Helper()
	a, err := n.TryPrepare(c)
	if err != nil {
		n.t.Error(err)
		return &drapb.NodePrepareResourceResponse{Error: err.Error()}
	}
	return a
}

// Unprepare calls the plugin for a claim, and returns the error of the claim.
func (n *Node) Unprepare(c *resourcev1.ResourceClaim) string {
	n.t.Helper()
	a, err := n.plugin.NodeUnprepareResources(n.ctx, &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil {
		n.t.Fatal(err)
	}
	return a.Claims[string(c.UID)].Error
}

// Get returns the answer to a request for metrics or probes.
func (n *Node) Get(path string) string {
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

// CDIFiles returns the names of the CDI files.
func (n *Node) CDIFiles() (names []string) {
	n.t.Helper()
	entries, err := os.ReadDir(filepath.Join(n.Dir, "cdi"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// WatchHealth returns the stream of the health of the devices.
func (n *Node) WatchHealth() healthpb.DRAResourceHealth_NodeWatchResourcesClient {
	n.t.Helper()
	stream, err := healthpb.NewDRAResourceHealthClient(n.conn).NodeWatchResources(n.ctx, &healthpb.NodeWatchResourcesRequest{})
	if err != nil {
		n.t.Fatal(err)
	}
	return stream
}
