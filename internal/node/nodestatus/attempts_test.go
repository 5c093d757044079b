package nodestatus_test

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// TestRunnerForbiddenRequest checks that requests of other kinds continue when one is refused.
func TestRunnerForbiddenRequest(t *testing.T) {
	const key = "cpupoold.io/starting"
	tainted := func(f *fakeAPI) bool { return len(f.node.Spec.Taints) > 0 }
	for call, c := range map[string]struct {
		code int
		done func(*fakeAPI) bool
	}{
		// The startup taint stays until the resources are written.
		"PATCH status": {403, func(f *fakeAPI) bool { return len(f.events) == 1 && tainted(f) && f.has(shared, "") }},
		"PATCH node":   {403, func(f *fakeAPI) bool { return len(f.events) == 1 && tainted(f) && f.pooled() }},
		"POST event":   {500, func(f *fakeAPI) bool { return len(f.events) == 0 && !tainted(f) && f.pooled() }},
	} {
		t.Run(call, func(t *testing.T) {
			f := newFakeAPI(t)
			f.delete()
			f.create(corev1.Taint{Key: key, Effect: "NoSchedule"})
			f.do(func() { f.refuse[call] = c.code })
			r := run(t, f, quickLimits())
			s := pooled()
			s.Taint, s.Verified = key, true
			s.Problems = []nodestatus.Problem{{UID: "a", Namespace: "ns", Pod: "a", Code: "Refused", Text: "why"}}
			r.Show(s)
			f.wait("tries", func() bool { return f.calls[call] >= 2 })
			f.wait("the rest", func() bool { return c.done(f) })
			f.wait("the failure in Stats", func() bool { return !r.Stats().Connected })
			f.do(func() { clear(f.refuse) })
			f.wait("all", func() bool { return len(f.events) == 1 && !tainted(f) && f.pooled() && r.Stats().Connected })
		})
	}
}

// TestRunnerLogsOutageOnce checks that an outage with several failures is logged once, and
// that the interval between patches does not apply after failures.
func TestRunnerLogsOutageOnce(t *testing.T) {
	f := newFakeAPI(t)
	var logs lockedLog
	f.do(func() { f.refuse["PATCH status"] = 500 })
	l := quickLimits()
	l.Gap = time.Minute
	r := runLogged(t, f, l, slog.New(slog.NewTextHandler(&logs, nil)))
	r.Show(pooled())
	f.wait("tries", func() bool { return f.calls["PATCH status"] >= 4 })
	f.do(func() { clear(f.refuse) })
	f.wait("resources before the interval ends", f.pooled)
	f.wait("a connection", func() bool { return r.Stats().Connected })
	r.stop()
	for text, want := range map[string]int{"cannot publish node": 1, "node is published again": 1} {
		if got := strings.Count(logs.String(), text); got != want {
			t.Errorf("%q is logged %d times, want %d: %s", text, got, want, logs.String())
		}
	}
}

// TestRunnerEventsYieldToStatus checks that with a slow API server the resources wait for one
// event, not for all.
func TestRunnerEventsYieldToStatus(t *testing.T) {
	f := newFakeAPI(t)
	gate := make(chan struct{})
	f.do(func() { f.gate = gate })
	var minutes atomic.Int64 // added to a clock that stands still
	begin := time.Now()
	r := runWith(t, f, nodestatus.Options{
		Limits: quickLimits(), Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return begin.Add(time.Duration(minutes.Load()) * time.Minute) },
	})
	s := pooled()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.Problems = append(s.Problems, nodestatus.Problem{UID: name, Namespace: "ns", Pod: name, Code: "Refused", Text: "why"})
	}
	r.Show(s)
	f.wait("resources", f.pooled)
	minutes.Add(1)
	r.Show(s)
	f.wait("an event", func() bool { return f.calls["POST event"] == 1 })

	smaller := *s
	smaller.Pools = []capacity.Pool{{Resource: shared, Milli: 1000}}
	minutes.Add(1)
	r.Show(&smaller)
	gate <- struct{}{}
	f.wait("resources", func() bool { return f.has(shared, "1000") })
	f.wait("the next event", func() bool { return f.calls["POST event"] == 2 })
	close(gate)
	f.wait("all events", func() bool { return len(f.events) == 5 })
}

// TestRunnerClockSetBack checks that a heartbeat in the future does not delay a new condition.
func TestRunnerClockSetBack(t *testing.T) {
	f := newFakeAPI(t)
	f.edit(func(n *corev1.Node) {
		c := corev1.NodeCondition{Type: nodestatus.ConditionType, Status: "True", Reason: "AsPlanned", Message: "old"}
		c.LastHeartbeatTime.Time = time.Now().Add(24 * time.Hour)
		n.Status.Conditions = append(n.Status.Conditions, c)
	})
	r := run(t, f, quickLimits())
	s := pooled()
	s.Condition = &nodestatus.Condition{Ready: true, Reason: "AsPlanned", Message: "new"}
	r.Show(s)
	f.wait("the new condition", func() bool {
		return f.condition().Message == "new" && time.Until(f.condition().LastHeartbeatTime.Time) < time.Hour
	})
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "3600": 30 * time.Second, "65536": 0, "Wed, 21 Oct 2026 07:28:00 GMT": 0,
	} {
		if got := nodestatus.RetryAfter(header); got != want {
			t.Errorf("RetryAfter(%q) = %s; want %s", header, got, want)
		}
	}
}
