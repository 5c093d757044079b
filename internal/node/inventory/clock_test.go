package inventory_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestAnswerAfterRemoval checks that an answer does not bring a removed object back. The runtime
// reports the removal first, and lists the object until it has deleted it. Half a minute later
// an answer counts, because the removal may have failed.
func TestAnswerAfterRemoval(t *testing.T) {
	for name, answer := range map[string]func(w *world) func(){
		"container": func(w *world) func() {
			asOf := w.Clock()
			return func() { w.fetchContainer("c", asOf) }
		},
		"pod": func(w *world) func() {
			asOf := w.Clock()
			return func() { w.fetchPod("p", asOf) }
		},
		"listing": func(w *world) func() {
			q := w.Query(nil, false)
			return func() { w.listAsOf(q) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(cri.Running)
			late := answer(w)
			w.list()
			w.send("c", cri.ContainerDeleted)
			w.send("p", cri.ContainerDeleted)
			late()
			if pods, containers := w.Len(); pods+containers != 0 {
				t.Errorf("after the late answer there are %d pods and %d containers", pods, containers)
			}
			answer(w)()
			if pods, containers := w.Len(); pods+containers != 0 {
				t.Errorf("after the answer to a later question there are %d pods and %d containers", pods, containers)
			}
			w.now = w.now.Add(30 * time.Second)
			late()
			if pods, containers := w.Len(); pods+containers != 0 {
				t.Errorf("half a minute after the removal, the late answer counts: %d pods and %d containers", pods, containers)
			}
			answer(w)()
			if pods, containers := w.Len(); pods+containers == 0 {
				t.Error("half a minute after the removal, an answer does not count")
			}
		})
	}
}

// TestNotFound checks that an object that one question did not find is not brought back by
// an older one. A question of the same time may find it: some runtimes report a container
// before they have it.
func TestNotFound(t *testing.T) {
	w := newWorld(t)
	_, c := w.run(cri.Running)
	w.list()
	before, asOf := w.Clock()-1, w.Clock()
	delete(w.runtime.containers, "c")
	if !w.fetchContainer("c", asOf) || w.Container("c") != nil {
		t.Fatal("the container is still there")
	}
	w.runtime.containers["c"] = c
	if w.fetchContainer("c", before) || w.Container("c") != nil {
		t.Error("an older answer brings the container back")
	}
	if !w.fetchContainer("c", asOf) || w.Container("c") == nil {
		t.Error("an answer of the same time does not count")
	}
}

// TestRemovalClock checks how long a removal is remembered: for half a minute, and until a
// listing that was requested after it.
func TestRemovalClock(t *testing.T) {
	for name, c := range map[string]struct {
		listing  func(w *world) func() // made before the removal, merged after it
		outdated bool
	}{
		"no listing":                    {func(*world) func() { return func() {} }, true},
		"listing from before":           {func(w *world) func() { q := w.Query(nil, false); return func() { w.listAsOf(q) } }, true},
		"listing from after":            {func(w *world) func() { return w.list }, false},
		"listing and another from then": {func(w *world) func() { q := w.Query(nil, false); return func() { w.list(); w.listAsOf(q) } }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, ctr := w.run(cri.Running)
			w.list()
			asOf, list := w.Clock(), c.listing(w)
			w.send("c", cri.ContainerDeleted)
			delete(w.runtime.containers, "c")
			w.now = w.now.Add(30 * time.Second)
			list()
			w.runtime.containers["c"] = ctr
			if counts := w.fetchContainer("c", asOf); counts == c.outdated {
				t.Errorf("an answer from before the removal counts: %t", counts)
			}
		})
	}
}
