package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// unreadableTree is a tree with one directory that cannot be read.
type unreadableTree struct {
	*testnode.Cgroups
	bad atomic.Pointer[string]
}

func (f *unreadableTree) ReadFile(name string, limit int) ([]byte, error) {
	if bad := f.bad.Load(); bad != nil && filepath.Dir(name) == *bad {
		return nil, syscall.EMFILE
	}
	return f.Cgroups.ReadFile(name, limit)
}

// TestUnreadableKeepsWhatItHolds checks that CPUs of an unreadable cgroup are not allocated.
func TestUnreadableKeepsWhatItHolds(t *testing.T) {
	n := newNode(t)
	tree := &unreadableTree{Cgroups: n.Tree}
	h := n.Host()
	h.Cgroups = cgroup.New(tree)
	r := n.startOn(h)
	app := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 4, nil), "app", nodefixture.WholeCPUs(4))
	n.AwaitCPUs(app, "2-3")
	n.AwaitCPUs(excl, "4-7")
	r.quiet()
	dir := n.Runtime.Cgroup(app)
	tree.bad.Store(&dir)
	n.YAML = strings.NewReplacer("cpus: 2-3", `cpus: "2"`, "cpus: 4-7", "cpus: 3-6").Replace(nodefixture.PoolsYAML)
	r.loop.box.Post(systemdReloaded{}) // read all again
	r.loop.watchers.reload()
	n.Eventually("container waits", func() bool {
		return slices.ContainsFunc(n.Logged("not in the desired state"), func(rec map[string]any) bool {
			return rec["cgroup"] == n.Runtime.Cgroup(excl)
		})
	})
	n.CheckOccupants()
	tree.bad.Store(nil)
	r.quiet()
	n.AwaitCPUs(app, "2")
	n.AwaitCPUs(excl, "3-6")
}

// TestFirstListingIsComplete checks that containers which the runtime lists without details at
// first keep their CPUs, also without a journal.
func TestFirstListingIsComplete(t *testing.T) {
	n := newNode(t)
	n.YAML = strings.Replace(nodefixture.PoolsYAML, "resyncPeriod: 10m", "resyncPeriod: 1s", 1)
	r := n.start()
	pod := n.RunPod("one", "default", "guaranteed", 1, nil)
	n.AwaitCPUs(n.RunContainer(pod, "app", nodefixture.WholeCPUs(1)), "4")
	second := n.RunContainer(n.RunPod("two", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(second, "6-7")
	r.quiet()
	r.stop()
	if err := errors.Join(n.Runtime.StopPod(pod), os.Remove(filepath.Join(n.Dir, "journal.json"))); err != nil {
		t.Fatal(err)
	}
	n.Runtime.Fail("ContainerStatus", grpcstatus.Error(codes.Unavailable, "busy"))
	r = n.start()
	n.Eventually("listing refused", func() bool {
		return len(n.Logged("first listing is incomplete; asking again before anything is written")) > 0
	})
	n.Runtime.Fail("ContainerStatus", nil)
	r.quiet()
	n.AwaitCPUs(second, "6-7")
}

// TestStalledUpdatesDoNotHideNewContainers checks that a new container is placed with its
// original in the journal while more updates hang than there are workers.
func TestStalledUpdatesDoNotHideNewContainers(t *testing.T) {
	n := newNode(t)
	release := n.Runtime.Hang("UpdateContainerResources")
	defer release()
	pod := n.RunPod("many", "default", "burstable", 0, nil)
	for range 16 {
		n.RunContainer(pod, "app", cri.Resources{Shares: 512})
	}
	r := n.start()
	n.Eventually("updates under way", func() bool { return n.Runtime.Calls("UpdateContainerResources") >= 8 })
	late := n.RunContainer(n.RunPod("late", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(late, "4-5")
	if msgs := n.Logged("journal is late; writes go ahead, and restore may not know the values that they replace"); len(msgs) != 0 {
		t.Errorf("stalled updates made the journal late: %v; want none", msgs)
	}
	release()
	r.quiet()
}

// TestReloadChangesTheFormula checks that weights follow weightFormula.
func TestReloadChangesTheFormula(t *testing.T) {
	n := newNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	n.Eventually("quadratic weight", func() bool { return n.State(id).Weight == 59 })
	n.YAML = strings.Replace(nodefixture.PoolsYAML, "quadratic", string(config.WeightLinear), 1)
	r.loop.watchers.reload()
	n.Eventually("linear weight", func() bool { return n.State(id).Weight == 20 })
	r.view("nothing refused", func(v *telemetry.View) bool {
		return v.Writes[telemetry.Write{Via: "dbus", Result: telemetry.Failed}] == 0
	})
}
