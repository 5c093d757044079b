//go:build apiserver

package claims_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/cpupoold/cpupoold/internal/claimdriver"
	"github.com/cpupoold/cpupoold/internal/claimdriver/slices"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// daemon answers the control socket of a node. It prepares each claim with the CPUs 2 and 3.
type daemon struct {
	started time.Time
	log     *history.Log

	mu     sync.Mutex
	answer *inspect.Claims
}

func (d *daemon) Started() time.Time                           { return d.started }
func (d *daemon) Status() *inspect.Status                      { return nil }
func (d *daemon) Explain(string) (*inspect.Explanation, error) { return nil, errors.New("not used") }

func (d *daemon) History() *history.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Snapshot()
}

func (d *daemon) Claims() *inspect.Claims {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := *d.answer
	now.Version, now.Started, now.Sequence = inspect.Version, d.started, d.log.Snapshot().Last()
	return &now
}

func (d *daemon) set(claims ...inspect.Claim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer.Claims = claims
	d.log.Add(history.Event{Kind: history.Started})
}

func (d *daemon) prepare(_ context.Context, claim pools.Claim) ([]control.ClaimCPUs, error) {
	part := claim.Parts[0]
	cpus := control.ClaimCPUs{Request: part.Request, Device: part.Device, ShareID: part.ShareID, CPUs: cpuset.Of(2, 3)}
	d.set(inspect.Claim{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name, PodUID: claim.PodUID, CPUs: cpus.CPUs, Parts: []inspect.ClaimPart{inspect.ClaimPart(cpus)}})
	return []control.ClaimCPUs{cpus}, nil
}

func (d *daemon) end(context.Context, string) error {
	d.set()
	return nil
}

// runDriver runs a daemon and the whole driver on a node, with the rights of the driver.
func (s *apiServer) runDriver(t *testing.T, node string, log *slog.Logger) (*daemon, drapb.DRAPluginClient, string) {
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
	d := &daemon{started: time.Now(), log: history.New(), answer: answer(t, "cores=4 threads=2", "2-3,6-7", allocate.Options{})}
	server := control.New(nil, time.Minute, control.ClaimFuncs{Prepare: d.prepare, End: d.end}, d, slog.New(slog.DiscardHandler))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	all.Go(func() {
		if err := server.Serve(ctx, control.Socket(filepath.Join(dir, "run"))); err != nil {
			t.Errorf("daemon: %v", err)
		}
	})
	all.Go(func() {
		if err := claimdriver.Run(ctx, claimdriver.Options{
			Node: node, Client: s.driver(t, node), Listener: listener, Log: log, Accounting: slices.Auto,
			RunDir: filepath.Join(dir, "run"), KubeletDir: filepath.Join(dir, "kubelet"), CDIDir: filepath.Join(dir, "cdi"),
		}); err != nil {
			t.Errorf("driver: %v", err)
		}
	})
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "kubelet/plugins", dra.Driver, "dra.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return d, drapb.NewDRAPluginClient(conn), filepath.Join(dir, "cdi")
}

// logged is a log that goroutines write.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(text)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// testDriver prepares and ends claims with the whole driver. Its rights must be enough.
func testDriver(t *testing.T, s *apiServer) {
	log := new(logged)
	d, plugin, cdi := s.runDriver(t, "n1", slog.New(slog.NewTextHandler(log, nil)))
	ctx := t.Context()
	claims := s.client(t, admin, "").ResourceV1().ResourceClaims("apps")
	prepare := func(c *resourcev1.ResourceClaim) (devices int, problem string) {
		t.Helper()
		a, err := plugin.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}}, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		return len(a.Claims[string(c.UID)].Devices), a.Claims[string(c.UID)].Error
	}
	eventually(t, "the driver publishes", func(ctx context.Context) error {
		list, err := s.client(t, admin, "").ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1,spec.driver=" + dra.Driver})
		if err == nil && (len(list.Items) != 1 || len(list.Items[0].Spec.Devices) != 1) {
			err = fmt.Errorf("slices %+v; want one with a device", list.Items)
		}
		return err
	})
	// Results that no allocator of the cluster makes, and the API takes.
	for _, amount := range []string{"0", "-1", "1500m", "9223372036854775808"} {
		result := ours("n1")
		result.ConsumedCapacity[dra.Capacity] = resource.MustParse(amount)
		c := s.reserved(t, "amount", "n1", result)
		if devices, problem := prepare(c); devices != 0 || !strings.Contains(problem, "whole number of CPUs") {
			t.Errorf("amount %s: %d devices, error %q; want a refusal", amount, devices, problem)
		}
		if err := claims.Delete(ctx, c.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	foreign := s.reserved(t, "foreign", "n2", ours("n2"))
	if devices, problem := prepare(foreign); devices != 0 || !strings.Contains(problem, "this node is pool n1") {
		t.Errorf("claim of another node: %d devices, error %q; want a refusal", devices, problem)
	}
	if n := len(d.Claims().Claims); n != 0 {
		t.Errorf("%d claims reached the daemon; want none", n)
	}
	c := s.reserved(t, "both", "n1", ours("n1"), nic())
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{entry(nic(), `{"mac":"02:00:00:00:00:01"}`)}
	c, err := claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if devices, problem := prepare(c); devices != 1 || problem != "" {
		t.Errorf("claim: %d devices, error %q; want one device", devices, problem)
	}
	if files, err := os.ReadDir(cdi); err != nil || len(files) == 0 {
		t.Errorf("CDI files %v, error %v; want files of the claim", files, err)
	}
	eventually(t, "the driver writes the status of the claim", func(ctx context.Context) error {
		got, err := claims.Get(ctx, "both", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(got.Status.Devices) != 2 || string(got.Status.Devices[0].Data.Raw) != `{"mac":"02:00:00:00:00:01"}` || string(got.Status.Devices[1].Data.Raw) != `{"cpus":"2-3","node":0}` {
			return fmt.Errorf("status.devices %+v; want the entry of the NIC and CPUs 2-3", got.Status.Devices)
		}
		return nil
	})
	ended, err := plugin.NodeUnprepareResources(ctx, &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil || ended.Claims[string(c.UID)].GetError() != "" || len(d.Claims().Claims) != 0 {
		t.Errorf("unprepare: %v, error %v, claims %v; want none", ended, err, d.Claims().Claims)
	}
	if strings.Contains(log.String(), "forbidden") || strings.Contains(log.String(), "denied") {
		t.Errorf("the API server refused a request of the driver:\n%s", log)
	}
	for _, name := range []string{"both", "foreign"} {
		if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}
