package hostenv_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Log messages of a wait for the runtime.
const (
	waiting = "waiting for the container runtime"
	answers = "the container runtime answers"
)

// answer is the result of a wait for the runtime.
type answer struct {
	driver cgroup.Driver
	err    error
}

// newNode returns a fake node with an endpoint in its configuration; empty: the runtime's.
func newNode(t *testing.T, endpoint string) *nodefixture.Node {
	n := nodefixture.New(t, nodefixture.Spec{})
	if endpoint == "" {
		endpoint = n.Runtime.Endpoint()
	}
	n.YAML += "containerRuntimeEndpoint: " + endpoint + "\n"
	return n
}

// startOf returns the arguments of a daemon on the node.
func startOf(n *nodefixture.Node) *hostenv.Start {
	n.T.Helper()
	c, err := n.Config()
	if err != nil {
		n.T.Fatal(err)
	}
	return &hostenv.Start{Config: c, Topology: n.Topology, Reload: n.Config, Log: n.Logger()}
}

// await waits for the node's runtime in the background.
func await(ctx context.Context, n *nodefixture.Node, s *hostenv.Start) <-chan answer {
	answered := make(chan answer, 1)
	go func() {
		driver, err := s.AwaitRuntime(ctx, cgroup.New(n.Tree))
		answered <- answer{driver, err}
	}()
	return answered
}

// TestRuntimeStartsLate checks that a wait asks again until the runtime answers, and
// reports its reason once.
func TestRuntimeStartsLate(t *testing.T) {
	n := newNode(t, "")
	told := nodefixture.ServiceManager(t)
	s := startOf(n)
	reloads := make(chan struct{}, 100)
	s.Reload = func() (*config.Config, error) { reloads <- struct{}{}; return n.Config() }
	n.Runtime.Down()
	answered := await(t.Context(), n, s)
	for range 3 {
		nodefixture.Receive(n, "another question to the runtime", reloads)
	}
	if err := n.Runtime.Up(); err != nil {
		t.Fatal(err)
	}
	if got := nodefixture.Receive(n, "runtime found", answered); got.driver != cgroup.DriverSystemd || got.err != nil {
		t.Errorf("driver = %q, %v; want systemd", got.driver, got.err)
	}
	if records := n.Logged(waiting); len(records) != 1 || !strings.Contains(records[0]["reason"].(string), n.Runtime.Endpoint()) {
		t.Errorf("log of the wait: %v; want one record that names %s", records, n.Runtime.Endpoint())
	}
	if records := n.Logged(answers); len(records) != 1 {
		t.Errorf("log of the end of the wait: %v; want one record", records)
	}
	n.Eventually("the end of the wait is reported", func() bool { return len(told()) == 2 })
	if s := told(); !strings.HasPrefix(s[0], "STATUS="+waiting) || strings.Contains(s[0], "\n") || strings.HasPrefix(s[1], "STATUS="+waiting) {
		t.Errorf("service manager got %q; want the wait, in one line, and its end", s)
	}
}

// TestRuntimeWithoutCRI checks that a containerd with its CRI plugin switched off counts
// as a runtime that does not answer.
func TestRuntimeWithoutCRI(t *testing.T) {
	n := newNode(t, "")
	n.RunPod("one", "default", "burstable", 0, nil) // makes the kubelet's slice, which decides about the driver
	off := grpcstatus.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService")
	for _, method := range []string{"Version", "RuntimeConfig"} {
		n.Runtime.Fail(method, off)
	}
	answered := await(t.Context(), n, startOf(n))
	n.Eventually("wait", func() bool { return len(n.Logged(waiting)) == 1 })
	n.Runtime.Fail("Version", nil) // an old runtime: without the call for the driver
	if got := nodefixture.Receive(n, "runtime found", answered); got.driver != cgroup.DriverSystemd || got.err != nil {
		t.Errorf("driver = %q, %v; want systemd, from kubepods.slice", got.driver, got.err)
	}
}

// TestEndpointCorrectedWhileWaiting checks that a wait uses the endpoint of a corrected
// configuration, and reports a configuration that cannot be read.
func TestEndpointCorrectedWhileWaiting(t *testing.T) {
	n := newNode(t, "unix:///nonexistent/cri.sock")
	corrected := strings.Replace(n.YAML, "unix:///nonexistent/cri.sock", n.Runtime.Endpoint(), 1)
	s := startOf(n)
	texts := make(chan string)
	s.Reload = func() (*config.Config, error) {
		n.YAML = <-texts
		return n.Config()
	}
	answered := await(t.Context(), n, s)
	texts <- "kind: nonsense\n"
	texts <- corrected
	if got := nodefixture.Receive(n, "runtime found", answered); got.err != nil || s.Config.RuntimeEndpoint != n.Runtime.Endpoint() {
		t.Errorf("endpoint in force = %q, %v; want the corrected %q", s.Config.RuntimeEndpoint, got.err, n.Runtime.Endpoint())
	}
	if records := n.Logged(waiting); len(records) != 2 || !strings.Contains(records[1]["reason"].(string), "nonsense") {
		t.Errorf("log of the wait: %v; want two records, the second about the bad file", records)
	}
}

// TestStoppedWhileWaiting checks that a wait ends with its context.
func TestStoppedWhileWaiting(t *testing.T) {
	n := newNode(t, "unix:///nonexistent/cri.sock")
	ctx, cancel := context.WithCancel(t.Context())
	answered := await(ctx, n, startOf(n))
	n.Eventually("wait", func() bool { return len(n.Logged(waiting)) == 1 })
	cancel()
	if got := nodefixture.Receive(n, "end of the wait", answered); got.err == nil {
		t.Error("no error from a wait that was ended")
	}
}

// TestClientKeepsConfiguredAnnotations checks that the runtime's client keeps the annotations
// of the configured domain, and that the host has its filter.
func TestClientKeepsConfiguredAnnotations(t *testing.T) {
	n := newNode(t, "")
	n.YAML += "annotationDomain: cpu.example.org\n"
	all := map[string]string{"target.cpu.example.org/management": "{}", "target.workload.openshift.io/management": "{}", "note": "x"}
	if _, err := n.Runtime.RunPod(testnode.PodSpec{UID: "u", Name: "p", Annotations: all}); err != nil {
		t.Fatal(err)
	}
	client, filter, err := hostenv.DialRuntime(t.Context(), startOf(n).Config, cgroup.New(n.Tree))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	pods, _, err := client.List(t.Context())
	if err != nil || len(pods) != 1 {
		t.Fatalf("List: %d pods, %v; want 1", len(pods), err)
	}
	want := map[string]string{"target.cpu.example.org/management": "{}"}
	if diff := cmp.Diff(want, pods[0].Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if !filter.Reads("target.cpu.example.org/x") || filter.Reads("target.workload.openshift.io/x") {
		t.Error("the filter of the host has another domain")
	}
}

// TestRuntimeGivenUpWhileWaiting checks that a wait ends if a changed configuration has no
// runtime.
func TestRuntimeGivenUpWhileWaiting(t *testing.T) {
	n := newNode(t, "unix:///nonexistent/cri.sock")
	s := startOf(n)
	s.Reload = func() (*config.Config, error) {
		n.YAML = strings.Replace(n.YAML, "unix:///nonexistent/cri.sock", config.NoRuntime, 1)
		return n.Config()
	}
	if got := nodefixture.Receive(n, "end of the wait", await(t.Context(), n, s)); got.err != nil || s.Config.HasRuntime() {
		t.Errorf("endpoint in force = %q, %v; want none", s.Config.RuntimeEndpoint, got.err)
	}
	if records := n.Logged(answers); len(records) != 0 {
		t.Errorf("log of the end of the wait: %v; want no answer of a runtime", records)
	}
}
