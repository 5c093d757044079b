package daemon

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
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

// TestOwnRecordEndsStart checks the exposure of a container that the runtime may have created
// inside its pool: an answer of systemd counts only without an earlier record by the daemon.
func TestOwnRecordEndsStart(t *testing.T) {
	const p = cgroup.Path("kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope")
	const took = 7 * time.Second
	shared := cpuset.Range(2, 3)
	had := cgroup.UnitState{Known: true, CPUs: shared}
	record := cgroup.Write{Path: p, Container: "1", Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "2-3"}
	for own, sum := range map[bool]time.Duration{false: 0, true: took} {
		n := newNode(t)
		l := n.bareLoop(n.Host())
		began := l.now()
		l.inventory.BeginWatch(began)
		l.inventory.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "1", State: cri.Created, CreatedAt: began, CgroupsPath: "kubepods-pod1.slice:cri-containerd:1"}})
		l.inventory.Objects().Container("1").Exposure().FoundBy(telemetry.WaySpec)
		l.last.Targets = []cgroup.Target{{Container: "1", Path: p, CPUs: shared}}
		st := cgroup.State{Path: p, Effective: cpuset.Range(0, 7)}
		*l.cache = *kernelstate.New(fakeKernel(func(cgroup.Path) cgroup.State { return st }), l.log)
		l.cache.Refresh(l.last.Targets, l.inventory.Objects())
		l.publisher.Exposures.NoteFirstReads(l.last.Targets)
		st.CPUs, st.Effective = shared, shared
		l.cache.Invalidate(p)
		l.cache.Refresh(l.last.Targets, l.inventory.Objects())
		l.publisher.Exposures.Observe(l.last.Targets, l.units.Scopes().IsAnswered, l.notices.Unidentified.All(), began.Add(took))
		l.inventory.Event(cri.Event{ContainerID: "1", Kind: cri.ContainerStarted}) // systemd has its scope
		if ask := l.units.Scopes().Ask(l.last.Targets); len(ask) != 1 {
			t.Fatalf("properties of %v are asked for; want one entry", ask)
		}
		if own {
			l.cache.NoteSubmitted(record)
		}
		l.handle(unitRead{path: p, unit: had})
		if own {
			l.publisher.Exposures.Observe(l.last.Targets, l.units.Scopes().IsAnswered, l.notices.Unidentified.All(), l.now())
			l.handle(written{write: record, unit: had})
		}
		l.publisher.Exposures.Observe(l.last.Targets, l.units.Scopes().IsAnswered, l.notices.Unidentified.All(), l.now())
		if got := l.publisher.Exposures.Placements()[telemetry.WaySpec].Elapsed; got.Count != 1 || got.Sum != sum.Seconds() {
			t.Errorf("recorded by the daemon: %t: %d placements in %v s; want one in %v", own, got.Count, got.Sum, sum)
		}
	}
}
