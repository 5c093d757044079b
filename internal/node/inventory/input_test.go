package inventory_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestSettled checks that a pod counts as settled ten minutes after the last creation or
// end of its sandbox and containers.
func TestSettled(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		sandbox, created, finished time.Time
		want                       bool
	}{
		"all long ago":                  {sandbox: ago(time.Hour), created: ago(time.Hour), want: true},
		"new sandbox":                   {sandbox: ago(time.Minute), created: ago(time.Minute)},
		"new container":                 {sandbox: ago(time.Hour), created: ago(time.Minute)},
		"init container ended just now": {sandbox: ago(time.Hour), created: ago(time.Hour), finished: ago(time.Minute)},
		"init container ended long ago": {sandbox: ago(time.Hour), created: ago(time.Hour), finished: ago(30 * time.Minute), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "sandbox", UID: "uid", Ready: true, CreatedAt: c.sandbox}})
			ctr := cri.Container{ID: "c", PodID: "sandbox", Name: "app", State: cri.Running, CreatedAt: c.created}
			if !c.finished.IsZero() {
				ctr.State, ctr.FinishedAt = cri.Exited, c.finished
			}
			m.PutContainer(lookup.ContainerStatus{Container: ctr})
			if pods := m.Objects().Input(now); len(pods) != 1 || pods[0].Settled != c.want {
				t.Errorf("input %+v; want one pod with Settled %t", pods, c.want)
			}
		})
	}
}

// TestSettledAfterTheClockIsSet checks that a change of the wall clock does not delay the
// settling of a pod. The runtime has reported times from before the clock was set back by
// an hour. A second report of the same times changes nothing.
func TestSettledAfterTheClockIsSet(t *testing.T) {
	w := newWorld(t)
	p, c := w.run(cri.Exited)
	ahead := w.now.Round(0).Add(time.Hour) // without the monotonic clock, as the runtime's
	p.CreatedAt, c.CreatedAt, c.FinishedAt = ahead, ahead, ahead
	w.runtime.pods["p"], w.runtime.containers["c"] = p, c
	w.list()
	start := w.now
	isSettled := func(after time.Duration) bool { return w.Input(start.Add(after))[0].Settled }
	for range 2 {
		if isSettled(9 * time.Minute) {
			t.Error("settled after nine minutes")
		}
		if !isSettled(11 * time.Minute) {
			t.Error("not settled after eleven minutes")
		}
		w.now = w.now.Add(5 * time.Minute)
		w.fetchPod("p", w.Clock())
		w.fetchContainer("c", w.Clock())
	}
}

// TestBegan checks that the creation of a container is as long ago as the wall clock shows
// when the daemon learns of it, and never in the future.
func TestBegan(t *testing.T) {
	for name, c := range map[string]struct{ at, want time.Duration }{
		"a minute ago":                  {-time.Minute, -time.Minute},
		"now":                           {0, 0},
		"before the clock was set back": {time.Hour, 0},
	} {
		w := newWorld(t)
		_, ctr := w.run(cri.Running)
		ctr.CreatedAt = w.now.Round(0).Add(c.at)
		w.runtime.containers["c"] = ctr
		w.list()
		if got, want := w.Container("c").Exposure().Began(), w.now.Add(c.want); got != want { //nolint:revive // both clocks are compared
			t.Errorf("%s: %v; want %v", name, got, want)
		}
	}
}
