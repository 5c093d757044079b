package requests_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

var (
	errRefused = errors.New("refused")
	reply      = nri.Reply{Adjustment: nri.Adjustment{CPUs: cpuset.Range(2, 3)}}
)

// TestCreate checks what happens to a creation by its decision, by the state of the journal, and
// by the time for which the runtime waits.
func TestCreate(t *testing.T) {
	undecided := func(*requests.Create) (nri.Reply, error) { return nri.Reply{}, requests.ErrUndecided }
	accepted := func(*requests.Create) (nri.Reply, error) { return reply, nil }
	for name, c := range map[string]struct {
		plugin   string // CPUs of another plugin
		decide   func(*requests.Create) (nri.Reply, error)
		cancel   bool // before the decision
		saved    bool // before the release
		late     bool // the disk
		giveUp   bool // the runtime, before the release
		again    bool
		open     bool // in the queue
		held     bool
		replied  bool
		err      error
		known    bool     // to the inventory
		canceled []string // to be fetched
	}{
		"undecided":                         {decide: undecided, open: true, known: true},
		"refused":                           {decide: func(*requests.Create) (nri.Reply, error) { return reply, errRefused }, again: true, replied: true, err: errRefused},
		"accepted, and saved":               {decide: accepted, saved: true, replied: true, known: true},
		"accepted, and not saved":           {decide: accepted, held: true, known: true},
		"accepted, and the disk is late":    {decide: accepted, late: true, replied: true, known: true},
		"accepted, and canceled, and saved": {decide: accepted, giveUp: true, saved: true, canceled: []string{"c"}},
		"accepted, and canceled":            {decide: accepted, giveUp: true, held: true, known: true},
		"canceled":                          {decide: accepted, cancel: true, again: true, canceled: []string{"c"}},
		"canceled, of another plugin":       {decide: accepted, plugin: "4-5", cancel: true, again: true, known: true, canceled: []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.create("c", c.plugin)
			if w.NextCreate() != a || w.IsEmpty() || !w.inventory.Objects().Container("c").IsAsked() {
				t.Fatal("the request is not in the queue, or its container is not in the inventory")
			}
			if c.cancel {
				close(w.canceled)
			}
			w.change()
			if again := w.AnswerCreates(w.now, c.decide); again != c.again {
				t.Errorf("again: %t; want %t", again, c.again)
			}
			if c.saved {
				w.save()
			}
			if c.late {
				w.journal.StopWaiting()
			}
			if c.giveUp {
				close(w.canceled)
			}
			if diff := cmp.Diff(c.canceled, w.Release(w.now)); diff != "" {
				t.Errorf("canceled (-want +got):\n%s", diff)
			}
			if again := w.Release(w.now); len(again) > 0 {
				t.Errorf("canceled twice: %v", again)
			}
			got, ok := replied(a.Reply())
			if ok != c.replied || !errors.Is(got.Err, c.err) || ok && c.err == nil && !got.Value.Adjustment.CPUs.Equal(reply.Adjustment.CPUs) {
				t.Errorf("replied: %t, %+v; want %t, %v", ok, got, c.replied, c.err)
			}
			if open := !w.IsEmpty(); open != c.open || (w.NextCreate() == a) != c.open || w.IsWaiting() != c.open {
				t.Errorf("open: %t, waiting: %t; want %t", open, w.IsWaiting(), c.open)
			}
			if held := !w.HeldUntil().IsZero(); held != c.held {
				t.Errorf("held: %t; want %t", held, c.held)
			}
			if c.open || c.held {
				w.checkTimes("create", 0, 0)
			} else {
				w.checkTimes("create", 1, 0.001) // change takes a millisecond
			}
			e := w.inventory.Objects().Container("c")
			if (e != nil) != c.known || c.canceled != nil && e != nil && e.IsAsked() {
				t.Errorf("the inventory knows %+v; want %t", e, c.known)
			}
		})
	}
}

// TestWait checks that a request without a decision waits for a second. After that it is late,
// and its owner is decided without hints.
func TestWait(t *testing.T) {
	w := newWorld(t)
	a := w.create("c", "")
	decisions := 0
	decide := func(got *requests.Create) (nri.Reply, error) {
		if decisions++; got != a {
			t.Errorf("decides about %+v; want %+v", got, a)
		}
		if got.IsLate(w.now) {
			return nri.Reply{}, errRefused
		}
		return nri.Reply{}, requests.ErrUndecided
	}
	if w.AnswerCreates(w.now, decide); w.next() != waits.Timeout || a.Granted() != waits.Timeout || a.Shortened() != "" {
		t.Errorf("waits for %v, granted %v", w.next(), a.Granted())
	}
	w.now = w.now.Add(waits.Timeout - 1)
	if keys := w.Late(w.now); len(keys) > 0 || w.AnswerCreates(w.now, decide) {
		t.Errorf("late before the end: %v", keys)
	}
	w.now = w.now.Add(1)
	if diff := cmp.Diff([]pools.Key{{PodUID: "u", Container: "c"}}, w.Late(w.now)); diff != "" {
		t.Errorf("late (-want +got):\n%s", diff)
	}
	w.AnswerCreates(w.now, decide)
	if got, ok := replied(a.Reply()); !ok || !errors.Is(got.Err, errRefused) || decisions != 3 || w.next() != 0 {
		t.Errorf("reply %+v after %d decisions, next deadline in %v", got, decisions, w.next())
	}
}

// TestNoTimeToWait checks that a request is late at once when earlier waits have used the budget.
// The caller must decide it in another pass.
func TestNoTimeToWait(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
		a := w.create(id, "")
		again := w.AnswerCreates(w.now, func(*requests.Create) (nri.Reply, error) { return nri.Reply{}, requests.ErrUndecided })
		if !again {
			w.now = w.now.Add(w.next())
		}
		if !a.IsLate(w.now) {
			t.Fatalf("request %s is not late", id)
		}
		if id == "6" && (!again || a.Shortened() == "") {
			t.Errorf("again %t, %q; want another pass, and the reason", again, a.Shortened())
		}
		w.AnswerCreates(w.now, func(*requests.Create) (nri.Reply, error) { return nri.Reply{}, errRefused })
	}
	if w.ShortenedWaits() == 0 {
		t.Error("no wait counts as shortened")
	}
}

// TestHeldUntil checks how long a reply waits for the disk: diskTimeout, and at most until the
// runtime needs it.
func TestHeldUntil(t *testing.T) {
	for decided, want := range map[time.Duration]time.Duration{
		0:                      diskTimeout,
		800 * time.Millisecond: 1300 * time.Millisecond,
		waits.Timeout:          1300 * time.Millisecond,
	} {
		w := newWorld(t)
		arrived := w.now
		a := w.create("c", "")
		w.now = arrived.Add(decided)
		w.journal.Originals.NoteAsync(original)
		if w.Accept(a, reply, w.now); !w.IsEmpty() {
			t.Error("an accepted request is open")
		}
		if got := w.HeldUntil().Sub(arrived); got != want {
			t.Errorf("decided after %v: held until %v; want %v", decided, got, want)
		}
	}
}

// TestStart checks what happens to a start by its decision.
func TestStart(t *testing.T) {
	for name, c := range map[string]struct {
		decision      error
		cancel        bool
		open, replied bool
		err           error
	}{
		"allowed":             {replied: true},
		"refused":             {decision: errRefused, replied: true, err: errRefused},
		"undecided":           {decision: requests.ErrUndecided, open: true},
		"undecided, canceled": {decision: requests.ErrUndecided, cancel: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := requests.NewStart("c", w.now, w.canceled)
			if fetch := w.AddStart(a); !fetch || w.NextStart() != a {
				t.Errorf("an unknown container is fetched: %t", fetch)
			}
			if c.cancel {
				close(w.canceled)
			}
			again := w.AnswerStarts(w.now, func(*requests.Start) (*pools.PodPlan, error) { return nil, c.decision })
			got, ok := replied(a.Reply())
			if again || ok != c.replied || !errors.Is(got.Err, c.err) || w.IsEmpty() == c.open {
				t.Errorf("again %t, replied %t, %v, open %t; want %+v", again, ok, got.Err, !w.IsEmpty(), c)
			}
			if wait := w.next(); (wait == waits.Timeout) != c.open || w.IsWaiting() != c.open {
				t.Errorf("waits for %v, waiting %t; open %t", wait, w.IsWaiting(), c.open)
			}
			if c.open {
				w.checkTimes("start", 0, 0)
			} else {
				w.checkTimes("start", 1, 0)
			}
		})
	}
}

// TestRefuse checks that a refusal without the queue is sent, and that its time counts.
func TestRefuse(t *testing.T) {
	w := newWorld(t)
	a := requests.NewCreate(cri.Pod{}, cri.Container{}, w.now, nil)
	w.now = w.now.Add(3 * time.Second)
	w.Refuse(a, errRefused)
	if got, ok := replied(a.Reply()); !ok || !errors.Is(got.Err, errRefused) {
		t.Errorf("replied: %t, %v; want %v", ok, got.Err, errRefused)
	}
	w.checkTimes("create", 1, 3)
}

// TestAllow checks that a start is answered once, and that its container counts as starting from
// the first call of MarkStarting on.
func TestAllow(t *testing.T) {
	w := newWorld(t)
	w.inventory.SetNRI(true)
	created := w.create("c", "")
	w.Accept(created, reply, w.now)
	w.inventory.Objects().Container("c").Answer(cpuset.Range(2, 3), cpuset.Set{})
	a := requests.NewStart("c", w.now, w.canceled)
	if !w.AddStart(a) {
		t.Error("an unconfirmed container is not fetched")
	}
	e := w.inventory.Objects().Container("c")
	if !e.IsBeingMade() || w.cache.IsStale(e.Path) {
		t.Error("the cgroup may be written before MarkStarting")
	}
	if w.MarkStarting(); e.IsBeingMade() || e.IsUnconfirmed() || !w.cache.IsStale(e.Path) {
		t.Error("the cgroup may not be written, or is not read, after MarkStarting")
	}
	asOf := w.inventory.Clock()
	if w.MarkStarting(); w.inventory.Clock() != asOf {
		t.Error("the start is marked twice")
	}
	w.Allow(a, w.now)
	if got, ok := replied(a.Reply()); !ok || got.Err != nil || w.NextStart() != nil {
		t.Errorf("reply %+v, %t; want one without an error", got, ok)
	}
	w.checkTimes("start", 1, 0)
	w.inventory.PutContainer(statusOf(container("c", ""), cri.Created))
	if w.AddStart(requests.NewStart("c", w.now, w.canceled)) {
		t.Error("a container that the runtime has reported is fetched")
	}
}
