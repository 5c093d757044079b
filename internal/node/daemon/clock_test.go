package daemon

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
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
		got := inventory.OnClock(c.at, now)
		if got != c.want { //nolint:revive // both clocks are compared
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
}

// TestSettledWhenTheClockIsSet: a pod is settled ten minutes after the last of its
// containers has come or gone, although the runtime had told these times before
// somebody set the clock back by an hour.
func TestSettledWhenTheClockIsSet(t *testing.T) {
	m := inventory.New("systemd")
	now := time.Now()
	ahead := now.Round(0).Add(time.Hour)
	m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CreatedAt: ahead}})
	m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", State: cri.Exited, CreatedAt: ahead, FinishedAt: ahead}})
	settled := func(after time.Duration) bool { return m.Input(now.Add(after))[0].Settled }
	if settled(inventory.SettleTime - time.Minute) {
		t.Error("settled before its time")
	}
	if !settled(inventory.SettleTime + time.Minute) {
		t.Error("not settled, because the runtime had told its times before the clock was set back")
	}
	// Told once more it has not begun anew.
	pod, container := *m.Pod("p"), *m.Container("c")
	m.PutPod(inventory.PodStatus{Pod: pod.Pod})
	m.PutContainer(inventory.ContainerStatus{Container: container.Container})
	if p, c := m.Pod("p"), m.Container("c"); p.Began != pod.Began || c.Began != container.Began || c.Ended != container.Ended { //nolint:revive // both clocks are compared
		t.Errorf("times told again: pod %v, container %v to %v; want %v, %v to %v", p.Began, c.Began, c.Ended, pod.Began, container.Began, container.Ended)
	}
}
