package inventory_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestExpectedSurvives checks how long a container that NRI has reported survives answers
// of the runtime that lack it.
func TestExpectedSurvives(t *testing.T) {
	answer := func(w *world) { w.Container("c").Answer(cpuset.Of(4, 5), cpuset.Set{}) }
	for name, c := range map[string]struct {
		then  func(w *world)
		after time.Duration
		want  bool
	}{
		"no reply yet":    {func(*world) {}, time.Hour, true},
		"reply, soon":     {answer, time.Minute, true},
		"reply, long ago": {answer, 3 * time.Minute, false},
		"starting":        {func(w *world) { answer(w); w.MarkStarting(w.Container("c")) }, 0, false},
		"listed once":     {func(w *world) { answer(w); w.list() }, 0, false},
		"listed without details": {func(w *world) {
			answer(w)
			w.runtime.silent["c"] = true
			w.list()
			w.runtime.silent["c"] = false
		}, 0, false},
		"described by a question": {func(w *world) { answer(w); w.fetchContainer("c", w.Clock()) }, 0, false},
	} {
		for by, missing := range map[string]func(w *world){
			"listing":  func(w *world) { w.list() },
			"question": func(w *world) { w.fetchContainer("c", w.Clock()) },
		} {
			t.Run(name+"/"+by, func(t *testing.T) {
				w := newWorld(t)
				p, ctr := w.run(cri.Created)
				w.Expect(p, ctr, false)
				c.then(w)
				w.now = w.now.Add(c.after)
				clear(w.runtime.containers)
				missing(w)
				if got := w.Container("c") != nil; got != c.want {
					t.Errorf("the container is there: %t; want %t", got, c.want)
				}
			})
		}
	}
}

// TestConfirmedDuringListing checks that a container stays if the runtime shows that it exists while
// a listing is in progress. The listing lacks the container, because it began before the creation.
func TestConfirmedDuringListing(t *testing.T) {
	for name, confirm := range map[string]func(w *world){
		"by its start":  func(w *world) { w.MarkStarting(w.Container("c")) },
		"by a question": func(w *world) { w.fetchContainer("c", w.Clock()) },
		"by both":       func(w *world) { w.MarkStarting(w.Container("c")); w.fetchContainer("c", w.Clock()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, c := w.run(cri.Created)
			w.Expect(p, c, false)
			w.Container("c").Answer(cpuset.Of(4, 5), cpuset.Set{})
			listing := w.Query(nil, false)
			confirm(w)
			clear(w.runtime.containers)
			w.listAsOf(listing)
			if w.Container("c") == nil {
				t.Error("a listing from before has dropped the container")
			}
			w.list()
			if w.Container("c") != nil {
				t.Error("a later listing without the container has not dropped it")
			}
		})
	}
}

// TestExpectedPod checks how long a pod that NRI has reported survives answers of the
// runtime that lack it.
func TestExpectedPod(t *testing.T) {
	for after, want := range map[time.Duration]bool{time.Minute: true, 3 * time.Minute: false} {
		w := newWorld(t)
		p, _ := w.run(cri.Created)
		clear(w.runtime.pods)
		clear(w.runtime.containers)
		w.ExpectPod(p)
		w.now = w.now.Add(after)
		w.fetchPod("p", w.Clock())
		byQuestion := w.Pod("p") != nil
		w.list()
		if byList := w.Pod("p") != nil; byList != want || byQuestion != want {
			t.Errorf("after %v the pod is there: %t after the question, %t after the listing; want %t", after, byQuestion, byList, want)
		}
	}
}

// TestEndOfExpectation checks what happens to a container whose creation ends without a
// container of the runtime.
func TestEndOfExpectation(t *testing.T) {
	for name, c := range map[string]struct {
		cpus string // that another plugin has given it
		end  func(w *world, p cri.Pod, c cri.Container)
		want bool
	}{
		"refused":                       {"", func(w *world, _ cri.Pod, _ cri.Container) { w.CancelCreate("c") }, false},
		"no reply in time":              {"", func(w *world, _ cri.Pod, _ cri.Container) { w.AbandonCreate("c") }, false},
		"no reply in time, of a plugin": {"4-5", func(w *world, _ cri.Pod, _ cri.Container) { w.AbandonCreate("c") }, true},
		"another attempt after a reply": {"", func(w *world, p cri.Pod, c cri.Container) {
			w.Container("c").Answer(cpuset.Of(4), cpuset.Set{})
			c.ID = "next"
			w.Expect(p, c, false)
		}, false},
		"another attempt, while the first is asked": {"", func(w *world, p cri.Pod, c cri.Container) {
			c.ID = "next"
			w.Expect(p, c, false)
		}, true},
		"missing when NRI connects": {"", func(w *world, _ cri.Pod, _ cri.Container) {
			w.Container("c").Answer(cpuset.Of(4), cpuset.Set{})
			w.DropMissing(map[string]bool{"p": true})
		}, false},
		"there when NRI connects": {"", func(w *world, _ cri.Pod, _ cri.Container) {
			w.Container("c").Answer(cpuset.Of(4), cpuset.Set{})
			w.DropMissing(map[string]bool{"p": true, "c": true})
		}, true},
		"pod removed": {"", func(w *world, _ cri.Pod, _ cri.Container) {
			w.Container("c").Answer(cpuset.Of(4), cpuset.Set{})
			w.send("p", cri.ContainerDeleted)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, ctr := w.run(cri.Created)
			ctr.Requested.CPUs = c.cpus
			w.Expect(p, ctr, false)
			c.end(w, p, ctr)
			if got := w.Container("c") != nil; got != c.want {
				t.Errorf("the container is there: %t; want %t", got, c.want)
			}
		})
	}
}

// TestAnswer checks the states from the request of the runtime to the start.
func TestAnswer(t *testing.T) {
	w := newWorld(t)
	w.SetNRI(true)
	p, c := w.run(cri.Created)
	e := w.Expect(p, c, false)
	c.Recorded.CPUs = "6"
	w.runtime.containers["c"] = c
	if !e.IsAsked() || e.IsUnconfirmed() || !w.Pod("p").IsUnconfirmed() || !e.IsBeingMade() {
		t.Errorf("expected container %+v", e)
	}
	e.Answer(cpuset.Of(4, 5), cpuset.Of(1))
	if e.IsAsked() || !e.IsUnconfirmed() || e.Record().Recorded.String() != "4-5" || e.Record().RecordedMems.String() != "1" || e.Exposure().Way() != telemetry.WayNRI {
		t.Errorf("answered container %+v", e)
	}
	e.Answer(cpuset.Set{}, cpuset.Set{})
	if e.Recorded.String() != "4-5" {
		t.Errorf("an empty answer records CPUs %s; want 4-5", e.Recorded)
	}
	w.list()
	e = w.Container("c")
	if e.IsUnconfirmed() || w.Pod("p").IsUnconfirmed() || e.Recorded.String() != "6" || !e.IsBeingMade() {
		t.Errorf("container after a listing: %+v", e)
	}
	if w.MarkStarting(e); e.IsBeingMade() {
		t.Errorf("starting container %+v", e)
	}
}
