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
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// driftNode is a node whose resync is so far away that only events repair anything.
func driftNode(t *testing.T) *node {
	n := newNode(t)
	n.yaml = strings.Replace(n.yaml, "resyncPeriod: 10m", "resyncPeriod: 1h", 1)
	return n
}

// foreign writes to a file of a container's cgroup, as somebody else.
func (n *node) foreign(id, file, value string) {
	n.t.Helper()
	if err := n.tree.Write(path.Join(n.runtime.Cgroup(id), file), value); err != nil {
		n.t.Fatal(err)
	}
}

// has waits until a file of a cgroup has a value.
func (n *node) has(p, file, value string) {
	n.t.Helper()
	n.eventually(fmt.Sprintf("%s of %s is %q", file, p, value), func() bool {
		b, err := n.tree.ReadFile(path.Join(p, file), 1<<12)
		has := strings.TrimSpace(string(b))
		if file == cgroup.FileMax {
			has, _, _ = strings.Cut(has, " ") // the period of no quota is no matter
		}
		return err == nil && has == value
	})
}

// settled waits until the daemon runs, listens, and has nothing to do.
func (r *running) settled() {
	r.t.Helper()
	r.view("listens to the cgroups", func(v *telemetry.View) bool { return v.Sources[telemetry.Inotify] == telemetry.SourceOK })
	r.quiet()
}

// TestForeignWrites: whoever writes to a placed cgroup, it is as planned again at
// once.
func TestForeignWrites(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	owner := n.container(n.pod("owner", "default", "guaranteed", 2, nil), "a", whole(2))
	pod := n.pod("shared", "default", "burstable", 0, nil)
	shared := n.container(pod, "a", whole(0))
	manager := n.container(n.pod("manager", "kube-system", "burstable", 0, management(map[string]int{"a": 512})), "a", whole(0))
	n.runsOn(owner, "4-5")
	n.runsOn(shared, "2-3")
	n.runsOn(manager, "0-1")
	r.settled()
	weight := fmt.Sprint(n.state(manager).Weight)
	if weight == "100" {
		t.Fatalf("the manager has no weight of its own\n%s", n.dump())
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
		n.foreign(write.id, write.file, write.value)
		n.has(n.runtime.Cgroup(write.id), write.file, write.want)
		if i == 0 {
			n.check()
		}
	}
	slice := path.Dir(n.runtime.Cgroup(owner))
	if err := n.tree.Write(slice+"/"+cgroup.FileMax, "5000 10000"); err != nil {
		t.Fatal(err)
	}
	n.has(slice, cgroup.FileMax, cgroup.ValueMax)
}

// TestRepairSparesTheRecord: where only the file was written, the runtime is not asked
// to update the container, which would write its own weight and quota for a moment.
func TestRepairSparesTheRecord(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.container(n.pod("a", "kube-system", "burstable", 0, management(map[string]int{"a": 512})), "a", whole(1))
	n.runsOn(id, "0-1")
	r.settled()
	updates := func() (all []any) {
		for _, rec := range n.logged("wrote") {
			if w, ok := rec["write"].(map[string]any); ok && w["via"] != string(cgroup.File) {
				all = append(all, w)
			}
		}
		return all
	}
	before := len(updates())
	n.foreign(id, cgroup.FileCPUs, "2")
	counted := func(v *telemetry.View) bool {
		return v.Drifts[telemetry.Drift{Cause: telemetry.CauseUnknown, Property: cgroup.FileCPUs}] == 1
	}
	r.view("counted", counted)
	n.runsOn(id, "0-1")
	r.quiet()
	if more := updates()[before:]; len(more) > 0 {
		t.Errorf("a write to a file alone is answered with %v", more)
	}
	// But where the record was written, too, it gets the right one again.
	if err := n.client.UpdateCPUs(t.Context(), id, cpuset.Of(2)); err != nil {
		t.Fatal(err)
	}
	n.eventually("the record is mended", func() bool {
		c, err := n.client.ContainerStatus(t.Context(), id)
		return err == nil && c.Recorded.CPUs == "0-1" && n.state(id).CPUs.String() == "0-1"
	})
}

// TestNoWeightBringsCPUsBack: while the runtime refuses to record the right CPUs,
// systemd is told nothing with which it would put back the wrong ones that it has.
func TestNoWeightBringsCPUsBack(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.container(n.pod("a", "kube-system", "burstable", 0, management(map[string]int{"a": 512})), "a", whole(1))
	n.runsOn(id, "0-1")
	r.settled()
	before := len(n.logged("wrote"))
	n.runtime.Fail("UpdateContainerResources", errors.New("no"))
	unit := path.Base(n.runtime.Cgroup(id))
	if err := n.units.SetProperties(t.Context(), unit, []cgroup.Property{{Name: cgroup.UnitCPUs, Value: "2"}}); err != nil {
		t.Fatal(err)
	}
	refused := func() int { return len(n.logged("write refused")) }
	n.eventually("refused twice", func() bool { return refused() >= 2 })
	repairs := 0
	for _, rec := range n.logged("somebody else has written to a cgroup") {
		if rec["property"] == cgroup.FileCPUs {
			repairs++
		}
	}
	if repairs != 1 {
		t.Errorf("%d deviations of the cpuset; want the one that somebody else has made", repairs)
	}
	for _, rec := range n.logged("wrote")[before:] {
		if w, ok := rec["write"].(map[string]any); ok && w["via"] == string(cgroup.DBus) {
			t.Errorf("with the wrong CPUs on record systemd was told %v", w)
		}
	}
	n.runsOn(id, "0-1")
	n.runtime.Fail("UpdateContainerResources", nil)
	n.eventually("recorded", func() bool {
		u, err := n.units.Properties(t.Context(), unit)
		return err == nil && u.CPUs.String() == "0-1"
	})
}

// TestEchoesCostNothing: the daemon's own writes come back, and make no pass.
func TestEchoesCostNothing(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.container(n.pod("a", "default", "burstable", 0, nil), "a", whole(0))
	n.runsOn(id, "2-3")
	r.settled()
	passes := func() uint64 {
		v := r.loop.snapshot.Load()
		return v.Passes[telemetry.OK] + v.Passes[telemetry.Failed]
	}
	before := passes()
	for range 100 {
		n.foreign(id, cgroup.FileCPUs, "2-3") // as an echo: what is there already
	}
	n.foreign(id, cgroup.FileCPUs, "2") // and then one that is none
	n.runsOn(id, "2-3")
	// One finds the write; the others are those of a seal and of what it ends with.
	if now := passes(); now-before > 10 {
		t.Errorf("%d passes for 100 writes of what was there and one other", now-before)
	}
}

// TestLostNotices: when the kernel's queue overflows, everything is read again.
func TestLostNotices(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.container(n.pod("a", "default", "burstable", 0, nil), "a", whole(0))
	n.runsOn(id, "2-3")
	r.settled()
	for range retry.MaxRepairs / 2 { // more would be a contest
		n.tree.LoseNotices(func() { n.foreign(id, cgroup.FileCPUs, "3-4") })
		n.runsOn(id, "2-3")
		n.foreign(id, cgroup.FileCPUs, "4") // all are watched again
		n.runsOn(id, "2-3")
	}
}

// TestWatcherDies: without a watcher the state is degraded, and says so; the next
// one finds what was written meanwhile.
func TestWatcherDies(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.container(n.pod("a", "default", "burstable", 0, nil), "a", whole(0))
	n.runsOn(id, "2-3")
	r.settled()
	n.tree.FailNotices(errors.New("too many open files"))
	r.view("degraded", func(v *telemetry.View) bool { return v.Sources[telemetry.Inotify] == telemetry.SourceLost })
	n.foreign(id, cgroup.FileCPUs, "3-4")
	n.tree.FailNotices(nil)
	n.runsOn(id, "2-3")
	r.settled()
	if n.tree.Watches() == 0 {
		t.Error("nothing is watched")
	}
}

// TestWatchesReleased: pods that are gone leave no watches behind, on kernels that
// keep them and on those that do not.
func TestWatchesReleased(t *testing.T) {
	for _, drops := range []bool{false, true} {
		t.Run(fmt.Sprintf("dropped by the kernel: %v", drops), func(t *testing.T) {
			n := newNodeOn(t, testnode.CgroupConfig{DropWatches: drops})
			r := n.start()
			last := n.container(n.pod("stays", "default", "burstable", 0, nil), "a", whole(0))
			n.runsOn(last, "2-3")
			r.settled()
			before := n.tree.Watches()
			for i := range 100 {
				pod := n.pod(fmt.Sprint("pod", i), "default", "burstable", 0, nil)
				id := n.container(pod, "a", whole(0))
				n.runsOn(id, "2-3")
				for _, err := range []error{n.runtime.StopContainer(id), n.runtime.StopPod(pod), n.runtime.RemovePod(pod)} {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			r.settled()
			n.eventually("watches released", func() bool { return n.tree.Watches() == before })
		})
	}
}

// TestRefusalsGrowRare: a runtime that refuses is asked less and less often; a pass that
// ends while it is being asked is no sign that it has given in.
func TestRefusalsGrowRare(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	r.settled()
	n.runtime.Fail("UpdateContainerResources", errors.New("no"))
	id := n.container(n.pod("a", "default", "burstable", 0, nil), "a", whole(0))
	n.runsOn(id, "2-3")
	n.eventually("refused twice", func() bool { return len(n.logged("write refused")) == 2 })
	pause := make(pauseAsked, 1)
	r.loop.box.Post(pause)
	if got := <-pause; got != 2*retry.FirstPause {
		t.Errorf("after two refusals it rests for %v; want %v", got, 2*retry.FirstPause)
	}
}

// pauseAsked asks the owner for the longest rest.
type pauseAsked chan time.Duration

func (p pauseAsked) apply(l *Loop) {
	var longest time.Duration
	for _, f := range l.backoffs.Failures {
		longest = max(longest, f.Pause)
	}
	p <- longest
}
