package waits_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/waits"
)

const ms = time.Millisecond

// TestBudget checks how long requests may wait. Each step is a request that arrives at a
// time and whose reply is decided after some time, or when its wait is over.
func TestBudget(t *testing.T) {
	type step struct {
		at   time.Duration
		key  string
		ends time.Duration // 0: when its wait is over
		want time.Duration // granted
	}
	for name, steps := range map[string][]step{
		"a single pod": {
			{0, "a", 0, time.Second},
			{time.Second, "a", 0, 550 * ms}, // 1.5 s and a twentieth of 1 s are left, without the reserve
			{11 * time.Second, "a", 0, 500 * ms},
			{40 * time.Second, "a", 0, time.Second},
		},
		"short waits": {
			{0, "a", 20 * ms, time.Second},
			{1 * time.Second, "a", 20 * ms, time.Second},
			{2 * time.Second, "a", 90 * ms, time.Second},
			{3 * time.Second, "b", 0, time.Second},
			{4 * time.Second, "a", 0, time.Second}, // it has not waited long
		},
		"used up": {
			{0, "a", 0, time.Second},
			{0, "b", 0, time.Second},
			{2 * time.Second, "c", 0, 600 * ms},
			{3 * time.Second, "d", 0, 100 * ms}, // the first wait of a pod
			{5 * time.Second, "e", 0, 100 * ms},
			{6 * time.Second, "d", 0, 0},
			{6 * time.Second, "a", 0, 0},
			{6 * time.Second, "f", 50 * ms, 100 * ms},
			{7 * time.Second, "f", 50 * ms, 100 * ms}, // it has not waited long
		},
		"the reserve is for other pods": {
			{0, "a", 0, time.Second},
			{1 * time.Second, "b", 0, time.Second},
			{20 * time.Second, "a", 0, 500 * ms},
			{21 * time.Second, "b", 0, 0},
			{22 * time.Second, "new", 0, time.Second},
		},
		"after an hour": {
			{0, "a", 0, time.Second},
			{time.Hour, "b", 0, time.Second},
			{time.Hour + 1*time.Second, "c", 0, time.Second},
			{time.Hour + 2*time.Second, "a", 0, 600 * ms}, // like a pod that has not waited
		},
		"a late decision": {
			{0, "a", 1700 * ms, time.Second},
			{2 * time.Second, "b", 0, 900 * ms}, // the whole time counts
		},
		"a stopped loop": {
			{0, "a", time.Hour, time.Second},
			{time.Hour + 2*time.Second, "b", 0, 100 * ms}, // no debt
			{time.Hour + 12*time.Second, "c", 0, 500 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b waits.Budget
			start := time.Unix(1000, 0)
			for i, s := range steps {
				var w waits.Wait
				arrived := start.Add(s.at)
				over := b.Begin(&w, s.key, arrived, arrived)
				got := w.Until().Sub(arrived)
				if got != s.want || over != (s.want == 0) {
					t.Errorf("step %d: %s waits for %v, over: %t; want %v", i, s.key, got, over, s.want)
				}
				if s.ends == 0 {
					s.ends = got
				}
				b.End(&w, arrived.Add(s.ends))
			}
		})
	}
}

// TestFirstWaits checks pods whose replies are decided after 50 ms, as on a node that boots:
// each may wait for that long, and leaves the budget to others. Then it checks that waits
// beyond the budget are repaid.
func TestFirstWaits(t *testing.T) {
	var b waits.Budget
	now := time.Unix(1000, 0)
	wait := func(key string, ends, want time.Duration) {
		t.Helper()
		var w waits.Wait
		b.Begin(&w, key, now, now)
		if got := w.Until().Sub(now); got != want {
			t.Errorf("%s waits for %v; want %v", key, got, want)
		}
		now = now.Add(ends)
		b.End(&w, now)
	}
	for i := range 60 {
		wait(fmt.Sprint("boot", i), 50*ms, time.Second)
	}
	for i := range 2 {
		wait(fmt.Sprint("long", i), time.Second, time.Second)
	}
	wait("rest", 600*ms, 600*ms) // with the growth of 2 s
	for i := range 60 {
		wait(fmt.Sprint("first", i), 100*ms, 100*ms)
	}
	for i := range 60 {
		wait(fmt.Sprint("first", i), 0, 0)
	}
	wait("new", 50*ms, 100*ms)
	now = now.Add(50 * time.Second) // repays the debt
	wait("new", 50*ms, 100*ms)
	now = now.Add(10 * time.Second)
	wait("new", 50*ms, 505*ms)
}

// TestWait checks the states of a wait, and that the budget charges it once.
func TestWait(t *testing.T) {
	var b waits.Budget
	var w waits.Wait
	now := time.Unix(1000, 0)
	if w.IsOver(now) || !w.Until().IsZero() || w.Shortened() != "" {
		t.Errorf("before it begins: over %t, until %v, %q", w.IsOver(now), w.Until(), w.Shortened())
	}
	b.End(&w, now) // without effect
	if b.Begin(&w, "a", now, now) || b.Begin(&w, "a", now, now.Add(2*time.Second)) {
		t.Error("over when it begins")
	}
	if until := w.Until(); !until.Equal(now.Add(waits.Timeout)) || w.IsOver(until.Add(-1)) || !w.IsOver(until) || w.Shortened() != "" {
		t.Errorf("ends at %v; %q", until, w.Shortened())
	}
	b.End(&w, now.Add(waits.Timeout))
	b.End(&w, now.Add(waits.Timeout)) // without effect
	if b.Begin(&w, "a", now, now.Add(waits.Timeout)); !strings.Contains(w.Shortened(), "waited 500ms instead of 1s") {
		t.Errorf("text about a short wait: %q", w.Shortened())
	}
	var late waits.Wait
	if !b.Begin(&late, "b", now, now.Add(5*time.Second)) {
		t.Error("a request that the loop sees late still waits")
	}
}

// TestShortenedWaits checks that the count contains the waits that were over before the
// timeout, and no waits that the daemon ended with a decision.
func TestShortenedWaits(t *testing.T) {
	var b waits.Budget
	now := time.Unix(1000, 0)
	for _, s := range []struct {
		ends time.Duration // 0: when the wait is over
		want uint64
	}{{0, 0}, {300 * ms, 0}, {0, 1}, {0, 2}} {
		var w waits.Wait
		b.Begin(&w, "a", now, now)
		if s.ends == 0 {
			s.ends = w.Until().Sub(now)
		}
		now = now.Add(s.ends)
		if b.End(&w, now); b.ShortenedWaits() != s.want {
			t.Errorf("after %v: %d shortened waits; want %d", s.ends, b.ShortenedWaits(), s.want)
		}
	}
}

// TestBudgetBoundsWaits checks the waits of fifty pods whose creation the kubelet repeats, one
// request after the other. In no two minutes they use a tenth of them. Each pod has waited in
// the first ten minutes. Then new pods come, and wait as long as a pod that is alone.
func TestBudgetBoundsWaits(t *testing.T) {
	const pods, minutes, interval = 50, 30, 10 * time.Second
	var b waits.Budget
	start := time.Unix(1000, 0)
	due := make(map[string]time.Time)
	for i := range pods {
		due[fmt.Sprint("pod", i)] = start.Add(time.Duration(i) * ms)
	}
	for i := 10; i < minutes; i++ {
		due[fmt.Sprint("new", i)] = start.Add(time.Duration(i) * time.Minute)
	}
	var waited [minutes]time.Duration
	longest := make(map[string]time.Duration)
	for now := start; ; {
		key := slices.MinFunc(slices.Collect(maps.Keys(due)), func(a, b string) int { return cmp.Or(due[a].Compare(due[b]), cmp.Compare(a, b)) })
		if due[key].After(now) {
			now = due[key]
		}
		minute := int(now.Sub(start) / time.Minute)
		if minute == minutes {
			break
		}
		var w waits.Wait
		arrived := now
		b.Begin(&w, key, arrived, now)
		now = w.Until()
		b.End(&w, now)
		waited[minute] += now.Sub(arrived)
		longest[key] = max(longest[key], now.Sub(arrived))
		if delete(due, key); strings.HasPrefix(key, "pod") {
			due[key] = arrived.Add(interval)
		}
	}
	for i, sum := range waited {
		if sum < time.Second {
			t.Errorf("minute %d: waits of %v; want at least one second", i, sum)
		}
		if i > 0 && sum+waited[i-1] > 2*time.Minute/10 {
			t.Errorf("minutes %d and %d: waits of %v; want at most a tenth", i-1, i, sum+waited[i-1])
		}
	}
	for i := range pods {
		if d := longest[fmt.Sprint("pod", i)]; d < 100*ms {
			t.Errorf("pod %d never waited longer than %v", i, d)
		}
	}
	for i := 10; i < minutes; i++ {
		if d := longest[fmt.Sprint("new", i)]; d != waits.Timeout {
			t.Errorf("the new pod of minute %d waited for %v; want %v", i, d, waits.Timeout)
		}
	}
}
