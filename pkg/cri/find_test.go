package cri_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// place makes a node's root with links to the runtimes at the given places. The
// root has a short path: sockets do not like long ones.
func place(t *testing.T, at map[string]*testnode.Runtime) string {
	t.Helper()
	root := must[string](t)(os.MkdirTemp("", "root"))
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	for path, r := range at {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(strings.TrimPrefix(r.Endpoint(), "unix://"), path); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock",
		"/run/k0s/containerd.sock", "/var/snap/microk8s/common/run/containerd.sock", "/run/cri-dockerd.sock",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			root := place(t, map[string]*testnode.Runtime{path: testnode.StartRuntime(t, testnode.RuntimeConfig{})})
			got, err := cri.Find(t.Context(), root)
			if want := "unix://" + filepath.Join(root, path); err != nil || got != want {
				t.Errorf("Find() = %q, %v; want %q", got, err, want)
			}
		})
	}
}

// The same socket under two names is one runtime.
func TestFindOnceThroughLink(t *testing.T) {
	t.Parallel()
	root := place(t, map[string]*testnode.Runtime{"/run/crio/crio.sock": testnode.StartRuntime(t, testnode.RuntimeConfig{})})
	if err := os.Mkdir(filepath.Join(root, "var"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../run", filepath.Join(root, "var/run")); err != nil {
		t.Fatal(err)
	}
	got, err := cri.Find(t.Context(), root)
	if want := "unix://" + filepath.Join(root, "run/crio/crio.sock"); err != nil || got != want {
		t.Errorf("Find() = %q, %v; want %q", got, err, want)
	}
}

// Docker's containerd has its CRI plugin switched off and a dead runtime leaves
// its socket behind: neither hides the one that answers.
func TestFindPassesOverOthers(t *testing.T) {
	t.Parallel()
	docker := testnode.StartRuntime(t, testnode.RuntimeConfig{})
	docker.Fail("Version", status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService"))
	root := place(t, map[string]*testnode.Runtime{
		"/run/containerd/containerd.sock": docker,
		"/run/crio/crio.sock":             testnode.StartRuntime(t, testnode.RuntimeConfig{Flavor: testnode.CRIO}),
	})
	dead := filepath.Join(root, "run/k0s/containerd.sock")
	if err := os.Mkdir(filepath.Dir(dead), 0o755); err != nil {
		t.Fatal(err)
	}
	l := must[*net.UnixListener](t)(net.ListenUnix("unix", &net.UnixAddr{Name: dead}))
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := cri.Find(t.Context(), root)
	if want := "unix://" + filepath.Join(root, "run/crio/crio.sock"); err != nil || got != want {
		t.Errorf("Find() = %q, %v; want %q", got, err, want)
	}
}

// TestFindUsed checks that of several runtimes the only one with pods is found.
func TestFindUsed(t *testing.T) {
	t.Parallel()
	used := testnode.StartRuntime(t, testnode.RuntimeConfig{})
	must[string](t)(used.RunPod(testnode.PodSpec{UID: "one", Namespace: "default", Name: "one", QoS: "burstable"}))
	at := map[string]*testnode.Runtime{"/run/containerd/containerd.sock": testnode.StartRuntime(t, testnode.RuntimeConfig{}), "/run/crio/crio.sock": used}
	root := place(t, at)
	got, err := cri.Find(t.Context(), root)
	want := "unix://" + filepath.Join(root, "run/crio/crio.sock")
	if err != nil || got != want {
		t.Errorf("Find() = %q, %v; want %q", got, err, want)
	}
	other := at["/run/containerd/containerd.sock"]
	id := must[string](t)(other.RunPod(testnode.PodSpec{UID: "two", Namespace: "default", Name: "two", QoS: "burstable"}))
	if got, err := cri.Find(t.Context(), root); err == nil {
		t.Errorf("Find() of two runtimes with pods = %q; want an error", got)
	}
	if err := other.StopPod(id); err != nil {
		t.Fatal(err)
	}
	if got, err := cri.Find(t.Context(), root); err != nil || got != want {
		t.Errorf("Find() with a runtime with a pod that has ended = %q, %v; want %q", got, err, want)
	}
}

func TestFindErrors(t *testing.T) {
	t.Parallel()
	silent := testnode.StartRuntime(t, testnode.RuntimeConfig{})
	silent.Fail("Version", status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService"))
	for _, tt := range []struct {
		name string
		at   map[string]*testnode.Runtime
		want []string
	}{
		{"several", map[string]*testnode.Runtime{
			"/run/containerd/containerd.sock": testnode.StartRuntime(t, testnode.RuntimeConfig{}),
			"/run/crio/crio.sock":             testnode.StartRuntime(t, testnode.RuntimeConfig{}),
		}, []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock"}},
		{"none answers", map[string]*testnode.Runtime{"/run/crio/crio.sock": silent}, []string{"/run/crio/crio.sock", "unknown service"}},
		{"no socket", nil, []string{"/run/containerd/containerd.sock", "/run/k0s/containerd.sock", "set containerRuntimeEndpoint to none"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := cri.Find(t.Context(), place(t, tt.at))
			if err == nil {
				t.Fatalf("Find() = %q; want an error", got)
			}
			for _, want := range append(tt.want, "containerRuntimeEndpoint") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Find: %v: does not mention %q", err, want)
				}
			}
		})
	}
}
