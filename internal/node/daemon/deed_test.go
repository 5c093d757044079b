package daemon

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestForeignWriteDuringSeal checks that an external write of a cpuset during an update over
// CRI is repaired at once and counted.
func TestForeignWriteDuringSeal(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.settled()
	release := n.Runtime.Hang("UpdateContainerResources")
	defer release()
	if err := n.Units.SetProperties(t.Context(), cgroup.Path(n.Runtime.Cgroup(id)).Base(), []cgroup.Property{{Name: cgroup.UnitCPUs, Value: "4"}}); err != nil {
		t.Fatal(err)
	}
	counted := func(count uint64) func(*telemetry.View) bool {
		return func(v *telemetry.View) bool {
			return v.Drifts[telemetry.Drift{Cause: telemetry.CauseUnknown, Property: cgroup.FileCPUs}] == count
		}
	}
	r.view("the first is counted", counted(1))
	r.within(time.Minute, "a seal is under way", func() bool { return r.isUpdating(cgroup.Path(n.Runtime.Cgroup(id))) })
	n.WriteFile(id, cgroup.FileCPUs, "6")
	n.AwaitCPUs(id, "2-3")
	release()
	r.view("the second is counted", counted(2))
	r.quiet()
}

// isUpdating reports whether a worker writes a cgroup.
func (r *running) isUpdating(p cgroup.Path) (busy bool) {
	r.inspect(func(l *Loop) { busy = l.cache.IsBusy(p) })
	return busy
}
