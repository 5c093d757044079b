package daemon

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestExposuresByPath checks that each new container is counted once, by the event that led to
// its placement, and that older containers are not counted.
func TestExposuresByPath(t *testing.T) {
	n := newNRINode(t)
	n.RunContainer(n.RunPod("before", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	r := n.start()
	r.connected()
	for _, uid := range []string{"a", "b", "c"} {
		n.RunContainer(n.RunPod(uid, "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	}
	own := n.RunContainer(n.RunPod("d", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(own, "4-5")
	r.quiet()
	r.view("four by NRI", func(v *telemetry.View) bool {
		nri := v.Placements[telemetry.WayNRI]
		return nri.Elapsed.Count == 4 && nri.Elapsed.Sum == 0 && nri.Used.Sum == 0 && len(v.Placements) == 1
	})
	n.Runtime.NRIDown()
	late := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(late, "6-7")
	r.quiet()
	r.view("one more, without NRI", func(v *telemetry.View) bool {
		var count uint64
		for way, p := range v.Placements {
			if way != telemetry.WayNRI {
				count += p.Elapsed.Count
			}
		}
		return count == 1 && v.Placements[telemetry.WayNRI].Elapsed.Count == 4
	})
}

// TestExposureOfTheMaking checks the exposure of a container that the runtime may have created
// inside its pool. If systemd has its CPUs, it began inside, although its cgroup is older than
// them. Otherwise it may have been outside all the time.
func TestExposureOfTheMaking(t *testing.T) {
	const p = cgroup.Path("kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope")
	shared, all := cpuset.Range(2, 3), cpuset.Range(0, 7)
	const took = 7 * time.Second
	had := cgroup.UnitState{Known: true, CPUs: shared}
	answer := func(u cgroup.UnitState) func(*Loop) {
		return func(l *Loop) {
			l.status.unitAsked[p] = true
			l.handle(unitRead{path: p, unit: u})
		}
	}
	seal := cgroup.Write{Path: p, Container: "1", Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "2-3"}
	for _, c := range []struct {
		name  string
		state cri.State
		own   cpuset.Set // cpuset.cpus at first
		then  func(*Loop)
		count uint64
		sum   time.Duration
	}{
		{name: "systemd has not answered", state: cri.Created, then: func(*Loop) {}},
		{name: "made with its CPUs", state: cri.Created, then: answer(had), count: 1},
		{name: "made with others", state: cri.Created, then: answer(cgroup.UnitState{Known: true, CPUs: cpuset.Range(1, 3)}), count: 1, sum: took},
		{name: "made without", state: cri.Created, then: answer(cgroup.UnitState{Known: true}), count: 1, sum: took},
		{name: "systemd does not know it", state: cri.Created, then: answer(cgroup.UnitState{}), count: 1, sum: took},
		{name: "gone", state: cri.Created, then: func(l *Loop) { l.exposureMeter.cgroupRemoved(p) }, count: 1, sum: took},
		{name: "gone without a word", state: cri.Created, then: func(l *Loop) { l.exposureMeter.forget(func(cgroup.Path) bool { return true }) }, count: 1, sum: took},
		{name: "sealed by the daemon since", state: cri.Created, count: 1, sum: took, then: func(l *Loop) {
			l.cache.NoteSubmitted(seal)
			answer(had)(l)
			l.observeExposures(time.Now())
			l.handle(written{write: seal, unit: had})
		}},
		{name: "first seen when it ran", state: cri.Running, then: answer(had), count: 1, sum: took},
		{name: "first seen with other CPUs", state: cri.Created, own: cpuset.Range(1, 3), then: answer(had), count: 1, sum: took},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			l := n.bareLoop(n.Host())
			began := time.Now()
			l.inventory.BeginWatch(began)
			l.inventory.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "1", State: c.state, CreatedAt: began, CgroupsPath: "kubepods-pod1.slice:cri-containerd:1"}})
			l.inventory.Container("1").FoundBy(telemetry.WaySpec)
			l.status.targets = []cgroup.Target{{Container: "1", Path: p, CPUs: shared}}
			look := func(own, effective cpuset.Set) {
				l.cache = kernelstate.New(fakeKernel(func(cgroup.Path) cgroup.State { return cgroup.State{Path: p, CPUs: own, Effective: effective} }), l.log)
				l.cache.Refresh(l.status.targets, l.inventory)
			}
			look(c.own, all)
			l.noteFirstReads(l.status.targets)
			look(shared, shared)
			l.observeExposures(began.Add(took))
			c.then(l)
			l.observeExposures(time.Now())
			got := l.exposureMeter.view()[telemetry.WaySpec]
			if got.Elapsed.Count != c.count || got.Elapsed.Sum != c.sum.Seconds() {
				t.Errorf("%d placements in %v s; want %d in %v", got.Elapsed.Count, got.Elapsed.Sum, c.count, c.sum)
			}
		})
	}
}
