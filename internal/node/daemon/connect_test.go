package daemon

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const (
	waiting = "waiting for the container runtime"
	answers = "the container runtime answers"
)

// manager listens as a service manager does, and returns the states it was told
// so far.
func manager(t *testing.T) (states func() []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	var mu sync.Mutex
	var got []string
	go func() { // who does not read makes the sender wait
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return // the test has ended
			}
			mu.Lock()
			got = append(got, string(buf[:n]))
			mu.Unlock()
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// arguments returns what a daemon on the node passes to hostenv.Wait.
func (n *node) arguments() hostenv.Start {
	o := n.options()
	return hostenv.Start{Config: o.Config, Topology: o.Topology, Reload: o.Reload, Log: o.Log}
}

// await asks for the node's runtime in the background.
func (n *node) await(ctx context.Context, o *hostenv.Start) (answered <-chan hostenv.Link, failed <-chan error) {
	n.T.Helper()
	links, errs := make(chan hostenv.Link, 1), make(chan error, 1)
	go func() {
		rt, _, err := hostenv.AwaitRuntime(ctx, o, cgroup.New(n.Tree))
		if err != nil {
			errs <- err
			return
		}
		links <- rt
	}()
	return links, errs
}

func (n *node) answer(links <-chan hostenv.Link) hostenv.Link {
	n.T.Helper()
	select {
	case rt := <-links:
		n.T.Cleanup(rt.Close)
		return rt
	case <-time.After(nodefixture.Timeout):
		n.T.Fatalf("the runtime is up and was not found; log:\n%s", n.Logs)
		return hostenv.Link{}
	}
}

// A runtime that starts late is waited for, and the reason is told once, however
// often it is asked.
func TestRuntimeStartsLate(t *testing.T) {
	n := newNode(t)
	told := manager(t)
	n.YAML += "containerRuntimeEndpoint: " + n.Runtime.Endpoint() + "\n"
	o := n.arguments()
	reloads := make(chan struct{}, 100)
	o.Reload = func() (*config.Config, error) { reloads <- struct{}{}; return n.Config() }
	n.Runtime.Down()
	links, _ := n.await(t.Context(), &o)
	for range 3 { // it is asked again and again
		select {
		case <-reloads:
		case <-time.After(nodefixture.Timeout):
			t.Fatalf("the runtime is not asked again; log:\n%s", n.Logs)
		}
	}
	if err := n.Runtime.Up(); err != nil {
		t.Fatal(err)
	}
	if got := n.answer(links).Driver; got != cgroup.DriverSystemd {
		t.Errorf("driver = %q; want systemd", got)
	}
	if records := n.Logged(waiting); len(records) != 1 || !strings.Contains(records[0]["reason"].(string), n.Runtime.Endpoint()) {
		t.Errorf("log of the wait: %v; want one record that names %s", records, n.Runtime.Endpoint())
	}
	if records := n.Logged(answers); len(records) != 1 {
		t.Errorf("log of the end of the wait: %v; want one record", records)
	}
	n.Eventually("the end of the wait is told", func() bool { return len(told()) == 2 })
	if s := told(); !strings.HasPrefix(s[0], "STATUS="+waiting) || strings.Contains(s[0], "\n") || strings.HasPrefix(s[1], "STATUS="+waiting) {
		t.Errorf("service manager was told %q; want the wait, in one line, and its end", s)
	}
}

// A containerd whose CRI plugin is switched off is not taken for a runtime
// without the question for the driver.
func TestRuntimeWithoutCRI(t *testing.T) {
	n := newNode(t)
	n.YAML += "containerRuntimeEndpoint: " + n.Runtime.Endpoint() + "\n"
	o := n.arguments()
	n.RunPod("one", "default", "burstable", 0, nil) // makes the kubelet's slice, which tells the driver
	off := grpcstatus.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService")
	for _, method := range []string{"Version", "RuntimeConfig"} {
		n.Runtime.Fail(method, off)
	}
	links, _ := n.await(t.Context(), &o)
	n.Eventually("wait", func() bool { return len(n.Logged(waiting)) == 1 })
	n.Runtime.Fail("Version", nil) // an old runtime: it does not have the call for the driver
	if got := n.answer(links).Driver; got != cgroup.DriverSystemd {
		t.Errorf("driver = %q; want systemd, from kubepods.slice", got)
	}
}

// An endpoint that was wrong is mended in the file, with the daemon waiting.
func TestEndpointMendedWhileWaiting(t *testing.T) {
	n := newNode(t)
	good := n.YAML + "containerRuntimeEndpoint: " + n.Runtime.Endpoint() + "\n"
	n.YAML += "containerRuntimeEndpoint: unix:///nonexistent/cri.sock\n"
	o := n.arguments()
	texts := make(chan string)
	o.Reload = func() (*config.Config, error) {
		n.YAML = <-texts
		return n.Config()
	}
	links, _ := n.await(t.Context(), &o)
	texts <- "kind: nonsense\n"
	texts <- good
	n.answer(links)
	if got := o.Config.RuntimeEndpoint; got != n.Runtime.Endpoint() {
		t.Errorf("endpoint in force = %q; want the mended %q", got, n.Runtime.Endpoint())
	}
	// The second record has the reason of before, and what is wrong with the file.
	if records := n.Logged(waiting); len(records) != 2 || !strings.Contains(records[1]["reason"].(string), "nonsense") {
		t.Errorf("log of the wait: %v; want two records, the second about the bad file", records)
	}
}

func TestStoppedWhileWaiting(t *testing.T) {
	n := newNode(t)
	n.YAML += "containerRuntimeEndpoint: unix:///nonexistent/cri.sock\n"
	o := n.arguments()
	ctx, cancel := context.WithCancel(t.Context())
	_, failed := n.await(ctx, &o)
	n.Eventually("wait", func() bool { return len(n.Logged(waiting)) == 1 })
	cancel()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("no error from a wait that was ended")
		}
	case <-time.After(nodefixture.Timeout):
		t.Error("the wait goes on after its context has ended")
	}
}

// The runtime may go between its first answer and the first listing, and at any
// time after that. The daemon is ready once it has seen everything.
func TestRuntimeGoesAndReturns(t *testing.T) {
	n := newNode(t)
	told := manager(t)
	n.Runtime.Fail("ListPodSandbox", grpcstatus.Error(codes.Unavailable, "busy"))
	first := n.RunContainer(n.RunPod("one", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r := n.start()
	n.Eventually("listing refused", func() bool { return len(n.Logged("list pods and containers")) == 1 })
	if states := told(); len(states) != 0 {
		t.Errorf("service manager was told %q before the first listing", states)
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
	n.CheckClaims()
}

// A kernel that does not return from a write stops the owner, and nothing else
// does: the heartbeat, which /healthz and systemd's watchdog rely on, tells.
func TestHeartbeatStopsWithTheOwner(t *testing.T) {
	n := newNode(t)
	t.Setenv("WATCHDOG_USEC", "20000") // a pulse every 5 ms
	told := manager(t)
	r := n.start()
	r.quiet()
	beat := func() time.Time { return r.loop.notify.Heartbeat() }
	start := beat()
	n.Eventually("heartbeat without events", func() bool { return beat().After(start) })

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
	n.Eventually("watchdog fed at each pulse", func() bool { return strings.Count(strings.Join(told(), "\n"), "WATCHDOG=1") > 1 })
	select {
	case <-reached:
	case <-time.After(nodefixture.Timeout):
		t.Fatalf("no write to hang in; log:\n%s", n.Logs)
	}
	stopped := beat()
	server, err := telemetry.New(telemetry.Options{View: r.loop.snapshot.Load, Heartbeat: beat, MaxSilence: 50 * time.Millisecond,
		Proc: hostenv.ProcRoot, Cgroups: t.TempDir(), Log: n.options().Log})
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
