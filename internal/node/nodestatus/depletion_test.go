package nodestatus_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// depletionRunner is a Runner with a clock of the test. Its pool has a floor of 2 CPUs.
type depletionRunner struct {
	*fakeAPI
	runningRunner
	log   *lockedLog
	later *atomic.Int64
}

func runDepletion(t *testing.T, f *fakeAPI) depletionRunner {
	t.Helper()
	d := depletionRunner{fakeAPI: f, log: new(lockedLog), later: new(atomic.Int64)}
	d.runningRunner = runWith(t, f, nodestatus.Options{
		Limits: quickLimits(), Log: slog.New(slog.NewTextHandler(d.log, nil)),
		Now: func() time.Time { return time.Now().Add(time.Duration(d.later.Load())) },
	})
	return d
}

func (d depletionRunner) show(cpus int, change ...func(*nodestatus.Depletion)) {
	s := pooled()
	s.Condition = &nodestatus.Condition{Ready: true, Reason: "AsPlanned"}
	s.Depletion = &nodestatus.Depletion{CPUs: cpus, Floor: 2, ClearAfter: time.Hour, Show: true}
	for _, c := range change {
		c(s.Depletion)
	}
	d.Show(s)
}

// shown returns the status of the pressure condition and the depletion taints of the Node. The
// caller holds the lock.
func (f *fakeAPI) shown() string {
	var all []string
	for _, c := range f.node.Status.Conditions {
		if c.Type == nodestatus.PressureType {
			all = append(all, string(c.Status)+" "+c.Reason)
		}
	}
	for _, t := range f.node.Spec.Taints {
		if t.Key == workload.DepletedTaint {
			all = append(all, fmt.Sprintf("%s:%s", t.Value, t.Effect))
		}
	}
	return strings.Join(all, ", ")
}

const (
	enough   = "False SharedPoolSufficient"
	depleted = "True SharedPoolDepleted, :NoSchedule"
)

func (d depletionRunner) is(what, want string) {
	d.t.Helper()
	d.wait(what, func() bool { return d.shown() == want })
}

func TestRunnerDepletion(t *testing.T) {
	f := newFakeAPI(t)
	other := corev1.Taint{Key: "other", Value: "v", Effect: "NoExecute"}
	f.edit(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{other} })
	r := runDepletion(t, f)
	r.show(2)
	r.is("enough", enough)
	r.show(1)
	r.is("too few", depleted)
	f.wait("Stats and log", func() bool { return r.Stats().Pressure && strings.Contains(r.log.String(), "shared pool is depleted") })
	r.show(1, func(d *nodestatus.Depletion) { d.Evict = true })
	r.is("with eviction", "True SharedPoolDepleted, evict:NoSchedule")
	r.show(1)
	r.is("without eviction", depleted)

	f.edit(func(n *corev1.Node) { n.Spec.Taints, n.Status.Conditions = []corev1.Taint{other}, nil })
	r.is("condition and taint are removed", depleted)
	f.edit(func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: workload.DepletedTaint, Effect: "NoExecute"})
	})
	r.is("a NoExecute taint is added", depleted)

	message := func(text string) {
		t.Helper()
		f.wait("message "+text, func() bool {
			for _, c := range f.node.Status.Conditions {
				if c.Type == nodestatus.PressureType {
					return strings.Contains(c.Message, text) && f.shown() == depleted
				}
			}
			return false
		})
	}
	at := func(minute int64) { r.later.Store(minute * int64(time.Minute)) }
	at(10)
	r.show(2)
	message("again")
	at(20)
	r.show(0)
	message("0 CPUs")
	at(61)
	r.show(4)
	message("again")
	at(120) // an hour after the pool was large enough for the first time
	r.show(4)
	f.wait("a heartbeat while still depleted", func() bool {
		for _, c := range f.node.Status.Conditions {
			if c.Type == nodestatus.PressureType {
				return c.LastHeartbeatTime.After(time.Now().Add(119*time.Minute)) && f.shown() == depleted
			}
		}
		return false
	})
	at(122)
	r.show(4)
	r.is("long enough", enough)
	f.do(func() {
		if len(f.node.Spec.Taints) != 1 || f.node.Spec.Taints[0] != other {
			t.Errorf("the taint of another client has changed: %v", f.node.Spec.Taints)
		}
	})

	r.show(0)
	r.is("again", depleted)
	nothing := pooled()
	nothing.Condition = &nodestatus.Condition{Ready: true, Reason: "WithoutDepletion"}
	r.Show(nothing)
	f.wait("the ready condition", func() bool { return f.condition() != nil && f.condition().Reason == "WithoutDepletion" })
	r.is("depletion stays", depleted)
	r.show(0, func(d *nodestatus.Depletion) { d.Show = false })
	r.is("switched off", "")
	f.wait("pressure in Stats", func() bool { return r.Stats().Pressure })
}

// TestRunnerDepletionAcrossRestart checks that depletion stays on the Node when the daemon
// stops, that the next daemon waits for ClearAfter, and that Withdraw removes it.
func TestRunnerDepletionAcrossRestart(t *testing.T) {
	f := newFakeAPI(t)
	first := runDepletion(t, f)
	first.show(0)
	first.is("depleted", depleted)
	first.stop()
	if f.shown() != depleted || f.condition() != nil {
		t.Fatalf("after the end: %s and condition %v; want %s and no condition", f.shown(), f.condition(), depleted)
	}

	patches := len(f.patches)
	second := runDepletion(t, f)
	second.show(2)
	f.wait("the second daemon's condition", func() bool { return f.condition() != nil })
	f.do(func() {
		for _, p := range f.patches[patches:] {
			if strings.Contains(string(p), "taints") || strings.Contains(string(p), "SharedPoolSufficient") {
				t.Errorf("patch %s", p)
			}
		}
	})
	second.later.Store(int64(61 * time.Minute))
	second.show(2)
	second.is("cleared", enough)
	second.show(1)
	second.is("depleted again", depleted)
	second.stop()

	o := nodestatus.Options{Name: "n1", Access: f.access(), Version: "test"}
	f.do(func() { f.refuse["PATCH node"] = 403 })
	if _, err := nodestatus.Withdraw(t.Context(), o, workload.Names{}); err == nil || !strings.Contains(err.Error(), workload.DepletedTaint) {
		t.Errorf("forbidden removal of the taint: %v", err)
	}
	f.do(func() { clear(f.refuse) })
	if _, err := nodestatus.Withdraw(t.Context(), o, workload.Names{}); err != nil || f.shown() != "" {
		t.Errorf("after Withdraw: %q, %v; want %q", f.shown(), err, "")
	}
}

// TestRunnerDepletionBeforeStartupTaint checks that the depletion taint is written before the
// startup taint is removed, and that a forbidden depletion taint does not keep the startup
// taint.
func TestRunnerDepletionBeforeStartupTaint(t *testing.T) {
	const key = "cpupoold.io/starting"
	state := func() *nodestatus.State {
		s := pooled()
		s.Taint, s.Verified = key, true
		s.Depletion = &nodestatus.Depletion{Floor: 1, ClearAfter: time.Minute, Show: true}
		return s
	}
	f := newFakeAPI(t)
	f.edit(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: "NoSchedule"}} })
	r := run(t, f, quickLimits())
	r.Show(state())
	f.wait("both", func() bool { return f.shown() == depleted && len(f.node.Spec.Taints) == 1 })
	f.do(func() {
		var taints []string
		for _, p := range f.patches {
			if strings.Contains(string(p), "taints") {
				taints = append(taints, string(p))
			}
		}
		if len(taints) != 2 || !strings.Contains(taints[0], key) || !strings.Contains(taints[0], workload.DepletedTaint) || strings.Contains(taints[1], key) {
			t.Errorf("patches of taints: %v; want the depletion taint first", taints)
		}
	})
	r.stop()

	f = newFakeAPI(t)
	f.edit(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: "NoSchedule"}} })
	f.do(func() { f.refuseAdding = 403 })
	r = run(t, f, quickLimits())
	r.Show(state())
	f.wait("the startup taint goes", func() bool { return len(f.node.Spec.Taints) == 0 })
}

// TestRunnerStartupTaintWaitsForDepletion checks that the startup taint stays after failures
// that can end.
func TestRunnerStartupTaintWaitsForDepletion(t *testing.T) {
	const key = "cpupoold.io/starting"
	for _, code := range []int{401, 409, 429, 500, 503} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			f := newFakeAPI(t)
			f.edit(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: "NoSchedule"}} })
			f.do(func() { f.refuseAdding = code })
			r := run(t, f, quickLimits())
			s := pooled()
			s.Taint, s.Verified = key, true
			s.Depletion = &nodestatus.Depletion{Floor: 1, ClearAfter: time.Minute, Show: true}
			r.Show(s)
			f.wait("tries", func() bool { return f.calls["PATCH node"] >= 3 })
			f.do(func() {
				if taints := f.node.Spec.Taints; len(taints) != 1 || taints[0].Key != key {
					t.Errorf("taints %v while the depletion taint cannot be written; want only %s", taints, key)
				}
				f.refuseAdding = 0
			})
			f.wait("both", func() bool { return f.shown() == depleted && len(f.node.Spec.Taints) == 1 })
			f.do(func() {
				for _, p := range f.patches { // the depletion taint is in the first patch of taints
					if strings.Contains(string(p), "taints") {
						if !strings.Contains(string(p), key) || !strings.Contains(string(p), workload.DepletedTaint) {
							t.Errorf("first patch of taints %s; want both", p)
						}
						return
					}
				}
			})
		})
	}
}

func TestRunnerEventOfTheNode(t *testing.T) {
	f := newFakeAPI(t)
	r := run(t, f, quickLimits())
	r.Show(&nodestatus.State{Problems: []nodestatus.Problem{{Code: "SharedDepleted", Text: "no CPU"}}})
	f.wait("event", func() bool { return len(f.events) == 1 })
	for _, e := range f.events {
		if e.Namespace != "default" || e.Regarding.Kind != "Node" || e.Regarding.Name != "n1" || e.Regarding.UID != "n1" || e.Regarding.Namespace != "" || e.Note != "no CPU" {
			t.Errorf("event %+v", e)
		}
	}
}
