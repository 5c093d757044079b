package inventory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestStateMovesForward checks that no report returns a container to an earlier state.
func TestStateMovesForward(t *testing.T) {
	reports := map[string]func(w *world, s cri.State){
		"status":  func(w *world, _ cri.State) { w.fetchContainer("c", w.Clock()) },
		"listing": func(w *world, _ cri.State) { w.list() },
		"answer without details": func(w *world, _ cri.State) {
			w.runtime.partial["c"] = true
			w.fetchContainer("c", w.Clock())
		},
		"event": func(w *world, s cri.State) {
			w.send("c", map[cri.State]cri.EventKind{cri.Created: cri.ContainerCreated, cri.Running: cri.ContainerStarted, cri.Exited: cri.ContainerStopped}[s])
		},
	}
	for name, report := range reports {
		for _, before := range []cri.State{cri.Created, cri.Running, cri.Exited} {
			for _, reported := range []cri.State{cri.Created, cri.Running, cri.Exited} {
				w := newWorld(t)
				_, c := w.run(before)
				w.list()
				c.State = reported
				w.runtime.containers["c"] = c
				report(w, reported)
				if got, want := w.Container("c").Container.State, max(before, reported); got != want {
					t.Errorf("%s of %v after %v: %v; want %v", name, reported, before, got, want)
				}
			}
		}
	}
}

// TestSandboxStaysUnready checks that no report makes a sandbox ready again.
func TestSandboxStaysUnready(t *testing.T) {
	for name, report := range map[string]func(w *world){
		"status":  func(w *world) { w.fetchPod("p", w.Clock()) },
		"listing": func(w *world) { w.list() },
		"answer without details": func(w *world) {
			w.runtime.partial["p"] = true
			w.fetchPod("p", w.Clock())
		},
	} {
		w := newWorld(t)
		w.run(cri.Running)
		w.list()
		w.send("p", cri.ContainerStopped)
		report(w)
		if w.Pod("p").Pod.Ready {
			t.Errorf("%s: the sandbox is ready again", name)
		}
	}
}

// TestInstances checks which instances of a container count as earlier, and whether one
// exists that has not ended.
func TestInstances(t *testing.T) {
	w := newWorld(t)
	_, c := w.run(cri.Created)
	for id, change := range map[string]func(*cri.Container){
		"ended":   func(c *cri.Container) { c.State = cri.Exited },
		"earlier": func(*cri.Container) {},
		"other":   func(c *cri.Container) { c.Name = "other" },
	} {
		o := c
		o.ID, o.CreatedAt = id, c.CreatedAt.Add(-time.Minute)
		change(&o)
		w.runtime.containers[id] = o
	}
	w.list()
	if got := w.Container("c").EarlierInstances(); !slices.Equal(got, []string{"earlier"}) {
		t.Errorf("earlier instances: %v; want %v", got, []string{"earlier"})
	}
	for name, want := range map[string]bool{"app": true, "other": true, "none": false} {
		if got := w.HasInstance(pools.Key{PodUID: "u-1", Container: name}); got != want {
			t.Errorf("an instance of %s exists: %t; want %t", name, got, want)
		}
	}
}

// TestRecovered checks which containers recovery is given: each once, when its details and
// its pod are known.
func TestRecovered(t *testing.T) {
	w := newWorld(t)
	w.run(cri.Running)
	w.runtime.silent["c"] = true
	w.list()
	w.BeginWatch(w.now)
	take := func() int {
		return len(w.TakeUnrecovered())
	}
	if n := take(); n != 0 {
		t.Errorf("%d containers before the details are known; want 0", n)
	}
	clear(w.runtime.silent)
	w.list()
	if first, second := take(), take(); first != 1 || second != 0 {
		t.Errorf("%d containers, then %d; want one, once", first, second)
	}
}

// TestDevices checks that a container keeps its CDI devices after a report of a runtime that does
// not report devices.
func TestDevices(t *testing.T) {
	w := newWorld(t)
	p, c := w.run(cri.Created)
	c.HasDevices = true
	w.Expect(p, c, false)
	w.fetchPod("p", w.Clock())
	w.fetchContainer("c", w.Clock())
	all := w.InputOf("u-1", w.now).Containers
	if !slices.ContainsFunc(all, func(c pools.Container) bool { return c.ID == "c" && c.Devices }) {
		t.Errorf("containers %+v; want c with devices", all)
	}
}

// TestPlacings checks which facts about other CPU managers a new report keeps.
func TestPlacings(t *testing.T) {
	w := newWorld(t)
	p, c := w.run(cri.Created)
	c.Requested.CPUs = "4-5"
	w.Expect(p, c, false)
	w.Container("c").Answer(w.Container("c").Recorded, w.Container("c").Recorded)
	w.list()
	if !w.Container("c").IsPlacedElsewhere() {
		t.Error("a status of the runtime makes the container the daemon's")
	}
	left := w.LeftToPlugins()
	if len(left) != 1 || left[0].ID != "c" || left[0].PodUID != "u-1" {
		t.Errorf("left to plugins: %v", left)
	}
	next := newWorld(t)
	next.run(cri.Running)
	next.list()
	if next.Recall(left); !next.Container("c").IsPlacedElsewhere() {
		t.Error("a restarted daemon does not know that a plugin places the container")
	}
	if w.Expect(p, c, true); w.Container("c").IsPlacedElsewhere() {
		t.Error("the CPUs of a static kubelet count as a plugin's")
	}
}
