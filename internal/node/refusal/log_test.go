package refusal_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
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
	return refusal.New(m, numahints.New(nil), slog.New(slog.DiscardHandler)), m
}

// plan returns a plan that refuses the container of each of the pods, whose ids are their UIDs.
func plan(state pools.ContainerState, uids ...string) (p pools.Plan) {
	for _, uid := range uids {
		p.Pods = append(p.Pods, pools.PodPlan{UID: uid, Namespace: "default", Name: uid, Containers: []pools.Placement{
			{ID: uid, Name: "app", State: state, Refused: &allocate.Refusal{Code: "TooFew"}}}})
	}
	return p
}

// TestPastRefusalsAreBounded checks that old refusals are forgotten, and present ones are not.
func TestPastRefusalsAreBounded(t *testing.T) {
	const most = 100
	l, _ := newLog()
	for i := range 3 * most {
		now := start.Add(time.Duration(i) * time.Second)
		l.Note(plan(pools.Created, "stays", "passes"), false, now)
		l.Note(plan(pools.Created, "stays"), false, now)
	}
	all := l.List()
	if len(all) != most+1 || all[0].ID != "stays" || !all[0].Until.IsZero() || all[1].Until.IsZero() {
		t.Errorf("%d refusals, the first is %+v; want %d", len(all), all[0], most+1)
	}
	if got := l.Totals()["TooFew"]; got != 3*most+1 {
		t.Errorf("%d refusals counted; want %d", got, 3*most+1)
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
			m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "1", PodID: "sandbox", Name: "app", State: cri.Created}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, m := newLog()
			m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "sandbox", UID: "u", Ready: true}})
			pod := plan(pools.Created, "u").Pods[0]
			for range 2 {
				l.NoteUncreated(&pod, &pod.Containers[0], start)
				l.Note(pools.Plan{}, true, start)
			}
			if all := l.List(); len(all) != 1 || !all[0].Until.IsZero() || l.Totals()["TooFew"] != 1 || len(l.Problems()) != 1 {
				t.Errorf("refusals %+v, total %v, problems %v; want one", all, l.Totals(), l.Problems())
			}
			end(m)
			l.Note(pools.Plan{}, true, start.Add(time.Second))
			if all := l.List(); len(all) != 1 || !all[0].Until.Equal(start.Add(time.Second)) || len(l.Problems()) != 0 {
				t.Errorf("refusals %+v, problems %v; want one that has ended", all, l.Problems())
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
			m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "1", Name: "app", State: cri.Running, CreatedAt: start.Add(c.created)}})
			p := plan(pools.Running, "1")
			p.Pods[0].Containers[0].Reason.Code = c.reason
			stop := l.Note(p, c.fail, start)
			if (len(stop) == 1) != c.stops || l.List()[0].Stopped != c.stops {
				t.Fatalf("stops %v, refusals %+v; want a stop: %t", stop, l.List(), c.stops)
			}
			if !c.stops {
				return
			}
			l.NoteStop(stop[0], errors.New("the shim is busy"), start)
			if l.List()[0].Stopped {
				t.Error("reported as stopped after an error")
			}
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
			if all := l.List(); len(all) != 1 || !all[0].Stopped || all[0].Until.IsZero() {
				t.Errorf("refusals %+v; want one of a stopped container", all)
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
		m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "1", Name: "app"}})
		pod := plan(pools.Running, "u").Pods[0]
		err := l.NoteResize(&pod, m.Container("1"), 3, &allocate.Refusal{Code: "TooFew", Why: "2 are free"}, c.has)
		if want := "cpupoold: default/u, container app: resize to 3 exclusive CPUs: TooFew: 2 are free; " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
		if got := l.Totals()["TooFew"]; got != 1 {
			t.Errorf("%s: %d refusals counted; want 1", name, got)
		}
	}
}
