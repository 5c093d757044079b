package inventory_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestMergeKnown checks that a listing of a known object changes its state alone, and that
// an object without entry in the listing is dropped.
func TestMergeKnown(t *testing.T) {
	w := newWorld(t)
	p, c := w.run(cri.Running)
	w.list()
	p.Ready, c.State = false, cri.Exited
	w.runtime.pods["p"], w.runtime.containers["c"] = p, c
	w.runtime.silent["p"], w.runtime.silent["c"] = true, true // List must not fetch them
	w.list()
	if p, c := w.Pod("p"), w.Container("c"); p == nil || p.Pod.Ready || p.Pod.CgroupParent != slice || c == nil || c.Container.State != cri.Exited || c.Path == "" {
		t.Errorf("pod %+v, container %+v; want their details, not ready and exited", p, c)
	}
	delete(w.runtime.containers, "c")
	w.list()
	if p, c := w.Pod("p"), w.Container("c"); p == nil || c != nil {
		t.Errorf("pod %+v, container %+v; want the pod alone", p, c)
	}
}

// TestOldAnswers checks that answers to old questions do not replace newer entries.
func TestOldAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		then func(w *world) // after the listing was requested
		want func(w *world) bool
	}{
		"a container that came since stays": {
			func(w *world) { w.run(cri.Running); w.fetchContainer("c", w.Clock()); clear(w.runtime.containers) },
			func(w *world) bool { return w.Container("c") != nil },
		},
		"a pod that came since stays": {
			func(w *world) {
				w.run(cri.Running)
				w.fetchPod("p", w.Clock())
				clear(w.runtime.pods)
				clear(w.runtime.containers)
			},
			func(w *world) bool { return w.Pod("p") != nil },
		},
		"a container whose pod is not listed yet brings no pod without details": {
			func(w *world) {
				w.run(cri.Running)
				w.fetchContainer("c", w.Clock())
				clear(w.runtime.pods)
				clear(w.runtime.containers)
			},
			func(w *world) bool { return w.Pod("p") == nil },
		},
		"an end since then stays": {
			func(w *world) {
				w.run(cri.Running)
				w.fetchPod("p", w.Clock())
				w.fetchContainer("c", w.Clock())
				w.send("c", cri.ContainerStopped)
			},
			func(w *world) bool { return w.Container("c").Container.State == cri.Exited },
		},
		"a pod that stopped since then stays so": {
			func(w *world) { w.run(cri.Running); w.fetchPod("p", w.Clock()); w.send("p", cri.ContainerStopped) },
			func(w *world) bool { return !w.Pod("p").Pod.Ready },
		},
		"a resize since then stays": {
			func(w *world) {
				w.run(cri.Running)
				w.fetchPod("p", w.Clock())
				w.fetchContainer("c", w.Clock())
				w.Resize(w.Container("c"), cpus(3))
			},
			func(w *world) bool { return w.Container("c").Request().Shares == cpus(3).Shares },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			q := w.Query(nil, false)
			c.then(w)
			w.listAsOf(q)
			if !c.want(w) {
				t.Errorf("pod %+v, container %+v", w.Pod("p"), w.Container("c"))
			}
		})
	}
}

// TestWorseAnswer checks that known details survive an answer without details.
func TestWorseAnswer(t *testing.T) {
	w := newWorld(t)
	p, c := w.run(cri.Running)
	w.list()
	path := w.Container("c").Path
	p.Ready, c.State = false, cri.Exited
	w.runtime.pods["p"], w.runtime.containers["c"] = p, c
	w.runtime.partial["p"], w.runtime.partial["c"] = true, true
	w.fetchPod("p", w.Clock())
	w.fetchContainer("c", w.Clock())
	if p := w.Pod("p"); p.QoS != "Guaranteed" || p.Pod.Ready {
		t.Errorf("pod %+v; want its details, and not ready", p)
	}
	if c := w.Container("c"); c.Path != path || c.Container.PodID != "p" || c.Container.State != cri.Exited {
		t.Errorf("container %+v; want its details, and exited", c)
	}
	if all := w.Problems(); len(all) > 0 {
		t.Errorf("problems %v", all)
	}
}

// TestProblems checks that objects without details are reported, and fetched again.
func TestProblems(t *testing.T) {
	w := newWorld(t)
	w.run(cri.Running)
	w.runtime.silent["p"], w.runtime.silent["c"] = true, true
	w.list()
	if all := w.Problems(); len(all) != 2 || all[0].PodUID != "u-1" || all[1].Container != "app" {
		t.Errorf("problems %v; want one of the pod and one of the container", all)
	}
	clear(w.runtime.silent)
	w.list()
	if all := w.Problems(); len(all) > 0 {
		t.Errorf("problems after complete answers: %v", all)
	}
}

// TestUnlistedSandbox checks what happens to a pod whose sandbox the runtime does not list
// although it lists its container: the pod stays until the container has exited. A restarted
// daemon knows the UID alone, from the cgroup's name.
func TestUnlistedSandbox(t *testing.T) {
	for name, c := range map[string]struct {
		known bool
		state cri.State
		want  []string // UIDs
	}{
		"exited":           {true, cri.Exited, nil},
		"running":          {true, cri.Running, []string{"u-1"}},
		"created":          {true, cri.Created, []string{"u-1"}},
		"unknown, exited":  {false, cri.Exited, nil},
		"unknown, running": {false, cri.Running, []string{"u-1"}},
		"unknown, created": {false, cri.Created, []string{"u-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, ctr := w.run(c.state)
			ctr.FinishedAt = w.now
			w.runtime.containers["c"] = ctr
			if c.known {
				w.list()
			}
			delete(w.runtime.pods, "p")
			w.list()
			var got []string
			for p := range w.Pods() {
				got = append(got, p.UID)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Fatalf("pods (-want +got):\n%s", d)
			}
			for _, p := range w.Input(w.now) {
				if p.Gone || p.Unread == c.known {
					t.Errorf("input %+v; want a pod that is not gone, with details only if it was known", p)
				}
			}
			w.runtime.pods["p"] = p
			w.list()
			if p := w.Input(w.now); len(p) != 1 || p[0].Unread || p[0].Name != "a" || p[0].Gone {
				t.Errorf("input when the sandbox is listed again: %+v", p)
			}
		})
	}
}

// TestUnlistedSandboxEnds checks that a pod without sandbox is gone when its container has
// exited.
func TestUnlistedSandboxEnds(t *testing.T) {
	w := newWorld(t)
	w.run(cri.Running)
	w.list()
	delete(w.runtime.pods, "p")
	w.list()
	w.send("c", cri.ContainerStopped)
	if p := w.Input(w.now); len(p) != 1 || !p[0].Gone {
		t.Errorf("input %+v; want one pod that is gone", p)
	}
}

// TestStillborn checks that a container that was created and not started when its pod
// stopped does not keep the pod: it can never start.
func TestStillborn(t *testing.T) {
	w := newWorld(t)
	p, _ := w.run(cri.Created)
	p.Ready = false
	w.runtime.pods["p"] = p
	w.list()
	delete(w.runtime.pods, "p")
	w.list()
	if p := w.Input(w.now); len(p) != 1 || !p[0].Gone {
		t.Errorf("input %+v; want one pod that is gone", p)
	}
}

// TestFoundByListing checks how the daemon learned of a container that no event reported.
func TestFoundByListing(t *testing.T) {
	w := newWorld(t)
	w.BeginWatch(w.now.Add(-time.Minute))
	w.run(cri.Running)
	w.list()
	if c := w.Container("c"); c.Exposure().Way() != telemetry.WayResync || !c.Exposure().IsUnseen() {
		t.Errorf("way %q, unseen %t", c.Exposure().Way(), c.Exposure().IsUnseen())
	}
}
