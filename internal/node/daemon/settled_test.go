package daemon

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// A pod has all its containers only when nothing has come or gone for a while: an
// init container may run, and an image may be pulled, for longer than that.
func TestPodSettles(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, tt := range []struct {
		name              string
		sandbox           time.Time
		created, finished time.Time // of its container
		want              bool
	}{
		{name: "all long ago", sandbox: ago(time.Hour), created: ago(time.Hour), want: true},
		{name: "new sandbox", sandbox: ago(time.Minute), created: ago(time.Minute)},
		{name: "new container", sandbox: ago(time.Hour), created: ago(time.Minute)},
		{name: "init container has just ended", sandbox: ago(time.Hour), created: ago(time.Hour), finished: ago(time.Minute)},
		{name: "init container ended long ago", sandbox: ago(time.Hour), created: ago(time.Hour), finished: ago(30 * time.Minute), want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "sandbox", UID: "uid", Ready: true, CreatedAt: tt.sandbox}})
			c := cri.Container{ID: "c", PodID: "sandbox", Name: "app", State: cri.Running, CreatedAt: tt.created}
			if !tt.finished.IsZero() {
				c.State, c.FinishedAt = cri.Exited, tt.finished
			}
			m.PutContainer(inventory.ContainerStatus{Container: c})
			pods := m.Input(now)
			if len(pods) != 1 || pods[0].Settled != tt.want {
				t.Errorf("input() = %+v, want one pod with Settled %t", pods, tt.want)
			}
		})
	}
}
