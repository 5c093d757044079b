package daemon

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// checkAlone checks that each pod which a partial pass would place gets the placement of a full
// pass, and returns the number of these pods.
func checkAlone(l *Loop) (alone int, err error) {
	in := l.planner.Input(l.moment(l.now()))
	d := in.Decide()
	plan, whole := d.Plan, d.Targets
	for e := range l.inventory.Objects().Containers() {
		got, ok := l.wouldPlace(e.Container.ID)
		if !ok {
			continue
		}
		alone++
		i := slices.IndexFunc(plan.Pods, func(p pools.PodPlan) bool { return p.UID == got.UID })
		if i < 0 {
			return alone, fmt.Errorf("%s is placed alone, and the plan does not have it", got.Name)
		}
		if d := cmp.Diff(plan.Pods[i], got, cmp.Comparer(cpuset.Set.Equal)); d != "" {
			return alone, fmt.Errorf("%s placed alone (-plan +alone):\n%s", got.Name, d)
		}
		want := in.Targets(pools.Plan{Pods: []pools.PodPlan{got}})
		for _, t := range want {
			j := slices.IndexFunc(whole, func(o cgroup.Target) bool { return o.Path == t.Path })
			if j < 0 { // its cgroup is gone
				continue
			}
			if d := cmp.Diff(whole[j], t, cmp.Comparer(cpuset.Set.Equal)); d != "" {
				return alone, fmt.Errorf("%s placed alone (-target +alone):\n%s", t.Path, d)
			}
		}
	}
	return alone, nil
}

// wouldPlace is place without another change of the node.
func (l *Loop) wouldPlace(container string) (pools.PodPlan, bool) {
	pod, ok := l.podInput(container, l.now())
	if !ok {
		return pools.PodPlan{}, false
	}
	if placed, ok := pools.Alone(&l.last.Input, &l.last.Plan, pod); ok {
		return placed, true
	}
	placed, _, ok := pools.Alongside(&l.last.Input, &l.last.Plan, pod)
	return placed, ok && !l.planner.LacksHints(pod)
}

// betweenFullPasses calls do on the event loop while no urgent full pass is due, and returns the number of
// full passes that ran nevertheless.
func (r *running) betweenFullPasses(do func(l *Loop)) (passes uint64) {
	r.T.Helper()
	r.quiet()
	r.Eventually("nothing is held back", func() (calm bool) {
		r.inspect(func(l *Loop) { calm = l.allowsPartialPass() })
		return calm
	})
	r.inspect(func(l *Loop) {
		l.pass()
		count := func() (n uint64) {
			for _, of := range l.publisher.Metrics().Passes {
				n += of
			}
			return n
		}
		before := count()
		l.schedule = schedule{timers: l.schedule.timers, earliestFull: l.now().Add(time.Hour)}
		do(l)
		passes = count() - before
		l.schedule.add(scopeAll)
	})
	return passes
}

// TestPartialPassAnswers checks that a request for a container that shares its CPUs is answered
// without a full pass, and that the next full pass agrees.
func TestPartialPassAnswers(t *testing.T) {
	for name, yaml := range map[string]string{"fixed": nodefixture.PoolsYAML, "carved": nodefixture.CarvedYAML} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.YAML = yaml
			a := n.start().asker()
			own := ofPod("own", "default", "guaranteed", 2, nil)
			mine := a.mustCreate(own, a.container(own, "app", nodefixture.WholeCPUs(2))).Adjustment.CPUs
			passes := a.betweenFullPasses(func(l *Loop) {
				for i := range 5 {
					pod := ofPod(fmt.Sprint("new-", i), "default", "burstable", 0, nil)
					q, answers := question(a.clock.now(), pod, a.container(pod, "app", cri.Resources{Shares: 512}))
					l.handle(q)
					l.runPasses()
					if got := answered(t, l, answers); got.IsEmpty() || got.Overlaps(mine) {
						t.Errorf("on %s, where %s belongs to an owner", got, mine)
					}
				}
			})
			if passes > 0 {
				t.Errorf("%d full passes for 5 answers", passes)
			}
			a.inspect(func(l *Loop) {
				if alone, err := checkAlone(l); err != nil || alone != 6 { // also the owner, which keeps its CPUs
					t.Errorf("%d are placed alone: %v; want 6", alone, err)
				}
			})
		})
	}
}

// TestPartialPassLeaves checks that a full pass handles events that concern several owners.
func TestPartialPassLeaves(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	a := n.start().asker()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102})
	n.AwaitFile(n.Runtime.Cgroup(shared), cgroup.FileCPUs, "2-7")
	passes := a.betweenFullPasses(func(l *Loop) {
		pod := ofPod("own", "default", "guaranteed", 2, nil)
		q, answers := question(a.clock.now(), pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
		l.handle(q)
		l.runPasses()
		if mine := answered(t, l, answers); mine.Len() != 2 || n.State(shared).Effective.Overlaps(mine) {
			t.Errorf("the owner gets %s, and the shared pool runs on %s", mine, n.State(shared).Effective)
		}
	})
	if passes == 0 {
		t.Error("no full pass")
	}
}

func question(now time.Time, p cri.Pod, c cri.Container) (createRequest, <-chan waits.Reply[nri.Reply]) {
	q := requests.NewCreate(p, c, now, nil)
	return createRequest{q}, q.Reply()
}

// answered returns the CPUs of the reply, which must exist already.
func answered(t *testing.T, l *Loop, answers <-chan waits.Reply[nri.Reply]) cpuset.Set {
	t.Helper()
	sendHeld(l)
	select {
	case answer := <-answers:
		if answer.Err != nil {
			t.Error(answer.Err)
		}
		return answer.Value.Adjustment.CPUs
	default:
		t.Error("no answer")
		return cpuset.Set{}
	}
}

// sendHeld sends the replies that wait for the journal, on the event loop, as if the journal were
// on disk.
func sendHeld(l *Loop) {
	if !l.requests.HeldUntil().IsZero() {
		l.journal.EndSave(l.journal.Newest(), nil, l.now())
		l.requests.Release(l.now())
	}
}

// TestPartialPassRepairs checks that external writes to placed cgroups are repaired without a
// full pass.
func TestPartialPassRepairs(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102})
	owner := n.RunContainer(n.RunPod("o", "default", "guaranteed", 2, nil), "a", nodefixture.WholeCPUs(2))
	n.AwaitFile(n.Runtime.Cgroup(owner), cgroup.FileCPUs, "4-5")
	r.settled()
	for _, id := range []string{shared, owner} {
		path := n.Runtime.Cgroup(id)
		was := n.State(id).CPUs
		passes := r.betweenFullPasses(func(l *Loop) {
			n.WriteFile(id, cgroup.FileCPUs, "0-1")
			n.Eventually("that is heard", func() bool { l.takeNotices(); return len(l.schedule.files) > 0 })
			l.runPasses()
			if is := n.State(id).CPUs; !is.Equal(was) {
				t.Errorf("%s has %s, want %s", path, is, was)
			}
		})
		if passes > 0 {
			t.Errorf("%s: %d full passes", path, passes)
		}
		r.view("repaired", func(v *telemetry.View) bool { return v.Open == 0 })
		r.settled()
	}
}

// TestLostWatchesComeBack checks that lost watches are restored. Changes above the placed
// cgroups need no pass, but may have removed watches.
func TestLostWatchesComeBack(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	n.AwaitCPUs(n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102}), "2-3")
	r.settled()
	r.betweenFullPasses(func(l *Loop) {
		l.notices.Watch(l.last.Targets)
		n.Tree.MkdirAll("kubelet")
		n.Eventually("that is heard", func() bool { l.takeNotices(); return !l.notices.Tree.Watcher().Settled() })
		if !l.schedule.isDue() {
			t.Error("no pass is due that would watch again")
		}
	})
}

// TestFullPassesAreDelayed checks that a full pass without a waiting request is delayed by 100
// times the duration of the previous one, and by at most fullPassDelay.
func TestFullPassesAreDelayed(t *testing.T) {
	began := time.Now()
	var a schedule
	a.add(scopeOne)
	a.done(began, began.Add(2*time.Millisecond))
	if got, want := a.earliestFull.Sub(began), 202*time.Millisecond; got != want || a.isDue() {
		t.Errorf("the next one after %s, want %s; is asked for %t", got, want, a.isDue())
	}
	a.done(began, began.Add(time.Second))
	if got, want := a.earliestFull.Sub(began), time.Second+fullPassDelay; got != want {
		t.Errorf("after one that took a second the next one after %s, want %s", got, want)
	}
}

// TestUnitIsPlacedAtOnce checks that a unit is placed when its cgroup appears, also with NRI:
// systemd does not ask before it starts a unit.
func TestUnitIsPlacedAtOnce(t *testing.T) {
	n := driftNode(t)
	n.YAML += "units: {du.service: {cpus: 2}}\n"
	n.Units.Install("du.service", cpuset.Set{})
	n.Tree.MkdirAll("system.slice") // systemd makes it at boot
	r := n.start()
	r.settled()
	r.betweenFullPasses(func(l *Loop) {
		l.inventory.SetNRI(true)
		n.Tree.MkdirAll("system.slice/du.service")
		n.Eventually("a full pass is due at once", func() bool { l.takeNotices(); return l.schedule.full })
	})
}

// TestEndStartsPassAtOnce checks that the end of a container for which a request waits leads to a
// pass at once.
func TestEndStartsPassAtOnce(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102})
	r.settled()
	for _, waits := range []bool{false, true} {
		r.betweenFullPasses(func(l *Loop) {
			if waits {
				l.last.Deferred = []cgroup.Deferred{{Path: "x", Property: cgroup.FileCPUs, WaitsFor: []cgroup.Path{cgroup.Path(n.Runtime.Cgroup(id))}}}
			}
			p := cgroup.Path(n.Runtime.Cgroup(id))
			if r := l.notices.Handle([]cgroup.Change{{Kind: cgroup.Gone, Path: p.Parent(), Name: p.Base()}}, l.last.Targets); !r.One || r.All {
				t.Errorf("the end of a container leads to %+v", r)
			}
			l.schedule.add(scopeOne)
			l.takeNotices()
			if l.schedule.full != waits {
				t.Errorf("somebody waits: %t; a full pass is due at once: %t", waits, l.schedule.full)
			}
			l.last.Deferred = nil
		})
	}
}

// TestPartialPassMeasuresExposure checks that the exposure of a container that a partial pass
// places ends with that pass.
func TestPartialPassMeasuresExposure(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102})
	r.settled()
	r.betweenFullPasses(func(l *Loop) {
		c := l.inventory.Objects().Container(id).Container
		c.CreatedAt = l.now()        // the daemon has seen its creation
		l.inventory.CancelCreate(id) // makes the daemon forget the placement
		l.inventory.PutContainer(lookup.ContainerStatus{Container: c})
		l.inventory.Objects().Container(id).Exposure().FoundBy(telemetry.WayNRI)
		n.WriteFile(id, cgroup.FileCPUs, "0-1")
		n.Eventually("that is heard", func() bool { l.takeNotices(); return len(l.schedule.files) > 0 })
		l.runPasses()
		if got := l.publisher.Exposures.Placements()[telemetry.WayNRI].Elapsed.Count; got != 1 {
			t.Errorf("%d placements; want one, of a container that was outside its pool", got)
		}
	})
}
