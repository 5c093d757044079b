package quiet_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestSettle checks the deferred CPUs and weights over time.
func TestSettle(t *testing.T) {
	const limit = 10 * time.Minute
	var (
		start  = time.Now()
		owners = []pools.Assignment{{Key: pools.Key{Container: "a.service"}, CPUs: cpuset.Of(4)}, {Key: pools.Key{Container: "b.service"}, CPUs: cpuset.Of(5)}}
		slice  = cgroup.Path("kubepods.slice/a")
		first  = cgroup.Path("kubepods.slice/first")
	)
	want := []cgroup.Target{{Path: slice, Weight: 50}, {Path: first, Weight: 50}, {Path: "own", Weight: 50, Exclusive: true}, {Path: "owns", Weight: 50, Unlimited: true}}
	changed := map[cgroup.Path]bool{slice: true, "own": true, "owns": true, "gone": true} // first has an unchanged weight
	q := quiet.New(cpuset.Set{})
	step := func(what string, at time.Duration, limit time.Duration, previous []pools.Assignment, plan pools.Plan, changed map[cgroup.Path]bool, may, since string, weights int) {
		t.Helper()
		now := start.Add(at)
		q.Begin(limit, now)
		if got := q.MayRest(previous).String(); got != may {
			t.Errorf("%s: CPUs %q may rest, want %q", what, got, may)
		}
		q.Settle(plan, want, changed, now)
		got := "never"
		if !q.Until().IsZero() {
			got = q.Until().Sub(start.Add(limit)).String()
		}
		if n := q.Counts()["weights"]; got != since || n != weights || q.Defers(first, cgroup.FileWeight) || q.Defers(slice, cgroup.FileCPUs) {
			t.Errorf("%s: deferred since %s, %d weights; want %s and %d", what, got, n, since, weights)
		}
	}
	both, one := pools.Plan{Assignments: owners}, pools.Plan{Assignments: owners[:1], Resting: cpuset.Of(5)}
	step("two owners", 0, limit, owners, both, nil, "4-5", "never", 0)
	step("one owner ends", time.Minute, limit, owners, one, nil, "4-5", "1m0s", 0)
	step("a weight is changed as well", 2*time.Minute, limit, owners[:1], one, changed, "4-5", "1m0s", 1)
	step("time is almost up", 10*time.Minute, limit, owners[:1], one, changed, "4-5", "1m0s", 1)
	step("time is up", 11*time.Minute, limit, owners[:1], pools.Plan{Assignments: owners[:1]}, changed, "", "never", 0)
	step("the next period begins", 12*time.Minute, limit, owners[:1], pools.Plan{Assignments: owners[:1]}, changed, "4", "12m0s", 1)
	step("no owner", 13*time.Minute, limit, owners[:1], pools.Plan{}, changed, "4", "never", 0)
	step("one owner again", 14*time.Minute, limit, owners, one, nil, "4-5", "14m0s", 0)
	step("switched off", 15*time.Minute, 0, owners, pools.Plan{Assignments: owners}, changed, "", "never", 0)
}

// TestPark checks when CPUs are parked.
func TestPark(t *testing.T) {
	const limit = 10 * time.Minute
	start := time.Now()
	all, more, some := cpuset.Range(4, 7), cpuset.Range(4, 6), cpuset.Of(4, 5)
	q := quiet.New(cpuset.Set{})
	for _, c := range []struct {
		what      string
		at        time.Duration
		can, are  cpuset.Set
		owned     bool
		want      cpuset.Set
		waits     bool
		unchanged bool
	}{
		{"no owner", 0, all, cpuset.Set{}, false, all, false, true},
		{"an owner gets two CPUs", time.Minute, some, all, true, some, false, true},
		{"the owner releases one", time.Minute, more, some, true, some, true, false},
		{"no change", 10 * time.Minute, more, some, true, some, true, true},
		{"another process ends the parking", 10 * time.Minute, more, cpuset.Set{}, true, some, true, true},
		{"time is up", 11 * time.Minute, more, some, true, more, false, true},
		{"more CPUs are free", 11*time.Minute + quiet.BreakTime/2, all, some, true, all, false, true},
		{"one CPU is not parked yet", 12 * time.Minute, all, some, true, all, false, true},
		{"an owner gets one", 13 * time.Minute, more, all, true, more, false, true},
		{"the owner releases it", 14 * time.Minute, all, more, true, more, true, false},
		{"the last owner ends", 15 * time.Minute, all, more, false, all, false, true},
	} {
		now := start.Add(c.at)
		q.Begin(limit, now)
		q.Settle(pools.Plan{}, nil, nil, now)
		got, news := q.Park(c.can, c.are, c.owned, now)
		if !got.Equal(c.want) || q.Unparked().IsEmpty() == c.waits || news == c.unchanged {
			t.Errorf("%s: %s, waits %s, news %t; want %s", c.what, got, q.Unparked(), news, c.want)
		}
	}
}
