package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/refusal"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

// TestRefusedContainerIsStoppedOnce checks that a refused container is stopped once if the
// daemon has seen its creation, and otherwise runs.
func TestRefusedContainerIsStoppedOnce(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.WithFailOnRefusal(nodefixture.PoolsYAML)
	old := n.RunContainer(n.RunPod("old", "default", "guaranteed", 5, nil), "app", nodefixture.WholeCPUs(5))
	r := n.start()
	n.AwaitCPUs(old, "2-3")
	r.quiet()
	holder := n.RunPod("holder", "default", "guaranteed", 3, nil)
	n.AwaitCPUs(n.RunContainer(holder, "app", nodefixture.WholeCPUs(3)), "4-6")
	pod := n.RunPod("new", "default", "guaranteed", 2, nil)
	first := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.Eventually("refused container stopped", func() bool { return !n.IsRunning(first) })
	second := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2)) // as the kubelet does
	n.Eventually("stopped again", func() bool { return !n.IsRunning(second) })
	r.quiet()
	if calls := n.Runtime.Calls("StopContainer"); calls != 2 {
		t.Errorf("%d containers stopped; want the two that were refused", calls)
	}
	if !n.IsRunning(old) {
		t.Error("a container that ran before the daemon was stopped")
	}
	r.view("refusals", func(v *telemetry.View) bool { return v.RefusedNow == 1 && refusals(v) == 3 })
	if got := len(n.Logged("refused")); got != 3 {
		t.Errorf("refusals in the log = %d; want 3", got)
	}
	if err := n.Runtime.StopPod(holder); err != nil {
		t.Fatal(err)
	}
	n.Eventually("holder gone", func() bool { return r.loop.publisher.Metrics().Pools[2].Free.Len() >= 2 })
	n.AwaitCPUs(n.RunContainer(pod, "app", nodefixture.WholeCPUs(2)), "4-5")
}

// refusals returns the number of refusals of all codes.
func refusals(v *telemetry.View) (n int) {
	for _, count := range v.Refused {
		n += int(count)
	}
	return n
}

// TestReloadStopsNobody checks that with onRefusal: fail a running container runs on after a
// reload, exclusively or in the shared pool.
func TestReloadStopsNobody(t *testing.T) {
	shrunk := strings.NewReplacer("cpus: 4-7", "cpus: 6-7", "cpus: 2-3", "cpus: 2-5")
	failingCarved := strings.Replace(nodefixture.CarvedYAML, "from: shared\n", "from: shared\n  onRefusal: fail\n", 1)
	for _, tt := range []struct {
		name          string
		before, after string
		cpus          int // of each of two containers
		refused       int // before the reload
		later         int // after the reload
	}{
		{"pool shrinks", nodefixture.WithFailOnRefusal(nodefixture.PoolsYAML), shrunk.Replace(nodefixture.WithFailOnRefusal(nodefixture.PoolsYAML)), 2, 0, 1},
		{"floor rises", failingCarved, strings.Replace(failingCarved, "floor: 2", "floor: 4", 1), 2, 0, 0},                                                                        // an owner keeps its CPUs
		{"unit comes", nodefixture.WithFailOnRefusal(nodefixture.PoolsYAML), nodefixture.WithFailOnRefusal(nodefixture.PoolsYAML) + "units:\n  du.service: {cpus: 2}\n", 2, 0, 1}, // the unit, which comes too late
		{"shared becomes fail", nodefixture.PoolsYAML, nodefixture.WithFailOnRefusal(nodefixture.PoolsYAML), 3, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.YAML = tt.before
			r := n.start()
			r.quiet()
			var ids []string
			for _, uid := range []string{"a", "b"} {
				ids = append(ids, n.RunContainer(n.RunPod(uid, "default", "guaranteed", tt.cpus, nil), "app", nodefixture.WholeCPUs(tt.cpus)))
				r.view("placed", func(v *telemetry.View) bool { return len(v.Containers) == len(ids) })
				r.quiet()
			}
			total := func(count int) func(*telemetry.View) bool {
				return func(v *telemetry.View) bool { return refusals(v) == count }
			}
			r.view("refusals before", total(tt.refused))
			n.YAML = tt.after
			r.loop.watchers.reload()
			n.Eventually("reloaded", func() bool { return len(n.Logged("configuration in force")) == 2 })
			r.quiet()
			r.view("refusals after", total(tt.later))
			// A later container has too few CPUs, too, and is stopped: the earlier ones were
			// decided before.
			late := n.RunContainer(n.RunPod("late", "default", "guaranteed", 4, nil), "app", nodefixture.WholeCPUs(4))
			n.Eventually("late one stopped", func() bool { return !n.IsRunning(late) })
			for i, id := range ids {
				if !n.IsRunning(id) {
					t.Errorf("container %d was stopped", i)
				}
			}
			if calls := n.Runtime.Calls("StopContainer"); calls != 1 {
				t.Errorf("%d containers stopped; want only the late one", calls)
			}
		})
	}
}

// TestStopIsTriedAgain checks that the daemon repeats a failed stop of a container after a
// pause.
func TestStopIsTriedAgain(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.WithFailOnRefusal(nodefixture.PoolsYAML)
	r := n.start()
	r.quiet()
	n.Runtime.Fail("StopContainer", errors.New("the shim is busy"))
	started := n.clock.now()
	id := n.RunContainer(n.RunPod("new", "default", "guaranteed", 5, nil), "app", nodefixture.WholeCPUs(5))
	n.Eventually("tried", func() bool {
		return len(n.Logged("refused container is not stopped; it runs in the shared pool until the next try")) == 1
	})
	n.AwaitCPUs(id, "2-3")
	n.Runtime.Fail("StopContainer", nil) // before quiet, which may wait until the next try
	r.quiet()
	r.within(refusal.StopRetryDelay, "stopped", func() bool { return !n.IsRunning(id) })
	if waited := n.clock.now().Sub(started); waited < refusal.StopRetryDelay {
		t.Errorf("tried again after %v", waited)
	}
	if calls := n.Runtime.Calls("StopContainer"); calls != 2 {
		t.Errorf("asked %d times; want twice", calls)
	}
}

// TestRefusedContainerRuns checks that with onRefusal: shared a refused container runs, and
// gets CPUs when they are free.
func TestRefusedContainerRuns(t *testing.T) {
	n := newNode(t)
	r := n.start()
	holder := n.RunPod("holder", "default", "guaranteed", 3, nil)
	n.AwaitCPUs(n.RunContainer(holder, "app", nodefixture.WholeCPUs(3)), "4-6")
	id := n.RunContainer(n.RunPod("new", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(id, "2-3")
	r.view("refusal", func(v *telemetry.View) bool { return v.RefusedNow == 1 && refusals(v) == 1 })
	if err := n.Runtime.StopPod(holder); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUs(id, "4-5")
	r.view("over", func(v *telemetry.View) bool { return v.RefusedNow == 0 && refusals(v) == 1 })
	if calls := n.Runtime.Calls("StopContainer"); calls != 0 {
		t.Errorf("%d containers stopped; want 0", calls)
	}
}
