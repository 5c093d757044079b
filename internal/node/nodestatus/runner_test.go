package nodestatus_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

// quickLimits returns short limits. Timeouts that only end a failing test keep their length.
func quickLimits() nodestatus.Limits {
	return nodestatus.Limits{
		Call: 10 * time.Second, Watch: time.Minute, Start: time.Millisecond, Pause: 50 * time.Millisecond, Gap: time.Millisecond, Settle: time.Millisecond,
	}
}

// runningRunner is a Runner in its goroutine.
type runningRunner struct {
	*nodestatus.Runner
	stop func()
}

func run(t *testing.T, f *fakeAPI, l nodestatus.Limits) runningRunner {
	t.Helper()
	return runLogged(t, f, l, slog.New(slog.DiscardHandler))
}

func runLogged(t *testing.T, f *fakeAPI, l nodestatus.Limits, log *slog.Logger) runningRunner {
	t.Helper()
	return runWith(t, f, nodestatus.Options{Limits: l, Log: log})
}

func runWith(t *testing.T, f *fakeAPI, o nodestatus.Options) runningRunner {
	t.Helper()
	o.Name, o.Access, o.Record, o.Version = "n1", f.access(), t.TempDir()+"/none", "test"
	r := nodestatus.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	stop := func() {
		cancel()
		select {
		case <-done:
		case <-time.After(nodefixture.Timeout):
			t.Error("runner does not end")
		}
	}
	t.Cleanup(stop)
	return runningRunner{r, stop}
}

// pooled returns a state with the three resources.
func pooled() *nodestatus.State {
	return &nodestatus.State{Resources: true, Pools: []capacity.Pool{{Resource: shared, Milli: 4000}, {Resource: guaranteed, Milli: 6000}, {Resource: cores, Milli: 12000}}}
}

// has reports whether capacity and allocatable have a value of a resource; with an empty
// value, whether both lack it. The caller holds the lock.
func (f *fakeAPI) has(name, value string) bool {
	if f.node == nil {
		return false
	}
	c, inCapacity := f.node.Status.Capacity[corev1.ResourceName(name)]
	a, inAllocatable := f.node.Status.Allocatable[corev1.ResourceName(name)]
	if value == "" {
		return !inCapacity && !inAllocatable
	}
	want := quantity(value)
	return inCapacity && inAllocatable && c.Cmp(want) == 0 && a.Cmp(want) == 0
}

func (f *fakeAPI) condition() *corev1.NodeCondition {
	if f.node == nil {
		return nil
	}
	for i := range f.node.Status.Conditions {
		if f.node.Status.Conditions[i].Type == nodestatus.ConditionType {
			return &f.node.Status.Conditions[i]
		}
	}
	return nil
}

func (f *fakeAPI) pooled() bool {
	return f.has(shared, "4000") && f.has(guaranteed, "6000") && f.has(cores, "12000")
}

func TestRunnerAdvertises(t *testing.T) {
	f := newFakeAPI(t)
	r := run(t, f, quickLimits())
	r.Show(pooled())
	f.wait("resources", f.pooled)
	f.wait("other resources stay", func() bool { return f.has("example.com/gpu", "2") && len(f.node.Status.Conditions) == 1 })

	// Repeated states and changes of other fields cause no patch.
	var patched int
	f.do(func() { patched = len(f.patches) })
	for i := range 20 {
		r.Show(pooled())
		f.edit(func(n *corev1.Node) { n.Labels = map[string]string{"i": string(rune('a' + i))} })
	}
	f.edit(func(n *corev1.Node) { delete(n.Status.Capacity, guaranteed) })
	f.wait("repair", f.pooled)
	f.do(func() {
		if got := len(f.patches); got != patched+1 {
			t.Errorf("%d patches for one change: %s", got-patched, f.patches)
		}
		if got := string(f.patches[patched]); strings.Contains(got, shared) {
			t.Errorf("patch contains unchanged resources: %s", got)
		}
	})

	f.edit(func(n *corev1.Node) { n.Status.Allocatable[shared] = quantity("1") })
	f.wait("repair of an external write", f.pooled)

	less := pooled()
	less.Pools = less.Pools[:1]
	r.Show(less)
	f.wait("resource of a removed pool", func() bool {
		return f.has(shared, "4000") && f.has(guaranteed, "") && f.has(cores, "") && f.has("example.com/gpu", "2")
	})
	r.Show(&nodestatus.State{Pools: less.Pools})
	f.wait("resources off", func() bool { return f.has(shared, "") && f.has("example.com/gpu", "2") })
	f.wait("counts of patches", func() bool {
		stats := r.Stats()
		return stats.Connected && stats.Patches[telemetry.OK] == uint64(len(f.patches)) && stats.Patches[telemetry.Failed] == 0
	})
}

// TestRunnerWithdrawsOldNames checks that a daemon with another domain or fewer types deletes
// the resources of an earlier daemon, and no others.
func TestRunnerWithdrawsOldNames(t *testing.T) {
	f := newFakeAPI(t)
	old := run(t, f, quickLimits())
	old.Show(&nodestatus.State{Names: workload.Names{Domain: "example.org"}, Resources: true, Pools: []capacity.Pool{{Resource: "management.example.org/cores", Milli: 12000}}})
	f.wait("the old name", func() bool { return f.has("management.example.org/cores", "12000") })
	old.stop()
	f.edit(func(n *corev1.Node) { n.Status.Capacity["infra.workload.openshift.io/cores"] = quantity("12000") })
	r := run(t, f, quickLimits())
	r.Show(pooled())
	f.wait("only the new names", func() bool {
		return f.pooled() && f.has("management.example.org/cores", "") && f.has("infra.workload.openshift.io/cores", "") && f.has("example.com/gpu", "2")
	})
}

func TestRunnerNodeRecreated(t *testing.T) {
	f := newFakeAPI(t)
	f.delete()
	r := run(t, f, quickLimits())
	r.Show(pooled())
	f.wait("a watch", func() bool { return f.watchers == 1 })
	f.create()
	f.wait("resources of a node that comes later", f.pooled)
	f.delete()
	f.create()
	f.wait("resources of the next one", f.pooled)

	// Without a watch event, the patch detects the deletion.
	f.do(func() { f.silent = true })
	f.delete()
	more := pooled()
	more.Pools[0].Milli = 5000
	r.Show(more)
	f.wait("a patch of a missing Node", func() bool { return r.Stats().Patches[telemetry.Failed] == 1 })
	f.do(func() { f.silent = false })
	f.create()
	f.wait("resources of the third", func() bool { return f.has(shared, "5000") })
}

// TestRunnerOutages checks that the Runner retries after failures of the API server until the
// Node is as wanted.
func TestRunnerOutages(t *testing.T) {
	more := pooled()
	more.Pools[0].Milli = 5000
	for name, c := range map[string]struct {
		limits      func(*nodestatus.Limits)
		begin, over func(*fakeAPI)
		during      func(*fakeAPI) bool
	}{
		"patches are refused": {
			begin:  func(f *fakeAPI) { f.refuse["PATCH status"] = 500 },
			during: func(f *fakeAPI) bool { return f.calls["PATCH status"] >= 3 },
			over:   func(f *fakeAPI) { clear(f.refuse) },
		},
		"forbidden": {
			begin:  func(f *fakeAPI) { f.refuse["PATCH status"], f.refuse["WATCH node"] = 403, 403 },
			during: func(f *fakeAPI) bool { return f.calls["PATCH status"] >= 3 },
			over:   func(f *fakeAPI) { clear(f.refuse) },
		},
		"token replaced": {
			begin:  func(f *fakeAPI) { f.tokens = []string{"second"}; f.server.CloseClientConnections() },
			during: func(*fakeAPI) bool { return true },
			over:   func(f *fakeAPI) { f.write("token", "second") },
		},
		"connections break": {
			begin:  func(f *fakeAPI) { f.server.CloseClientConnections() },
			during: func(*fakeAPI) bool { return true },
			over:   func(f *fakeAPI) { f.server.CloseClientConnections() },
		},
		"requests hang": {
			limits: func(l *nodestatus.Limits) { l.Call = 200 * time.Millisecond },
			begin:  func(f *fakeAPI) { f.hang = true },
			during: func(*fakeAPI) bool { return true },
			over:   func(f *fakeAPI) { f.hang = false },
		},
		"too many requests": {
			begin:  func(f *fakeAPI) { f.refuse["PATCH status"] = 429 },
			during: func(f *fakeAPI) bool { return f.calls["PATCH status"] >= 1 },
			over:   func(f *fakeAPI) { clear(f.refuse) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, l := newFakeAPI(t), quickLimits()
			if c.limits != nil {
				c.limits(&l)
			}
			r := run(t, f, l)
			r.Show(pooled())
			f.wait("resources", f.pooled)
			f.do(func() { c.begin(f) })
			r.Show(more)
			f.wait("the outage", func() bool { return c.during(f) && r.Stats().Patches[telemetry.Failed] > 0 || f.has(shared, "5000") })
			if name != "connections break" && r.Stats().Connected {
				t.Error("connected during the outage")
			}
			f.do(func() { c.over(f) })
			f.wait("resources after it", func() bool { return f.has(shared, "5000") })
			f.wait("a connection", func() bool { return r.Stats().Connected })
			f.edit(func(n *corev1.Node) { delete(n.Status.Capacity, shared) })
			f.wait("the watch", func() bool { return f.has(shared, "5000") })
		})
	}
}

func TestRunnerWatchExpires(t *testing.T) {
	f := newFakeAPI(t)
	r := run(t, f, quickLimits())
	r.Show(pooled())
	f.wait("resources", f.pooled)
	f.do(func() { f.expire = 2 })
	f.wait("watches that expired", func() bool { return f.expire == 0 && f.calls["WATCH node"] >= 3 })
	f.edit(func(n *corev1.Node) { delete(n.Status.Capacity, shared) })
	f.wait("repair", f.pooled)
}

// TestRunnerSilentWatch checks that a watch that sends nothing ends, and that the next one
// reports the missed change.
func TestRunnerSilentWatch(t *testing.T) {
	f := newFakeAPI(t)
	f.do(func() { f.silent = true })
	r := run(t, f, nodestatus.Limits{Call: time.Second, Watch: time.Second, Start: time.Millisecond, Pause: time.Millisecond, Gap: time.Millisecond})
	r.Show(pooled())
	f.wait("resources", f.pooled)
	f.edit(func(n *corev1.Node) { delete(n.Status.Capacity, shared) })
	f.wait("repair", f.pooled)
}

func TestShowDoesNotWait(t *testing.T) {
	f := newFakeAPI(t)
	f.do(func() { f.hang = true })
	l := quickLimits()
	l.Call = time.Minute
	r := run(t, f, l)
	before := time.Now()
	for range 1000 {
		r.Show(pooled())
	}
	if took := time.Since(before); took > 10*time.Second {
		t.Errorf("1000 calls of Show took %s while the API server hangs", took)
	}
	r.stop() // does not wait for the API server either
}

func TestRunnerCondition(t *testing.T) {
	f := newFakeAPI(t)
	r := run(t, f, quickLimits())
	show := func(ready bool, reason string) {
		s := pooled()
		s.Condition = &nodestatus.Condition{Ready: ready, Reason: reason, Message: strings.Repeat("x", 2000)}
		r.Show(s)
	}
	is := func(status corev1.ConditionStatus, reason string) func() bool {
		return func() bool {
			c := f.condition()
			return c != nil && c.Status == status && c.Reason == reason && len(c.Message) < 1100
		}
	}
	show(false, "Starting")
	f.wait("condition", is("False", "Starting"))
	var first metav1.Time
	f.do(func() { first = f.condition().LastTransitionTime })
	show(false, "NotAsPlanned")
	f.wait("another reason", is("False", "NotAsPlanned"))
	f.do(func() {
		if got := f.condition().LastTransitionTime; !got.Equal(&first) {
			t.Errorf("transition %s; the status has not changed since %s", got, first)
		}
	})
	show(true, "AsPlanned")
	f.wait("ready", is("True", "AsPlanned"))
	f.edit(func(n *corev1.Node) { n.Status.Conditions = nil })
	f.wait("repair", is("True", "AsPlanned"))
	r.Show(pooled())
	f.wait("condition off", func() bool { return f.condition() == nil })
	show(true, "AsPlanned")
	f.wait("and on", is("True", "AsPlanned"))
	r.stop()
	if f.condition() != nil || !f.pooled() {
		t.Errorf("after the end: condition %+v, resources there: %t; want none, and true", f.condition(), f.pooled())
	}
}

// TestRunnerOnlyCondition checks that the other fields of the Node stay.
func TestRunnerOnlyCondition(t *testing.T) {
	f := newFakeAPI(t)
	f.edit(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: workload.DepletedTaint, Effect: "NoSchedule"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: nodestatus.PressureType, Status: "True", Reason: "SharedPoolDepleted"}}
		n.Status.Capacity[shared], n.Status.Allocatable[shared] = quantity("1k"), quantity("1k")
	})
	r := run(t, f, quickLimits())
	for _, reason := range []string{"Observing", "Starting", "Observing"} {
		r.Show(&nodestatus.State{OnlyCondition: true, Verified: true, Condition: &nodestatus.Condition{Reason: reason}})
		f.wait(reason, func() bool { c := f.condition(); return c != nil && c.Reason == reason })
	}
	f.wait("the other fields unchanged", func() bool {
		if f.shown() != depleted || !f.has(shared, "1k") {
			t.Errorf("the Node shows %q and %v", f.shown(), f.node.Status.Capacity)
		}
		return true
	})
}

func TestRunnerHeartbeat(t *testing.T) {
	f := newFakeAPI(t)
	r := run(t, f, quickLimits())
	s := pooled()
	s.Condition, s.Heartbeat = &nodestatus.Condition{Ready: true, Reason: "AsPlanned"}, 5*time.Minute
	r.Show(s)
	f.wait("condition", func() bool { return f.condition() != nil })
	old := time.Now().Add(-10 * time.Minute).Truncate(time.Second)
	age := func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].LastHeartbeatTime.Time = old
		}
	}
	f.edit(age)
	f.wait("heartbeat", func() bool { return f.condition().LastHeartbeatTime.After(old.Add(time.Minute)) })

	// Without a heartbeat the age of the condition does not matter.
	silent := pooled()
	silent.Condition = s.Condition
	r.Show(silent)
	f.edit(age)
	f.edit(func(n *corev1.Node) { delete(n.Status.Capacity, shared) })
	f.wait("a patch of only the resources", func() bool {
		return f.pooled() && f.condition().LastHeartbeatTime.Time.Equal(old)
	})
}

func TestRunnerTaint(t *testing.T) {
	const key = "cpupoold.io/starting"
	taints := []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: key, Effect: "NoSchedule"}, {Key: key, Effect: "NoExecute"}, {Key: "b", Value: "v", Effect: "NoExecute"}}
	f := newFakeAPI(t)
	f.delete()
	f.create(taints...)
	r := run(t, f, quickLimits())
	s := pooled()
	s.Taint = key
	r.Show(s)
	f.wait("resources", f.pooled)
	f.do(func() {
		if len(f.node.Spec.Taints) != 4 {
			t.Errorf("taints before the first pass is verified: %v; want 4 entries", f.node.Spec.Taints)
		}
	})
	verified := pooled()
	verified.Taint, verified.Verified = key, true
	// The Runner has an old Node: its first patch must keep a taint that it has not read.
	f.do(func() { f.silent = true })
	f.wait("a silent watch", func() bool { return f.watchers == 1 })
	f.edit(func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "c", Effect: "NoSchedule"})
	})
	r.Show(verified)
	f.wait("conflict", func() bool { return r.Stats().Patches[telemetry.Conflict] > 0 || len(f.node.Spec.Taints) < 5 })
	f.do(func() { f.silent = false })
	f.wait("taint removed", func() bool {
		return slices.EqualFunc(f.node.Spec.Taints, []string{"a", "b", "c"}, func(t corev1.Taint, key string) bool { return t.Key == key })
	})
	f.do(func() {
		if f.node.Spec.Taints[1].Value != "v" {
			t.Errorf("the taint of another client has changed: %v", f.node.Spec.Taints)
		}
	})
}

func TestRunnerEvents(t *testing.T) {
	f := newFakeAPI(t)
	r := run(t, f, quickLimits())
	s := &nodestatus.State{}
	for i := range 50 {
		s.Problems = append(s.Problems, nodestatus.Problem{
			UID: string(rune('a' + i%5)), Namespace: "ns", Pod: strings.Repeat("p", 253), Container: "c", Code: "Refused", Text: strings.Repeat("€", 500),
		})
	}
	r.Show(s)
	f.wait("one event for each pod", func() bool { return len(f.events) == 5 })
	for range 10 {
		r.Show(s)
	}
	s = &nodestatus.State{Problems: append(slices.Clone(s.Problems), nodestatus.Problem{UID: "z", Namespace: "ns", Pod: "z", Code: "Offline", Text: "no CPU"})}
	r.Show(s)
	f.wait("and one more", func() bool { return len(f.events) == 6 })
	f.wait("6 requests for 6 events", func() bool { return r.Stats().Events[telemetry.OK] == 6 && f.calls["POST event"] == 6 })
	r.stop()
	for _, e := range f.events {
		if e.Reason == "Offline" && (e.Note != "no CPU" || e.Regarding.Kind != "Pod" || e.Regarding.UID != "z" || e.Regarding.FieldPath != "") {
			t.Errorf("event %+v", e)
		}
		if e.Reason == "Refused" && e.Regarding.FieldPath != "spec.containers{c}" {
			t.Errorf("event regards %+v", e.Regarding)
		}
	}
}

// TestRunnerEventsOnce checks that containers of a pod share the event of a problem, and that a
// daemon does not repeat the events of the daemon before it.
func TestRunnerEventsOnce(t *testing.T) {
	f := newFakeAPI(t)
	problem := func(pod, container, code string) nodestatus.Problem {
		return nodestatus.Problem{UID: pod, Namespace: "ns", Pod: pod, Container: container, Code: code, Text: code + " " + container}
	}
	s := &nodestatus.State{Problems: []nodestatus.Problem{
		problem("a", "", "NoGuaranteedPool"), problem("a", "x", "Refused"), problem("a", "y", "Refused"), problem("b", "x", "Refused"),
	}}
	for daemon := uint64(1); daemon <= 2; daemon++ {
		r := run(t, f, quickLimits())
		r.Show(s)
		f.wait("three events, each written once by each daemon", func() bool {
			return r.Stats().Events[telemetry.OK] == 3 && len(f.events) == 3
		})
		r.stop()
	}
	if n := f.calls["POST event"]; n != 6 {
		t.Errorf("%d requests; want 3 of each daemon", n)
	}
	for _, e := range f.events {
		if e.Reason == "Refused" && e.Note != "Refused x" {
			t.Errorf("the event of %s is %q; want that of its first container", e.Regarding.Name, e.Note)
		}
	}
}

// TestRunnerEventsRefused checks that a refused event is not repeated, and does not block
// other events.
func TestRunnerEventsRefused(t *testing.T) {
	f := newFakeAPI(t)
	f.do(func() { f.refuse["POST event"] = http.StatusForbidden })
	r := run(t, f, quickLimits())
	first := nodestatus.Problem{UID: "a", Namespace: "ns", Pod: "a", Code: "Refused", Text: "why"}
	r.Show(&nodestatus.State{Problems: []nodestatus.Problem{first}})
	f.wait("refusal", func() bool { return r.Stats().Events[telemetry.Failed] == 1 })
	f.do(func() { clear(f.refuse) })
	r.Show(&nodestatus.State{Problems: []nodestatus.Problem{first, {UID: "b", Namespace: "ns", Pod: "b", Code: "Refused", Text: "why"}}})
	f.wait("the other event, and no second request", func() bool { return len(f.events) == 1 && f.calls["POST event"] == 2 })
	for _, e := range f.events {
		if e.Regarding.Name != "b" {
			t.Errorf("event of %s; want b", e.Regarding.Name)
		}
	}
}

func TestWithdraw(t *testing.T) {
	f := newFakeAPI(t)
	r := run(t, f, quickLimits())
	s := pooled()
	s.Condition = &nodestatus.Condition{Ready: true, Reason: "AsPlanned"}
	r.Show(s)
	f.wait("all", func() bool { return f.pooled() && f.condition() != nil })
	r.stop()
	f.edit(func(n *corev1.Node) { // a killed daemon leaves it
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: nodestatus.ConditionType, Status: "True"})
	})
	o := nodestatus.Options{Name: "n1", Access: f.access(), Version: "test"}
	got, err := nodestatus.Withdraw(t.Context(), o, workload.Names{})
	if want := []string{cores, guaranteed, shared}; err != nil || !slices.Equal(got, want) {
		t.Errorf("withdrawn %v, %v; want %v", got, err, want)
	}
	if f.condition() != nil || !f.has(shared, "") || !f.has(guaranteed, "") || !f.has(cores, "") || !f.has("example.com/gpu", "2") {
		t.Errorf("left: %+v", f.node.Status)
	}
	if got, err := nodestatus.Withdraw(t.Context(), o, workload.Names{}); err != nil || len(got) > 0 {
		t.Errorf("again: %v, %v", got, err)
	}
	// A failed deletion of the object must not keep the resources.
	f.edit(func(n *corev1.Node) { n.Status.Capacity[shared] = quantity("4000") })
	f.do(func() { f.refuse["DELETE topology"] = 403 })
	o.Topology = true
	if got, err := nodestatus.Withdraw(t.Context(), o, workload.Names{}); err == nil || !slices.Equal(got, []string{shared}) {
		t.Errorf("with a NodeResourceTopology that stays: %v, %v; want an error, and the resource withdrawn", got, err)
	}
	o.Topology = false
	f.delete()
	if got, err := nodestatus.Withdraw(t.Context(), o, workload.Names{}); err != nil || len(got) > 0 {
		t.Errorf("deleted node: %v, %v", got, err)
	}
	f.do(func() { f.tokens = nil })
	if _, err := nodestatus.Withdraw(t.Context(), o, workload.Names{}); err == nil {
		t.Error("Withdraw without credentials returns no error")
	}
}

// TestRunnerReadsTheRecord checks that the Runner reads the record, and reads it again after a
// change.
func TestRunnerReadsTheRecord(t *testing.T) {
	f := newFakeAPI(t)
	file := filepath.Join(t.TempDir(), nodestatus.RecordFile)
	var logs lockedLog
	r := nodestatus.New(nodestatus.Options{
		Name: "n1", Access: f.access(), Record: file, Version: "test", Limits: quickLimits(), Log: slog.New(slog.NewTextHandler(&logs, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	s := pooled()
	s.Pods = []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{{Name: "c", Resource: shared, Milli: 500, Presumed: true}}}}
	r.Show(s)
	f.wait("the whole pool without a record", func() bool { return f.has(shared, "4000") })
	for request, want := range map[string]string{`"cpu":"500m"`: "3500", `"cpu":"1","` + shared + `":"700"`: "3700"} {
		text := `{"data":` + strconv.Quote(`{"entries":{"u":{"ContainerResources":{"c":{"requests":{`+request+`}}}}}}`) + `}`
		next := file + ".new"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
		r.Show(s)
		f.wait("less than the pool", func() bool { return f.has(shared, want) })
	}
	if got := strings.Count(logs.String(), "cannot read requests"); got != 1 {
		t.Errorf("a missing record was logged %d times: %s; want 1", got, logs.String())
	}
}

// lockedLog collects log records.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
