package claimdriver_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// status returns the entries of status.devices as lines.
func (n *node) status(t *testing.T, name string) string {
	t.Helper()
	c, err := n.api.ResourceV1().ResourceClaims("ran").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range c.Status.Devices {
		line := d.Driver + "/" + d.Pool + "/" + d.Device
		if d.ShareID != nil {
			line += " " + *d.ShareID
		}
		if d.Data != nil {
			line += " " + string(d.Data.Raw)
		}
		for _, r := range d.Conditions {
			line += fmt.Sprintf(" %s=%s %s: %s", r.Type, r.Status, r.Reason, r.Message)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestStatus checks that status.devices follows the claim, and that the entries of other drivers remain.
func TestStatus(t *testing.T) {
	c := claim(1, "numa0", "2")
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "nic.example.com", Pool: "worker", Device: "eth1"}}
	n := newNode(t, c)
	n.Start("")
	if a := n.Prepare(c); a.Error != "" {
		t.Fatal(a.Error)
	}
	eventually := func(want string) {
		t.Helper()
		want = "nic.example.com/worker/eth1\n" + `cpu.cpupoold.io/worker/numa0 ` + string(uid(1001)) + ` {"cpus":"2-3","node":0} ` + want
		nodefixture.Eventually(t, "the status of the claim", func() bool { return n.status(t, "du-1") == want }, func() string { return cmp.Diff(want, n.status(t, "du-1")) })
	}
	eventually("Ready=True Prepared: the CPUs are exclusive to the claim")
	n.Daemon.Change(func(now *inspect.Claims) { now.Claims[0].Away = cpuset.Of(3) })
	eventually("Ready=False CPUsAway: CPUs 3 are offline or in another pool")
	n.Daemon.Change(func(now *inspect.Claims) {
		now.Claims[0].Away, now.Claims[0].Problems = cpuset.Set{}, []string{strings.Repeat("ä", 2000)}
	})
	eventually("Ready=False ClaimProblem: " + strings.Repeat("ä", 512))
}

// TestStatusWithoutAPI checks that claims are prepared while their status cannot be written.
func TestStatusWithoutAPI(t *testing.T) {
	c := claim(1, "numa0", "2")
	n := newNode(t, c)
	n.api.PrependReactor("patch", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	n.Start("")
	if a := n.Prepare(c); a.Error != "" {
		t.Fatal(a.Error)
	}
	nodefixture.Eventually(t, "a failed status", func() bool {
		return strings.Contains(n.Get("/metrics"), `cpupool_dra_background_errors_total{part="status"} 1`+"\n")
	})
	if e := n.Unprepare(c); e != "" {
		t.Error(e)
	}
}

// TestHealth checks the reports to the kubelet.
func TestHealth(t *testing.T) {
	c := claim(1, "numa0", "2")
	n := newNode(t, c)
	n.Start("")
	if a := n.Prepare(c); a.Error != "" {
		t.Fatal(a.Error)
	}
	stream := n.WatchHealth()
	eventually := func(want string) {
		t.Helper()
		var got string
		for got != want {
			r, err := stream.Recv() // fails at the end of the test
			if err != nil {
				t.Fatalf("%v; the last report is %q, want %q", err, got, want)
			}
			var lines []string
			for _, d := range r.Devices {
				lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s/%s %s %s", d.Device.PoolName, d.Device.DeviceName, d.Health, d.Message)))
			}
			got = strings.Join(lines, "\n")
		}
	}
	eventually("worker/numa0 HEALTHY\nworker/numa1 HEALTHY")
	n.Daemon.Change(func(now *inspect.Claims) { now.Claims[0].Away = cpuset.Of(3) })
	eventually("worker/numa0 UNHEALTHY CPUs 3 of claims are offline or in another pool\nworker/numa1 HEALTHY")
	n.Daemon.Change(func(now *inspect.Claims) {
		now.Claims[0].Away, now.Claims[0].Problems = cpuset.Set{}, []string{"the partition is invalid"}
	})
	eventually("worker/numa0 UNHEALTHY 1 of 1 claims have problems; cpupoold status on the node shows them\nworker/numa1 HEALTHY")
	n.Daemon.Change(func(now *inspect.Claims) { // the list is removed, and the claim keeps its CPUs
		now.Claims[0].Problems, now.Devices = nil, nil
	})
	eventually("worker/numa0 HEALTHY")
}

// TestRollingUpdate checks that a claim can be prepared by one instance and ended by the next one, and that
// an instance leaves no socket.
func TestRollingUpdate(t *testing.T) {
	c := claim(1, "numa0", "2")
	n := newNode(t, c)
	n.Start("first")
	if a := n.Prepare(c); a.Error != "" {
		t.Fatal(a.Error)
	}
	stopFirst := n.Stop
	n.Start("second")
	again := n.Prepare(c)
	if again.Error != "" || len(again.Devices) != 1 {
		t.Errorf("the second instance prepares %v; want the same device", again)
	}
	if err := stopFirst(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if e := n.Unprepare(c); e != "" {
		t.Errorf("the second instance ends the claim: %s", e)
	}
	if err := n.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	for _, pattern := range []string{"kubelet/plugins_registry/*", "kubelet/plugins/*/*.sock"} {
		if left, err := filepath.Glob(filepath.Join(n.Dir, pattern)); err != nil || len(left) > 0 {
			t.Errorf("sockets %q remain, %v", left, err)
		}
	}
}

// TestProbes checks the probes and metrics of an instance.
func TestProbes(t *testing.T) {
	c := claim(1, "numa0", "2")
	n := newNode(t, c)
	n.Start("")
	if got := n.Get("/healthz") + n.Get("/readyz"); got != "ok\nok\n" {
		t.Errorf("probes answer %q; want ok", got)
	}
	n.Prepare(c)
	n.Unprepare(c)
	want := []string{
		`cpupool_dra_call_duration_seconds_count{call="prepare",result="ok"} 1`, `cpupool_dra_call_duration_seconds_count{call="unprepare",result="ok"} 1`,
		"cpupool_dra_registered 1", "cpupool_dra_daemon_up 1", "cpupool_dra_ready 1", "cpupool_dra_claims 0", "cpupool_dra_faulty_claims 0",
	}
	nodefixture.Eventually(t, "the metrics", func() bool {
		got := n.Get("/metrics")
		for _, line := range want {
			if !strings.Contains(got, "\n"+line+"\n") {
				return false
			}
		}
		return true
	}, func() string { return n.Get("/metrics") })
	n.Away()
	n.Daemon.Change(func(now *inspect.Claims) { now.Ready = false })
	n.ServeDaemon()
	nodefixture.Eventually(t, "a daemon that is not ready", func() bool { return strings.Contains(n.Get("/metrics"), "\ncpupool_dra_ready 0\n") })
}

// TestStartErrors checks that a driver that cannot serve ends with an error.
func TestStartErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		breaks func(n *node, l net.Listener) error
		want   string
	}{
		"metrics cannot be served": {func(_ *node, l net.Listener) error { return l.Close() }, "serve metrics"},
		"no registry of plugins": {func(n *node, _ net.Listener) error {
			return os.RemoveAll(filepath.Join(n.Dir, "kubelet/plugins_registry"))
		}, "start registrar"},
		"a file instead of directory": {func(n *node, _ net.Listener) error {
			return os.WriteFile(filepath.Join(n.Dir, "kubelet/plugins"), nil, 0o600)
		}, "make the directory of the plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.breaks(n, l); err != nil {
				t.Fatal(err)
			}
			if err := n.Run(t.Context(), "", l); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run = %v; want %q", err, tt.want)
			}
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener is open: %v", err)
			}
		})
	}
}

// TestStatusRefused checks that a refusal of the status of one claim does not stop the status of the others.
func TestStatusRefused(t *testing.T) {
	t.Parallel()
	first, second := claim(1, "numa0", "2"), claim(2, "numa1", "2")
	n := newNode(t, first, second)
	n.api.PrependReactor("patch", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.(clienttesting.PatchAction).GetName() != first.Name {
			return false, nil, nil
		}
		return true, nil, apierrors.NewInvalid(resourcev1.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), first.Name, nil)
	})
	n.Start("")
	for _, c := range []*resourcev1.ResourceClaim{first, second} {
		if a := n.Prepare(c); a.Error != "" {
			t.Fatal(a.Error)
		}
	}
	nodefixture.Eventually(t, "the status of the second claim", func() bool { return strings.Contains(n.status(t, "du-2"), "Ready=True") })
}
