package daemon

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestTimesOfOthers: what the runtime says of times is taken by the clock on the wall as
// it is when the daemon hears of it, whatever it is set to afterwards.
func TestTimesOfOthers(t *testing.T) {
	now := time.Now()
	wall := now.Round(0) // as the runtime's, without the clock that nobody sets
	for _, c := range []struct {
		name     string
		at, want time.Time
	}{
		{"a minute ago", wall.Add(-time.Minute), now.Add(-time.Minute)},
		{"now", wall, now},
		{"told before the clock was set back", wall.Add(time.Hour), now},
	} {
		got := onClock(c.at, now)
		if got != c.want { //nolint:revive // both clocks are compared
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
}

// TestSettledWhenTheClockIsSet: a pod is settled ten minutes after the last of its
// containers has come or gone, although the runtime had told these times before
// somebody set the clock back by an hour.
func TestSettledWhenTheClockIsSet(t *testing.T) {
	m := newModel("systemd")
	now := time.Now()
	ahead := now.Round(0).Add(time.Hour)
	m.putPod(podFacts{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CreatedAt: ahead}})
	m.putContainer(containerFacts{Container: cri.Container{ID: "c", PodID: "p", State: cri.Exited, CreatedAt: ahead, FinishedAt: ahead}})
	settled := func(after time.Duration) bool { return m.input(now.Add(after))[0].Settled }
	if settled(settleTime - time.Minute) {
		t.Error("settled before its time")
	}
	if !settled(settleTime + time.Minute) {
		t.Error("not settled, because the runtime had told its times before the clock was set back")
	}
	// Told once more it has not begun anew.
	pod, container := *m.pods["p"], *m.containers["c"]
	m.putPod(podFacts{Pod: pod.pod})
	m.putContainer(containerFacts{Container: container.container})
	if p, c := m.pods["p"], m.containers["c"]; p.began != pod.began || c.began != container.began || c.ended != container.ended { //nolint:revive // both clocks are compared
		t.Errorf("times told again: pod %v, container %v to %v; want %v, %v to %v", p.began, c.began, c.ended, pod.began, container.began, container.ended)
	}
}
