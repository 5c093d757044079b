package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestRuntimeGoesAndReturns checks that the daemon is ready after it has seen all containers,
// although the runtime disappears between its first answer and the first listing.
func TestRuntimeGoesAndReturns(t *testing.T) {
	n := newNode(t)
	told := nodefixture.ServiceManager(t)
	n.Runtime.Fail("ListPodSandbox", grpcstatus.Error(codes.Unavailable, "busy"))
	first := n.RunContainer(n.RunPod("one", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r := n.start()
	n.Eventually("listing refused", func() bool { return len(n.Logged("list pods and containers")) == 1 })
	if states := told(); len(states) != 0 {
		t.Errorf("service manager was told %q before the first listing; want none", states)
	}
	n.Runtime.Fail("ListPodSandbox", nil)
	n.AwaitCPUs(first, "4-5")
	r.quiet()
	n.Eventually("READY", func() bool { return len(told()) > 0 })
	if states := told(); len(states) != 1 || !strings.HasPrefix(states[0], "READY=1\n") {
		t.Errorf("service manager was told %q; want READY", states)
	}
	n.Runtime.Down()
	r.view("stream lost", func(v *telemetry.View) bool { return v.Sources[telemetry.CRIEvents] == telemetry.SourceLost })
	n.AwaitCPUs(first, "4-5")
	if err := n.Runtime.Up(); err != nil {
		t.Fatal(err)
	}
	second := n.RunContainer(n.RunPod("two", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(second, "2-3")
	n.AwaitCPUs(first, "4-5")
	n.CheckOccupants()
}

// TestHeartbeatStopsWithTheOwner checks that a write from which the kernel does not return
// stops the heartbeat, on which /healthz and systemd's watchdog rely.
func TestHeartbeatStopsWithTheOwner(t *testing.T) {
	n := newNode(t)
	t.Setenv("WATCHDOG_USEC", "20000") // a heartbeat every 5 ms
	told := nodefixture.ServiceManager(t)
	r := n.start()
	r.quiet()
	beat := func() time.Time { return r.loop.publisher.Notify.Heartbeat() }
	start := beat()
	n.Eventually("heartbeat without events", func() bool { return beat().After(start) })
	n.Eventually("watchdog fed at each pulse", func() bool { return strings.Count(strings.Join(told(), "\n"), "WATCHDOG=1") > 1 })

	reached, hang := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		if strings.HasSuffix(w.Name, "/cpuset.cpus") && w.Value == "2-3" {
			select {
			case reached <- struct{}{}:
				<-hang
			default:
			}
		}
		return nil
	})
	id := n.RunContainer(n.RunPod("one", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	nodefixture.Receive(n.Node, "a write that hangs", reached)
	stopped := beat()
	// The server knows real time alone, so it gets the age of the heartbeat by the daemon's clock.
	onServer := func() time.Time { return time.Now().Add(beat().Sub(n.clock.now())) }
	server, err := telemetry.New(telemetry.Options{View: r.loop.publisher.Metrics, Heartbeat: onServer, MaxSilence: 50 * time.Millisecond,
		Proc: kernelfs.ProcRoot, Cgroups: t.TempDir(), Log: n.options().Log})
	if err != nil {
		t.Fatal(err)
	}
	n.Eventually("failing health check", func() bool { return statusOf(t, server, "/healthz") == http.StatusServiceUnavailable })
	if got := beat(); got != stopped {
		t.Errorf("heartbeat went from %v to %v while the owner hung", stopped, got)
	}
	release()
	n.AwaitCPUs(id, "2-3")
	n.Eventually("health", func() bool { return statusOf(t, server, "/healthz") == http.StatusOK })
}

func statusOf(t *testing.T, h http.Handler, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code
}
