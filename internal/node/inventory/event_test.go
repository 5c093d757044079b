package inventory_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestEvent checks which objects have to be fetched after an event of the runtime.
func TestEvent(t *testing.T) {
	none := func(*world) {}
	known := func(w *world) { w.list() }
	expected := func(w *world) { w.Expect(w.runtime.pods["p"], w.runtime.containers["c"], false) }
	for name, c := range map[string]struct {
		before             func(w *world)
		id, pod            string
		kind               cri.EventKind
		sandbox, container string
		started            cgroup.Path
	}{
		"new container, new pod":     {none, "c", "p", cri.ContainerCreated, "p", "c", ""},
		"new container, known pod":   {func(w *world) { w.fetchPod("p", 0) }, "c", "p", cri.ContainerStarted, "", "c", ""},
		"new container, no pod":      {none, "c", "", cri.ContainerStarted, "", "c", ""},
		"new sandbox":                {none, "p", "p", cri.ContainerCreated, "p", "", ""},
		"unknown container ended":    {none, "c", "p", cri.ContainerStopped, "", "", ""},
		"unknown container removed":  {none, "c", "p", cri.ContainerDeleted, "", "", ""},
		"known container created":    {known, "c", "p", cri.ContainerCreated, "", "", ""},
		"known container started":    {known, "c", "p", cri.ContainerStarted, "", "", "kubepods.slice/kubepods-podu_1.slice/cri-containerd-c.scope"},
		"known container ended":      {known, "c", "p", cri.ContainerStopped, "", "", ""},
		"known sandbox created":      {known, "p", "p", cri.ContainerCreated, "", "", ""},
		"known sandbox removed":      {known, "p", "p", cri.ContainerDeleted, "", "", ""},
		"expected sandbox created":   {expected, "p", "p", cri.ContainerCreated, "p", "", ""},
		"answered container created": {func(w *world) { expected(w); w.Container("c").Answer(cpuset.Of(4), cpuset.Set{}) }, "c", "p", cri.ContainerCreated, "", "c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(cri.Created)
			c.before(w)
			sandbox, container, started := w.Event(cri.Event{ContainerID: c.id, PodID: c.pod, Kind: c.kind, At: w.now})
			if sandbox != c.sandbox || container != c.container || started != c.started {
				t.Errorf("sandbox %q, container %q, started %q; want %q, %q, %q", sandbox, container, started, c.sandbox, c.container, c.started)
			}
		})
	}
}

// TestEndByEvent checks that the time of the first end event counts, and that a status
// without a time keeps it.
func TestEndByEvent(t *testing.T) {
	w := newWorld(t)
	w.run(cri.Running)
	w.list()
	at := w.now
	w.send("c", cri.ContainerStopped)
	w.now = w.now.Add(1)
	w.send("c", cri.ContainerStopped)
	w.fetchContainer("c", w.Clock())
	if c := w.Container("c").Container; c.State != cri.Exited || !c.FinishedAt.Equal(at) {
		t.Errorf("state %v, finished at %v; want exited at %v", c.State, c.FinishedAt, at)
	}
}
