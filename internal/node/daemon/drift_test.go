package daemon

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// driftNode returns a node whose resync is so far away that only events lead to repairs.
func driftNode(t *testing.T) *node {
	n := newNode(t)
	n.YAML = strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 1h", 1)
	return n
}

// settled waits until the daemon runs, receives events and has nothing to do.
func (r *running) settled() {
	r.T.Helper()
	r.view("listens to the cgroups", func(v *telemetry.View) bool { return v.Sources[telemetry.Inotify] == telemetry.SourceOK })
	r.quiet()
}

// TestForeignWrites checks that external writes to placed cgroups are repaired at once.
func TestForeignWrites(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "a", nodefixture.WholeCPUs(2))
	pod := n.RunPod("shared", "default", "burstable", 0, nil)
	shared := n.RunContainer(pod, "a", nodefixture.WholeCPUs(0))
	manager := n.RunContainer(n.RunPod("manager", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"a": 512})), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(owner, "4-5")
	n.AwaitCPUs(shared, "2-3")
	n.AwaitCPUs(manager, "0-1")
	r.settled()
	weight := fmt.Sprint(n.State(manager).Weight)
	if weight == "100" {
		t.Fatalf("the manager has no weight of its own\n%s", n.Dump())
	}
	for i, write := range []struct{ id, file, value, want string }{
		{owner, cgroup.FileCPUs, "2-5", "4-5"},
		{owner, cgroup.FileCPUs, "2", "4-5"},
		{owner, cgroup.FileMax, "5000 10000", cgroup.ValueMax},
		{shared, cgroup.FileCPUs, "3-4", "2-3"},
		{pod, cgroup.FileCPUs, "0-7", "2-3"},
		{manager, cgroup.FileCPUs, "6", "0-1"},
		{manager, cgroup.FileWeight, "1", weight},
	} {
		n.WriteFile(write.id, write.file, write.value)
		n.AwaitFile(n.Runtime.Cgroup(write.id), write.file, write.want)
		if i == 0 {
			n.CheckOccupants()
		}
	}
	slice := path.Dir(n.Runtime.Cgroup(owner))
	if err := n.Tree.Write(slice+"/"+cgroup.FileMax, "5000 10000"); err != nil {
		t.Fatal(err)
	}
	n.AwaitFile(slice, cgroup.FileMax, cgroup.ValueMax)
}

// TestRepairSparesTheRecord checks that an external write of the file alone leads to no update
// over CRI, which would write the runtime's weight and quota for a moment.
func TestRepairSparesTheRecord(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"a": 512})), "a", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(id, "0-1")
	r.settled()
	updates := func() (all []any) {
		for _, rec := range n.Logged("wrote") {
			if w, ok := rec["write"].(map[string]any); ok && w["via"] != string(cgroup.File) {
				all = append(all, w)
			}
		}
		return all
	}
	before := len(updates())
	n.WriteFile(id, cgroup.FileCPUs, "2")
	counted := func(v *telemetry.View) bool {
		return v.Drifts[telemetry.Drift{Cause: telemetry.CauseUnknown, Property: cgroup.FileCPUs}] == 1
	}
	r.view("counted", counted)
	n.AwaitCPUs(id, "0-1")
	r.quiet()
	if more := updates()[before:]; len(more) > 0 {
		t.Errorf("a write to a file alone is answered with %v", more)
	}
	// The record is repaired if it was written, too.
	if err := n.Client.UpdateCPUs(t.Context(), id, cpuset.Of(2)); err != nil {
		t.Fatal(err)
	}
	r.within(time.Minute, "the record is repaired", func() bool {
		c, err := n.Client.ContainerStatus(t.Context(), id)
		return err == nil && c.Recorded.CPUs == "0-1" && n.State(id).CPUs.String() == "0-1"
	})
}

// TestNoWeightBringsCPUsBack checks that systemd gets no property while the runtime refuses to
// record the right CPUs: systemd would write the wrong CPUs that it has.
func TestNoWeightBringsCPUsBack(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"a": 512})), "a", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(id, "0-1")
	r.settled()
	before := len(n.Logged("wrote"))
	n.Runtime.Fail("UpdateContainerResources", errors.New("no"))
	unit := path.Base(n.Runtime.Cgroup(id))
	if err := n.Units.SetProperties(t.Context(), unit, []systemd.Property{{Name: cgroup.UnitCPUs, Value: "2"}}); err != nil {
		t.Fatal(err)
	}
	refused := func() int { return len(n.Logged("write refused")) }
	r.within(time.Minute, "refused twice", func() bool { return refused() >= 2 })
	repairs := 0
	for _, rec := range n.Logged("external write to a cgroup") {
		if rec["property"] == cgroup.FileCPUs {
			repairs++
		}
	}
	if repairs != 1 {
		t.Errorf("%d deviations of the cpuset; want the one that somebody else has made", repairs)
	}
	for _, rec := range n.Logged("wrote")[before:] {
		if w, ok := rec["write"].(map[string]any); ok && w["via"] == string(cgroup.DBus) {
			t.Errorf("with the wrong CPUs on record systemd was told %v", w)
		}
	}
	n.AwaitCPUs(id, "0-1")
	n.Runtime.Fail("UpdateContainerResources", nil)
	r.within(time.Minute, "recorded", func() bool {
		u, err := n.Units.Properties(t.Context(), unit)
		return err == nil && u.CPUs.String() == "0-1"
	})
}

// TestEchoesCostNothing checks that events of the daemon's own writes lead to no pass.
func TestEchoesCostNothing(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.settled()
	passes := func() uint64 {
		v := r.loop.publisher.Metrics()
		return v.Passes[telemetry.OK] + v.Passes[telemetry.Failed]
	}
	before := passes()
	for range 100 {
		n.WriteFile(id, cgroup.FileCPUs, "2-3") // the present value, as an own write
	}
	n.WriteFile(id, cgroup.FileCPUs, "2") // then a different value
	n.AwaitCPUs(id, "2-3")
	// One pass finds the write; the others belong to the update over CRI and its end.
	if now := passes(); now-before > 10 {
		t.Errorf("%d passes for 100 writes of what was there and one other", now-before)
	}
}

// TestLostNotices checks that an overflow of the kernel's queue leads to a full scan.
func TestLostNotices(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.settled()
	for range retry.MaxRepairs / 2 { // more writes would be a conflict
		n.Tree.LoseNotices(func() { n.WriteFile(id, cgroup.FileCPUs, "3-4") })
		n.AwaitCPUs(id, "2-3")
		n.WriteFile(id, cgroup.FileCPUs, "4") // all cgroups are watched again
		n.AwaitCPUs(id, "2-3")
	}
}

// TestWatcherDies checks that the state without a watcher is degraded, and that the next
// watcher finds the writes of the meantime.
func TestWatcherDies(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.settled()
	n.Tree.FailNotices(errors.New("too many open files"))
	r.view("degraded", func(v *telemetry.View) bool { return v.Sources[telemetry.Inotify] == telemetry.SourceLost })
	n.WriteFile(id, cgroup.FileCPUs, "3-4")
	n.Tree.FailNotices(nil)
	n.AwaitCPUs(id, "2-3")
	r.settled()
	if n.Tree.Watches() == 0 {
		t.Error("nothing is watched")
	}
}

// TestWatchesReleased checks that removed pods leave no watches, both on kernels that keep
// such watches and on kernels that remove them.
func TestWatchesReleased(t *testing.T) {
	for _, drops := range []bool{false, true} {
		t.Run(fmt.Sprintf("dropped by the kernel: %v", drops), func(t *testing.T) {
			n := newNodeOn(t, testnode.CgroupConfig{DropWatches: drops})
			r := n.start()
			last := n.RunContainer(n.RunPod("stays", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
			n.AwaitCPUs(last, "2-3")
			r.settled()
			before := n.Tree.Watches()
			for i := range 100 {
				pod := n.RunPod(fmt.Sprint("pod", i), "default", "burstable", 0, nil)
				id := n.RunContainer(pod, "a", nodefixture.WholeCPUs(0))
				n.AwaitCPUs(id, "2-3")
				for _, err := range []error{n.Runtime.StopContainer(id), n.Runtime.StopPod(pod), n.Runtime.RemovePod(pod)} {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			r.settled()
			n.Eventually("watches released", func() bool { return n.Tree.Watches() == before })
		})
	}
}

// TestRefusalsGrowRare checks that the pauses between requests to a runtime that refuses grow,
// also if a pass ends during a request.
func TestRefusalsGrowRare(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	r.settled()
	n.Runtime.Fail("UpdateContainerResources", errors.New("no"))
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.within(time.Second, "refused twice", func() bool { return len(n.Logged("write refused")) == 2 })
	r.inspect(func(l *Loop) {
		_, records := l.backoffs.Paused(cgroup.Path(n.Runtime.Cgroup(id)), l.now().Add(time.Second))
		if !records {
			t.Error("after two refusals the pause is one second; want two")
		}
	})
}

// TestExternalWriteDuringUpdate checks that an external write of a cpuset during an update over
// CRI is repaired at once and counted.
func TestExternalWriteDuringUpdate(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.settled()
	release := n.Runtime.Hang("UpdateContainerResources")
	defer release()
	if err := n.Units.SetProperties(t.Context(), cgroup.Path(n.Runtime.Cgroup(id)).Base(), []systemd.Property{{Name: cgroup.UnitCPUs, Value: "4"}}); err != nil {
		t.Fatal(err)
	}
	counted := func(count uint64) func(*telemetry.View) bool {
		return func(v *telemetry.View) bool {
			return v.Drifts[telemetry.Drift{Cause: telemetry.CauseUnknown, Property: cgroup.FileCPUs}] == count
		}
	}
	r.view("the first is counted", counted(1))
	r.within(time.Minute, "an update is under way", func() bool { return r.isUpdating(cgroup.Path(n.Runtime.Cgroup(id))) })
	n.WriteFile(id, cgroup.FileCPUs, "6")
	n.AwaitCPUs(id, "2-3")
	release()
	r.view("the second is counted", counted(2))
	r.quiet()
}

// isUpdating reports whether a worker writes a cgroup.
func (r *running) isUpdating(p cgroup.Path) (busy bool) {
	r.inspect(func(l *Loop) { busy = l.cache.Writes.IsBusy(p) })
	return busy
}
