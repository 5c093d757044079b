package inventory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

const slice = "kubepods-podu_1.slice"

// fakeRuntime is a container runtime that reports the objects of a test. Its lists contain
// no details.
type fakeRuntime struct {
	hostenv.Runtime
	pods       map[string]cri.Pod
	containers map[string]cri.Container
	silent     map[string]bool // no answer about the object
	partial    map[string]bool // an answer without details
	err        error           // of the lists
}

func (f *fakeRuntime) List(context.Context) (pods []cri.Pod, containers []cri.Container, err error) {
	for id, p := range f.pods {
		pods = append(pods, cri.Pod{ID: id, UID: p.UID, Namespace: p.Namespace, Name: p.Name, Ready: p.Ready, CreatedAt: p.CreatedAt})
	}
	for id, c := range f.containers {
		containers = append(containers, cri.Container{ID: id, PodID: c.PodID, Name: c.Name, State: c.State, CreatedAt: c.CreatedAt})
	}
	return pods, containers, f.err
}

func (f *fakeRuntime) PodStatus(_ context.Context, id string) (cri.Pod, error) {
	p, ok := f.pods[id]
	if p.Detailed = true; f.partial[id] {
		p.CgroupParent, p.CgroupsPath, p.Resources = "", "", cri.Resources{}
	}
	return p, f.fault("pod", id, ok)
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, id string) (cri.Container, error) {
	c, ok := f.containers[id]
	if c.Detailed = true; f.partial[id] {
		c.PodID, c.CgroupsPath, c.Requested, c.Recorded = "", "", cri.Resources{}, cri.Resources{}
	}
	return c, f.fault("container", id, ok)
}

func (f *fakeRuntime) fault(kind, id string, ok bool) error {
	switch {
	case f.silent[id]:
		return errors.New("no answer")
	case !ok:
		return cri.ErrNotFound
	case f.partial[id]:
		return &cri.InfoError{Kind: kind, ID: id, Field: "info", Err: errors.New("missing")}
	}
	return nil
}

// world is an inventory with its runtime, clock and cgroups.
type world struct {
	t *testing.T
	*inventory.Inventory
	*inventory.Objects
	runtime *fakeRuntime
	host    hostenv.Host
	tree    *testnode.Cgroups
	now     time.Time
}

func newWorld(t *testing.T) *world {
	m := inventory.New(cgroup.DriverSystemd)
	w := &world{t: t, Inventory: m, Objects: m.Objects(), now: time.Now(),
		runtime: &fakeRuntime{pods: make(map[string]cri.Pod), containers: make(map[string]cri.Container), silent: make(map[string]bool), partial: make(map[string]bool)},
		tree:    testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7)}),
	}
	w.UseClock(func() time.Time { return w.now })
	w.host = hostenv.Host{Runtime: w.runtime, Annotations: annotations.New(workload.Names{}), Driver: cgroup.DriverSystemd, Cgroups: cgroup.New(w.tree)}
	return w
}

// run adds a Guaranteed pod with the sandbox p and the UID u-1, and its container c.
func (w *world) run(s cri.State) (cri.Pod, cri.Container) {
	w.runtime.pods["p"] = cri.Pod{ID: "p", UID: "u-1", Namespace: "default", Name: "a", Ready: true, CreatedAt: w.now,
		CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p", Resources: cpus(2)}
	w.runtime.containers["c"] = cri.Container{ID: "c", PodID: "p", Name: "app", State: s, CreatedAt: w.now,
		CgroupsPath: slice + ":cri-containerd:c", Requested: cpus(2)}
	return w.runtime.pods["p"], w.runtime.containers["c"]
}

// list lists all objects and merges the result.
func (w *world) list() { w.listAsOf(w.Query(nil, false)) }

func (w *world) listAsOf(q lookup.Query) {
	w.t.Helper()
	l := q.List(w.t.Context(), &w.host)
	if l.Err != nil {
		w.t.Fatal(l.Err)
	}
	w.Merge(l)
}

func (w *world) fetchPod(id string, asOf int) bool {
	return w.PutPod(lookup.FetchPod(w.t.Context(), &w.host, id, asOf))
}

func (w *world) fetchContainer(id string, asOf int) bool {
	return w.PutContainer(lookup.FetchContainer(w.t.Context(), &w.host, id, asOf))
}

// send applies an event of the runtime about an object of the sandbox p.
func (w *world) send(id string, k cri.EventKind) {
	w.Event(cri.Event{ContainerID: id, PodID: "p", Kind: k, At: w.now})
}

// cpus returns the resources of a request for n whole CPUs.
func cpus(n int) cri.Resources {
	return cri.Resources{Shares: uint64(1024 * n), Quota: int64(100_000 * n), Period: 100_000}
}
