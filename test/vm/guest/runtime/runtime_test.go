//go:build guest

package runtime_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// The expected values come from the host, which configured the machine.
var (
	kernel  = flag.String("kernel", "", "expected start of the kernel's version")
	systemd = flag.String("systemd", "", "likewise of systemd's")
	version = flag.String("runtime", "", "likewise of the runtime's")
)

// TestVersions checks that the machine has the requested versions.
func TestVersions(t *testing.T) {
	n := guestnode.New(t)
	if got := strings.TrimSpace(n.Run("uname", "-r")); !strings.HasPrefix(got, *kernel) {
		t.Errorf("kernel %s; want %s", got, *kernel)
	}
	if got := n.Run("systemctl", "--version"); !strings.HasPrefix(got, "systemd "+*systemd) {
		t.Errorf("%s; want systemd %s", got, *systemd)
	}
	name, got, err := n.Client.Version(t.Context())
	if err != nil || name != n.Runtime.Name || !strings.HasPrefix(strings.TrimPrefix(got, "v"), *version) {
		t.Errorf("Version() = %q, %q, %v; want %s %s", name, got, err, n.Runtime.Name, *version)
	}
}

// TestRuntime checks the runtime against the image's description, which all other tests
// read.
func TestRuntime(t *testing.T) {
	n := guestnode.New(t)
	if got, err := cri.Find(t.Context(), "/"); err != nil || got != "unix://"+n.Runtime.Socket {
		t.Errorf("Find() = %q, %v; want %s", got, err, n.Runtime.Socket)
	}
	// containerd 1.7 does not tell.
	if got, err := n.Client.CgroupDriver(t.Context()); err == nil && cgroup.Driver(got) != n.Runtime.Driver ||
		err != nil && !errors.Is(err, cri.ErrNotSupported) {
		t.Errorf("CgroupDriver() = %q, %v; want %s", got, err, n.Runtime.Driver)
	}
	conn, err := net.Dial("unix", "/run/nri/nri.sock")
	if err == nil {
		_ = conn.Close()
	}
	if (err == nil) != n.Runtime.NRI {
		t.Errorf("connection to NRI: %v; want one: %v", err, n.Runtime.NRI)
	}
}

// TestEvents checks that a runtime without events ends the stream at once, and that another
// one keeps it.
func TestEvents(t *testing.T) {
	n := guestnode.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), guestnode.NodeTimeout)
	defer cancel()
	events, states := make(chan cri.Event, 10_000), make(chan cri.StreamState, 1000)
	done := make(chan error, 1)
	go func() {
		done <- n.Client.Watch(ctx, cri.Handler{
			Event: func(e cri.Event) { events <- e },
			Stream: func(s cri.StreamState, err error) {
				select {
				case states <- s:
				default: // one state of interest has been seen
				}
			},
		})
	}()
	if n.Runtime.Events {
		if s := <-states; s != cri.Connected {
			t.Errorf("first state of the stream: %v; want it connected", s)
		}
		n.Apply(manifest.Pod{Name: "event", Namespace: "runtime", Containers: []manifest.Container{{Name: "c"}}})
		select {
		case <-events:
		case <-ctx.Done():
			t.Error("no event of a pod's start")
		}
	} else {
		for s := range states {
			if s != cri.Connected {
				break
			}
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch() = %v; want its context's error", err)
	}
}

// TestPods checks that a pod of each QoS class runs through the kubelet, in the cgroup in which pkg/cgroup
// looks for it.
func TestPods(t *testing.T) {
	n := guestnode.New(t)
	pods := map[string]struct {
		container manifest.Container
		systemd   string
		cgroupfs  string
	}{
		"guaranteed": {
			manifest.Container{CPU: "2", Memory: "64Mi", Limited: true},
			`^kubepods\.slice/kubepods-pod[0-9a-f]{32}\.slice/`, `^kubepods/pod[0-9a-f]{32}/`,
		},
		"burstable": {
			manifest.Container{CPU: "500m", Memory: "32Mi"},
			`^kubepods\.slice/kubepods-burstable\.slice/kubepods-burstable-pod[0-9a-f]{32}\.slice/`, `^kubepods/burstable/pod[0-9a-f]{32}/`,
		},
		"besteffort": {
			manifest.Container{},
			`^kubepods\.slice/kubepods-besteffort\.slice/kubepods-besteffort-pod[0-9a-f]{32}\.slice/`, `^kubepods/besteffort/pod[0-9a-f]{32}/`,
		},
	}
	for name, p := range pods {
		p.container.Name = "main"
		n.Apply(manifest.Pod{Name: name, Namespace: "runtime", Containers: []manifest.Container{p.container}})
	}
	for name, p := range pods {
		var c guestnode.Container
		n.Every(time.Second, "container of "+name, func() (err error) {
			c, err = n.Find(name, "main")
			return err
		})
		want := p.systemd
		if n.Runtime.Driver == cgroup.DriverCgroupfs {
			want = p.cgroupfs
		}
		if !regexp.MustCompile(want).MatchString(string(c.Path)) || !c.Populated {
			t.Errorf("%s is in %s, populated: %v; want %s", name, c.Path, c.Populated, want)
		}
		if inner := c.Inner != nil; inner != (n.Runtime.OCI == "crun") {
			t.Errorf("%s: an inner cgroup: %v; want one with crun only", name, inner)
		}
	}
}
