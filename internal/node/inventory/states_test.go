package inventory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// transitions lists, for each event of a state machine, the state after it for each state before
// it, in the order of froms.
type transitions[W any] struct {
	froms []string
	enter map[string]func(w W) // leads from the initial state to a state of froms
	state func(w W) string
	table map[string]transition[W]
}

type transition[W any] struct {
	event func(w W)
	want  []string
}

func (tr transitions[W]) check(t *testing.T, begin func(t *testing.T) W) {
	t.Helper()
	for name, row := range tr.table {
		for i, from := range tr.froms {
			t.Run(name+"/"+from, func(t *testing.T) {
				w := begin(t)
				tr.enter[from](w)
				row.event(w)
				if got := tr.state(w); got != row.want[i] {
					t.Errorf("%s leads from %s to %s; want %s", name, from, got, row.want[i])
				}
			})
		}
	}
}

func nothing(*world) {}

func answer(w *world) { w.Container("c").Answer(cpuset.Of(4, 5), cpuset.Set{}) }

// TestPresence checks all transitions between the states of a container that NRI has reported. A
// container can run while it is not confirmed.
func TestPresence(t *testing.T) {
	with := func(s cri.State, event func(w *world)) func(w *world) {
		return func(w *world) {
			c := w.runtime.containers["c"]
			c.State = s
			w.runtime.containers["c"] = c
			event(w)
		}
	}
	list := func(w *world) { w.list() }
	fetch := func(w *world) { w.fetchContainer("c", w.Clock()) }
	expect := func(w *world) { w.Expect(w.runtime.pods["p"], w.runtime.containers["c"], false) }
	transitions[*world]{
		froms: []string{"asked", "answered", "confirmed"},
		enter: map[string]func(*world){"asked": nothing, "answered": answer, "confirmed": func(w *world) { answer(w); w.fetchContainer("c", w.Clock()) }},
		state: func(w *world) string {
			switch e := w.Container("c"); {
			case e == nil:
				return "gone"
			case e.IsAsked():
				return "asked"
			case e.IsUnconfirmed():
				return "answered"
			}
			return "confirmed"
		},
		table: map[string]transition[*world]{
			"nothing":                          {nothing, []string{"asked", "answered", "confirmed"}},
			"another request":                  {expect, []string{"asked", "asked", "asked"}},
			"a reply":                          {answer, []string{"answered", "answered", "answered"}},
			"a refusal":                        {func(w *world) { w.CancelCreate("c") }, []string{"gone", "gone", "gone"}},
			"no reply in time":                 {func(w *world) { w.AbandonCreate("c") }, []string{"gone", "gone", "gone"}},
			"a start":                          {func(w *world) { w.MarkStarting(w.Container("c")) }, []string{"asked", "confirmed", "confirmed"}},
			"a listing":                        {list, []string{"asked", "confirmed", "confirmed"}},
			"a listing, running":               {with(cri.Running, list), []string{"asked", "confirmed", "confirmed"}},
			"an answer":                        {fetch, []string{"confirmed", "confirmed", "confirmed"}},
			"an answer, running":               {with(cri.Running, fetch), []string{"confirmed", "confirmed", "confirmed"}},
			"an event of the creation":         {func(w *world) { w.send("c", cri.ContainerCreated) }, []string{"asked", "answered", "confirmed"}},
			"an event of the start":            {func(w *world) { w.send("c", cri.ContainerStarted) }, []string{"asked", "answered", "confirmed"}},
			"an event of the end":              {func(w *world) { w.send("c", cri.ContainerStopped) }, []string{"asked", "answered", "confirmed"}},
			"an event of the removal":          {func(w *world) { w.send("c", cri.ContainerDeleted) }, []string{"gone", "gone", "gone"}},
			"an event of the pod's removal":    {func(w *world) { w.send("p", cri.ContainerDeleted) }, []string{"asked", "gone", "confirmed"}},
			"missing when NRI connects":        {func(w *world) { w.DropMissing(map[string]bool{"p": true}) }, []string{"asked", "gone", "confirmed"}},
			"missing in an answer":             {func(w *world) { clear(w.runtime.containers); fetch(w) }, []string{"asked", "answered", "gone"}},
			"missing in an answer, long after": {func(w *world) { w.now = w.now.Add(time.Hour); clear(w.runtime.containers); fetch(w) }, []string{"asked", "gone", "gone"}},
		},
	}.check(t, func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		w.run(cri.Created)
		expect(w)
		return w
	})
}

// TestAbandonedOfPlugin checks that the request for a container of another plugin ends as if it had
// a reply, also after the start.
func TestAbandonedOfPlugin(t *testing.T) {
	for name, before := range map[string]func(w *world){"asked": nothing, "starting": func(w *world) { w.MarkStarting(w.Container("c")) }} {
		w := newWorld(t)
		p, c := w.run(cri.Created)
		c.Requested.CPUs = "4-5"
		w.Expect(p, c, false)
		before(w)
		w.AbandonCreate("c")
		if e := w.Container("c"); e == nil || e.IsAsked() || !e.IsUnconfirmed() {
			t.Errorf("%s: container %+v", name, e)
		}
	}
}

// TestStage checks all transitions between the states of a container. They only go forward, so a
// report from before an event changes nothing.
func TestStage(t *testing.T) {
	report := func(s cri.State, how func(w *world)) func(w *world) {
		return func(w *world) {
			c := w.runtime.containers["c"]
			c.State = s
			w.runtime.containers["c"] = c
			how(w)
		}
	}
	fetch := func(w *world) { w.fetchContainer("c", w.Clock()) }
	event := func(k cri.EventKind) func(w *world) { return func(w *world) { w.send("c", k) } }
	from := func(stages ...string) []string { return stages }
	start := func(w *world) { w.MarkStarting(w.Container("c")) }
	transitions[*world]{
		froms: from("unknown", "created", "starting", "running", "exited"),
		enter: map[string]func(*world){
			"unknown": nothing, "created": report(cri.Created, fetch), "starting": func(w *world) { report(cri.Created, fetch)(w); start(w) },
			"running": report(cri.Running, fetch), "exited": report(cri.Exited, fetch),
		},
		state: func(w *world) string {
			switch e := w.Container("c"); {
			case e.IsBeingMade():
				return "created"
			case e.Container.State == cri.Created:
				return "starting"
			default:
				return map[cri.State]string{cri.Unknown: "unknown", cri.Running: "running", cri.Exited: "exited"}[e.Container.State]
			}
		},
		table: map[string]transition[*world]{
			"nothing":                  {nothing, from("unknown", "created", "starting", "running", "exited")},
			"a start":                  {start, from("starting", "starting", "starting", "running", "exited")},
			"a reply":                  {answer, from("unknown", "created", "starting", "running", "exited")},
			"an event of the start":    {event(cri.ContainerStarted), from("running", "running", "running", "running", "exited")},
			"an event of the end":      {event(cri.ContainerStopped), from("exited", "exited", "exited", "exited", "exited")},
			"an event of the creation": {event(cri.ContainerCreated), from("unknown", "created", "starting", "running", "exited")},
			"reported as created":      {report(cri.Created, fetch), from("created", "created", "starting", "running", "exited")},
			"reported as running":      {report(cri.Running, fetch), from("running", "running", "running", "running", "exited")},
			"reported as exited":       {report(cri.Exited, fetch), from("exited", "exited", "exited", "exited", "exited")},
			"reported as unknown":      {report(cri.Unknown, fetch), from("unknown", "created", "starting", "running", "exited")},
			"listed as running":        {report(cri.Running, func(w *world) { w.list() }), from("running", "running", "running", "running", "exited")},
			"listed as created":        {report(cri.Created, func(w *world) { w.list() }), from("created", "created", "starting", "running", "exited")},
			"partly reported": {report(cri.Running, func(w *world) { w.runtime.partial["c"] = true; fetch(w) }),
				from("running", "running", "running", "running", "exited")},
			"stopped by the daemon": {func(w *world) { w.Container("c").NoteStop(nil, w.now) }, from("exited", "exited", "exited", "exited", "exited")},
		},
	}.check(t, func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		w.SetNRI(true)
		w.run(cri.Unknown)
		w.list()
		return w
	})
}

// TestStopState checks all transitions of the decision whether the daemon stops a container.
func TestStopState(t *testing.T) {
	type decision struct {
		*inventory.Container
		now time.Time
	}
	verdict := func(final, refused bool) func(d decision) {
		return func(d decision) { d.DecideStop(final, refused, d.now) }
	}
	busy := func(d decision) { d.NoteStop(errors.New("busy"), d.now) }
	transitions[decision]{
		froms: []string{"open", "allowed", "to stop", "stopping"},
		enter: map[string]func(decision){
			"open": func(decision) {}, "allowed": verdict(true, false), "stopping": verdict(true, true),
			"to stop": func(d decision) { d.DecideStop(true, true, d.now); busy(d) },
		},
		state: func(d decision) string {
			_, must := d.NextStop()
			begins := d.DecideStop(true, true, d.now)
			return map[[2]bool]string{{false, true}: "open", {false, false}: "allowed", {true, true}: "to stop", {true, false}: "stopping"}[[2]bool{must, begins}]
		},
		table: map[string]transition[decision]{
			"no event":            {func(decision) {}, []string{"open", "allowed", "to stop", "stopping"}},
			"refused for now":     {verdict(false, true), []string{"open", "allowed", "stopping", "stopping"}},
			"not refused for now": {verdict(false, false), []string{"open", "allowed", "allowed", "allowed"}},
			"refused":             {verdict(true, true), []string{"stopping", "allowed", "stopping", "stopping"}},
			"not refused":         {verdict(true, false), []string{"allowed", "allowed", "allowed", "allowed"}},
			"an error":            {busy, []string{"open", "allowed", "to stop", "to stop"}},
			"refused during the pause": {func(d decision) {
				d.NoteStop(errors.New("busy"), d.now.Add(time.Hour))
				d.DecideStop(true, true, d.now)
				d.NoteStop(errors.New("busy"), d.now)
			}, []string{"to stop", "allowed", "to stop", "to stop"}},
		},
	}.check(t, func(t *testing.T) decision {
		t.Helper()
		w := newWorld(t)
		w.BeginWatch(w.now.Add(-time.Minute))
		w.run(cri.Running)
		w.list()
		return decision{w.Container("c"), w.now}
	})
}
