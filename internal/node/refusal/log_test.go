package refusal_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/refusal"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

var start = time.Unix(1000, 0)

func newLog() (*refusal.Log, *inventory.Inventory) {
	m := inventory.New(cgroup.DriverSystemd)
	return refusal.New(m.Objects(), numahints.New(nil), slog.New(slog.DiscardHandler)), m
}

// plan returns a plan that refuses the container of each of the pods, whose ids are their UIDs.
func plan(state pools.ContainerState, uids ...string) (p pools.Plan) {
	for _, uid := range uids {
		p.Pods = append(p.Pods, pools.PodPlan{UID: uid, Namespace: "default", Name: uid, Containers: []pools.Placement{
			{ID: uid, Name: "app", State: state, Refused: &allocate.Refusal{Code: "TooFew"}}}})
	}
	return p
}

// TestTotals checks that each refusal counts once, and that only present ones count now.
func TestTotals(t *testing.T) {
	const rounds = 3
	l, _ := newLog()
	for i := range rounds {
		now := start.Add(time.Duration(i) * time.Second)
		l.Note(plan(pools.Created, "stays", "passes"), false, now)
		if l.Now() != 2 {
			t.Errorf("%d refusals now; want 2", l.Now())
		}
		l.Note(plan(pools.Created, "stays"), false, now)
	}
	if got := l.Totals()["TooFew"]; got != rounds+1 || l.Now() != 1 {
		t.Errorf("%d refusals counted, %d now; want %d and 1", got, l.Now(), rounds+1)
	}
}

// TestUncreated checks that repeated requests to create a container are one refusal, which ends
// when the pod is gone or the container exists.
func TestUncreated(t *testing.T) {
	for name, end := range map[string]func(*inventory.Inventory){
		"pod is gone": func(m *inventory.Inventory) {
			m.Event(cri.Event{ContainerID: "sandbox", PodID: "sandbox", Kind: cri.ContainerDeleted, At: start})
		},
		"created": func(m *inventory.Inventory) {
			m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "1", PodID: "sandbox", Name: "app", State: cri.Created}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, m := newLog()
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "sandbox", UID: "u", Ready: true}})
			pod := plan(pools.Created, "u").Pods[0]
			for range 2 {
				l.NoteUncreated(&pod, &pod.Containers[0])
				l.Note(pools.Plan{}, true, start)
			}
			if l.Now() != 1 || l.Totals()["TooFew"] != 1 || len(l.Problems()) != 1 {
				t.Errorf("%d refusals, total %v, problems %v; want one", l.Now(), l.Totals(), l.Problems())
			}
			end(m)
			l.Note(pools.Plan{}, true, start.Add(time.Second))
			if l.Now() != 0 || l.Totals()["TooFew"] != 1 || len(l.Problems()) != 0 {
				t.Errorf("%d refusals, total %v, problems %v; want one that has ended", l.Now(), l.Totals(), l.Problems())
			}
		})
	}
}

// TestStops checks which refused containers must stop, and when a failed stop is repeated.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		name    string
		created time.Duration // after the daemon's start
		fail    bool
		reason  pools.Code
		stops   bool
	}{
		{name: "fail", fail: true, stops: true},
		{name: "not seen created", created: -time.Second, fail: true},
		{name: "shared"},
		{name: "waiting for the kubelet", fail: true, reason: pools.CodeWaiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, m := newLog()
			m.BeginWatch(start)
			m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "1", Name: "app", State: cri.Running, CreatedAt: start.Add(c.created)}})
			p := plan(pools.Running, "1")
			p.Pods[0].Containers[0].Reason.Code = c.reason
			stop := l.Note(p, c.fail, start)
			if (len(stop) == 1) != c.stops || l.Now() != 1 {
				t.Fatalf("stops %v, %d refusals; want a stop: %t", stop, l.Now(), c.stops)
			}
			if !c.stops {
				return
			}
			l.NoteStop(stop[0], errors.New("the shim is busy"), start)
			again := start.Add(refusal.StopRetryDelay)
			var due time.Time
			l.NextStop(func(at time.Time) { due = at })
			if !due.Equal(again) || len(l.Note(p, true, again.Add(-1))) != 0 || len(l.Note(p, true, again)) != 1 {
				t.Errorf("tries again at %v; want %v", due, again)
			}
			l.NoteStop(stop[0], nil, again)
			if stop := l.Note(plan(pools.Exited, "1"), true, again.Add(time.Hour)); len(stop) != 0 {
				t.Errorf("stops %v, which has ended; want none", stop)
			}
			if l.Now() != 0 || l.Totals()["TooFew"] != 1 {
				t.Errorf("%d refusals, total %v; want one that has ended", l.Now(), l.Totals())
			}
		})
	}
}

// TestRefusedResize checks that a refused resize counts, and that its error names the CPUs that the
// container keeps.
func TestRefusedResize(t *testing.T) {
	for name, c := range map[string]struct {
		has  *pools.Placement
		want string
	}{
		"exclusive":   {&pools.Placement{Exclusive: true, CPUs: cpuset.Range(4, 5)}, "it keeps CPUs 4-5"},
		"shared":      {&pools.Placement{CPUs: cpuset.Range(2, 3)}, "it keeps no exclusive CPUs"},
		"not planned": {nil, "it keeps no exclusive CPUs"},
	} {
		l, m := newLog()
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "1", Name: "app"}})
		pod := plan(pools.Running, "u").Pods[0]
		err := l.NoteResize(&pod, m.Objects().Container("1"), 3, &allocate.Refusal{Code: "TooFew", Why: "2 are free"}, c.has)
		if want := "cpupoold: default/u, container app: resize to 3 exclusive CPUs: TooFew: 2 are free; " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
		if got := l.Totals()["TooFew"]; got != 1 {
			t.Errorf("%s: %d refusals counted; want 1", name, got)
		}
	}
}
