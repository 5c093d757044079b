package lookup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// slice is the cgroup of the Guaranteed pod with the UID u-1.
const slice = "kubepods-podu_1.slice"

// world is a node with the runtime that reports the objects of a test. Its lists contain
// neither the cgroups nor the sandboxes in unlisted.
type world struct {
	hostenv.Runtime
	pods       map[string]cri.Pod
	containers map[string]cri.Container
	unlisted   map[string]bool
	isPartial  bool // answers lack details
	host       hostenv.Host
	tree       *testnode.Cgroups
}

func newWorld() *world {
	w := &world{pods: make(map[string]cri.Pod), containers: make(map[string]cri.Container), unlisted: make(map[string]bool),
		tree: testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7)})}
	w.host = hostenv.Host{Runtime: w, Annotations: annotations.New(workload.Names{}), Driver: cgroup.DriverSystemd, Cgroups: cgroup.New(w.tree)}
	return w
}

func (w *world) List(context.Context) (pods []cri.Pod, containers []cri.Container, _ error) {
	for id, p := range w.pods {
		if !w.unlisted[id] {
			pods = append(pods, cri.Pod{ID: id, UID: p.UID, Ready: p.Ready})
		}
	}
	for id, c := range w.containers {
		containers = append(containers, cri.Container{ID: id, PodID: c.PodID, State: c.State})
	}
	return pods, containers, nil
}

func (w *world) PodStatus(_ context.Context, id string) (cri.Pod, error) {
	p := w.pods[id]
	p.Detailed = true
	return p, w.fault("pod", id)
}

func (w *world) ContainerStatus(_ context.Context, id string) (cri.Container, error) {
	c := w.containers[id]
	if c.Detailed = true; w.isPartial {
		c.PodID = ""
	}
	return c, w.fault("container", id)
}

func (w *world) fault(kind, id string) error {
	if w.isPartial {
		return &cri.InfoError{Kind: kind, ID: id, Field: "info", Err: errors.New("missing")}
	}
	return nil
}

// run adds a pod with the sandbox p, and its container c.
func (w *world) run() {
	w.pods["p"] = cri.Pod{ID: "p", UID: "u-1", Name: "a", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}
	w.containers["c"] = cri.Container{ID: "c", PodID: "p", State: cri.Running, CgroupsPath: slice + ":cri-containerd:c"}
}

func (w *world) list(t *testing.T, q lookup.Query) lookup.Listing {
	t.Helper()
	l := q.List(t.Context(), &w.host)
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	return l
}
