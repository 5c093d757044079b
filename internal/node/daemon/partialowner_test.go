package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// ofOwner returns a request for a container with exclusive CPUs, and the channel of its reply.
func (a *asker) ofOwner(name string, cpus int) (createRequest, <-chan waits.Reply[nri.Reply]) {
	pod := ofPod(name, "default", "guaranteed", cpus, nil)
	return question(a.clock.now(), pod, a.container(pod, "app", nodefixture.WholeCPUs(cpus)))
}

// TestOwnersAreAnsweredFirst checks that an owner whose CPUs are free is answered before its
// full pass, which comes to the same decision. Without a directory in memory, the pass waits until the
// journal is saved, or for the next event. A refusal is left to the full pass.
func TestOwnersAreAnsweredFirst(t *testing.T) {
	n := driftNode(t)
	a := n.start().asker()
	n.AwaitCPUs(n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102}), "2-3")
	var all cpuset.Set
	a.betweenFullPasses(func(l *Loop) {
		l.RecentDir = ""
		for _, name := range []string{"one", "two", "three"} {
			q, answers := a.ofOwner(name, 1)
			l.handle(q)
			l.runPasses()
			l.runPasses() // as after a timer
			if !l.schedule.answered || len(answers) > 0 {
				t.Errorf("%s: a full pass before the reply, or a reply before the journal is saved", name)
			}
			if name == "three" {
				if l.schedule.add(scopeAnswer); !l.schedule.full {
					t.Error("an event does not end the wait of the full pass")
				}
			}
			cpus := answered(t, l, answers)
			if cpus.Len() != 1 || cpus.Overlaps(all) || !cpus.IsSubsetOf(cpuset.Range(4, 7)) {
				t.Errorf("%s is on %s; others have %s", name, cpus, all)
			}
			if l.runPasses(); l.schedule.answered {
				t.Errorf("%s: no full pass after the reply", name)
			}
			key := pools.Key{PodUID: name, Container: "app"}
			if planned := pools.Assigned(l.last.Plan.Assignments, key); !planned.Equal(cpus) || !pools.Assigned(l.journal.Facts().Assignments, key).Equal(cpus) {
				t.Errorf("%s is on %s, and the plan has it on %s", name, cpus, planned)
			}
			all = all.Union(cpus)
		}
		q, answers := a.ofOwner("four", 2)
		l.handle(q)
		early := l.partialPass(l.now())
		if sendHeld(l); early || len(answers) > 0 {
			t.Error("refused without a full pass")
		}
		l.runPasses()
		if answer := <-answers; answer.Err == nil {
			t.Errorf("is on %s, where one CPU is free", answer.Value.Adjustment.CPUs)
		}
	})
}

// TestOwnersWaitForNoDisk checks that the reply to an owner goes out before its full pass and before any
// save, if the journal's file in memory has the owner.
func TestOwnersWaitForNoDisk(t *testing.T) {
	n := driftNode(t)
	a := n.start().asker()
	n.AwaitCPUs(n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102}), "2-3")
	a.betweenFullPasses(func(l *Loop) {
		disk := l.workers.Disk
		l.workers.Disk = ignored{}
		defer func() { l.workers.Disk = disk }()
		q, answers := a.ofOwner("one", 1)
		l.handle(q)
		if done := l.partialPass(l.now()); done || !l.schedule.answered || len(answers) != 1 {
			t.Fatalf("%d replies, full pass due: %t; want a reply before its full pass", len(answers), l.schedule.answered)
		}
		cpus := (<-answers).Value.Adjustment.CPUs
		j := n.Journal()
		if got := pools.Assigned(j.Assignments, pools.Key{PodUID: "one", Container: "app"}); !got.Equal(cpus) || cpus.Len() != 1 || j.OnDisk == j.Change {
			t.Errorf("reply with CPUs %s; the journal has %s, and change %d of %d on disk", cpus, got, j.OnDisk, j.Change)
		}
	})
}

// TestOwnersWaitForFullPasses checks that an owner waits for a full pass if another cgroup may
// run on its CPUs. That is a cgroup without a target, one that was read before it moved there,
// or one that is about to leave.
func TestOwnersWaitForFullPasses(t *testing.T) {
	const foreign = "2-7"
	for name, test := range map[string]struct {
		before func(n *node, l *Loop, shared string) // the full pass
		after  func(n *node, l *Loop, shared string)
	}{
		"nothing": {},
		"what it is could not be read": {before: func(n *node, l *Loop, shared string) {
			c := l.inventory.Objects().Container(shared).Container
			c.Requested, c.Recorded = cri.Resources{}, cri.Resources{}
			l.inventory.CancelCreate(shared) // a known container keeps its details
			l.inventory.PutContainer(lookup.ContainerStatus{Container: c, Partial: errors.New("no details")})
			n.WriteFile(shared, cgroup.FileCPUs, foreign)
			l.cache.Invalidate(l.inventory.Objects().Container(shared).Path)
		}},
		"the runtime has not told of it": {before: func(n *node, l *Loop, shared string) {
			p := l.inventory.Objects().Container(shared).Path
			l.inventory.CancelCreate(shared)
			l.journal.Originals.Forget(func(q cgroup.Path) bool { return q == p })
			l.cache.Forget(p)
			l.notices.Unidentified.Track(p)
			n.WriteFile(shared, cgroup.FileCPUs, foreign)
		}},
		"it must be read again, and another process has written to it": {after: func(n *node, l *Loop, shared string) {
			l.cache.Invalidate(l.inventory.Objects().Container(shared).Path)
			n.WriteFile(shared, cgroup.FileCPUs, foreign)
		}},
		"it must be read again, and is outside of its CPUs": {after: func(n *node, l *Loop, shared string) {
			l.cache.Invalidate(l.inventory.Objects().Container(shared).Path)
			n.WriteFile(shared, cgroup.FileCPUs, "0-3")
		}},
		"the kernel has lost CPUs": {after: func(n *node, l *Loop, _ string) {
			n.Tree.SetLimit(cpuset.Range(0, 7).Difference(cpuset.Range(4, 5)))
			l.journal.Originals.NoteAsync(undo.Original{Path: "kubepods.slice/gone", File: cgroup.FilePartition, Value: string(cgroup.MemberPartition)})
			for _, at := range []time.Time{l.now(), l.now().Add(partition.LeakTime)} { // the end of the last pass finds them
				l.partitions.Make(partition.Situation{Plan: &l.last.Plan, Now: at})
			}
			if lost := l.partitions.Lost(); !lost.Equal(cpuset.Range(4, 5)) {
				t.Fatalf("lost: %s; want %s", lost, cpuset.Range(4, 5))
			}
		}},
		"it has gone": {after: func(_ *node, l *Loop, shared string) {
			l.handle(runtimeEvent{cri.Event{ContainerID: shared, Kind: cri.ContainerDeleted, At: l.now()}})
			l.runPasses()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := driftNode(t)
			r := n.start()
			shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102})
			n.AwaitCPUs(shared, "2-3")
			r.settled()
			a := r.asker()
			r.betweenFullPasses(func(l *Loop) {
				l.inventory.SetNRI(true)
				if test.before != nil {
					test.before(n, l, shared)
					l.pass()
					l.takeNotices()
					l.schedule = schedule{timers: l.schedule.timers, earliestFull: l.now().Add(time.Hour)}
				}
				if test.after != nil {
					test.after(n, l, shared)
				}
				q, answers := a.ofOwner("own", 2)
				l.handle(q)
				l.partialPass(l.now())
				sendHeld(l)
				if early := len(answers) > 0; early != (test.before == nil && test.after == nil) {
					t.Errorf("answered before a full pass: %t; want %t", early, (test.before == nil && test.after == nil))
				}
				l.runPasses()
				sendHeld(l)
				select {
				case answer := <-answers:
					if on := n.State(shared).Effective; answer.Err == nil && on.Overlaps(answer.Value.Adjustment.CPUs) {
						t.Errorf("is on %s, and another on %s", answer.Value.Adjustment.CPUs, on)
					}
				default: // not before the other container has left
				}
			})
		})
	}
}

// TestOwnersTakeTheirReserve checks that an owner that takes CPUs from the shared pool is answered
// before its full pass if the runtime has reported its pod before. Then the other containers have left
// the CPUs that the pod reserves. Without the report they leave in the full pass. Events that can
// concern other cgroups delay the reply, before or after the request in the same batch.
func TestOwnersTakeTheirReserve(t *testing.T) {
	of := func(l *Loop, shared string) *inventory.Container { return l.inventory.Objects().Container(shared) }
	record := func(cpus string) func(*Loop, string, cri.Pod) event {
		return func(l *Loop, shared string, _ cri.Pod) event {
			return written{write: cgroup.Write{Path: of(l, shared).Path, Container: shared, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: cpus}}
		}
	}
	for name, test := range map[string]struct {
		unreported bool
		noCgroup   bool // of the sandbox
		event      func(l *Loop, shared string, pod cri.Pod) event
		write      string // by another process, to the cgroup of the other container
		repair     bool   // of that write
		early      bool
	}{
		"pod not reported":                     {unreported: true},
		"pod reported":                         {early: true},
		"its pod is fetched":                   {event: func(_ *Loop, _ string, pod cri.Pod) event { return podFetched{lookup.PodStatus{Pod: pod}} }, early: true},
		"its pod is fetched, without a cgroup": {event: func(_ *Loop, _ string, pod cri.Pod) event { return podFetched{lookup.PodStatus{Pod: pod}} }, noCgroup: true},
		"its sandbox has started": {event: func(_ *Loop, _ string, pod cri.Pod) event {
			return runtimeEvent{cri.Event{ContainerID: pod.ID, PodID: pod.ID, Kind: cri.ContainerStarted}}
		}, early: true},
		"another container of its pod has started": {event: func(_ *Loop, _ string, pod cri.Pod) event {
			return runtimeEvent{cri.Event{ContainerID: "sidecar", PodID: pod.ID, Kind: cri.ContainerStarted}}
		}},
		"another pod is fetched": {event: func(l *Loop, shared string, _ cri.Pod) event {
			return podFetched{lookup.PodStatus{Pod: of(l, shared).Pod().Pod}}
		}},
		"the record of another container is written":  {event: record("4-7"), early: true},
		"another record has other CPUs than its file": {event: record("2-7")},
		"another container returns to the CPUs":       {write: "2-7"},
		"another container loses CPUs":                {write: "4-5", early: true},
		"another container is repaired":               {write: "2-7", repair: true, early: true},
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, event first %t", name, first), func(t *testing.T) {
				n := driftNode(t)
				n.YAML = strings.NewReplacer("cpus: 4-7", "from: shared", "cpus: 2-3", "cpus: 2-7").Replace(n.YAML)
				r := n.start()
				shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102})
				n.AwaitCPUs(shared, "2-7")
				r.settled()
				a := r.asker()
				r.betweenFullPasses(func(l *Loop) {
					l.inventory.SetNRI(true)
					pod := ofPod("own", "default", "guaranteed", 2, nil)
					if !test.noCgroup {
						pod.ID = n.RunPod("own", "default", "guaranteed", 2, nil)
						pod.CgroupsPath = pod.CgroupParent + ":cri-containerd:" + pod.ID
					}
					q, answers := question(a.clock.now(), pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
					if !test.unreported {
						l.handle(podRun{q.Pod})
						for l.takeNotices(); l.schedule.isDue(); l.takeNotices() {
							l.schedule.full = true
							l.runPasses()
						}
					}
					batch := []event{q}
					if test.event != nil {
						batch = append(batch, test.event(l, shared, q.Pod))
					}
					if first {
						slices.Reverse(batch)
					}
					if test.write != "" {
						n.WriteFile(shared, cgroup.FileCPUs, test.write)
						l.cache.Invalidate(of(l, shared).Path) // as after a notice
						if test.repair {
							l.schedule.addRepair(of(l, shared).Path)
						}
					}
					for _, e := range batch {
						l.handle(e)
					}
					if !l.schedule.full {
						l.partialPass(l.now())
					}
					sendHeld(l)
					if early := len(answers) > 0; early != test.early {
						t.Errorf("answered before the full pass: %t; want %t", early, test.early)
					}
					var cpus cpuset.Set
					if test.early {
						cpus = answered(t, l, answers)
						if others := n.State(shared).Effective; others.Overlaps(cpus) {
							t.Errorf("early reply with CPUs %s, and the other container is on CPUs %s", cpus, others)
						}
					}
					if l.runPasses(); !test.early {
						cpus = answered(t, l, answers)
					}
					if others := n.State(shared).Effective; cpus.Len() != 2 || others.Overlaps(cpus) || !cpus.Union(others).Equal(cpuset.Range(2, 7)) {
						t.Errorf("owner is on CPUs %s, and the shared pool on %s; want 2 and 4 of CPUs 2-7", cpus, others)
					}
				})
			})
		}
	}
}

// TestReplacedOwnerIsNotRefused checks that the CPUs of a removed pod go to the next one before
// a full pass, without a refusal in the history.
func TestReplacedOwnerIsNotRefused(t *testing.T) {
	for _, onRefusal := range []string{"fail", "shared"} {
		t.Run(onRefusal, func(t *testing.T) {
			n := driftNode(t)
			n.YAML = strings.Replace(n.YAML, "  cpus: 4-7\n", "  cpus: 4-7\n  onRefusal: "+onRefusal+"\n", 1)
			r := n.start()
			pod := n.RunPod("old", "default", "guaranteed", 4, nil)
			id := n.RunContainer(pod, "app", nodefixture.WholeCPUs(4))
			n.AwaitCPUs(id, "4-7")
			r.settled()
			a := r.asker()
			r.betweenFullPasses(func(l *Loop) {
				l.inventory.SetNRI(true)
				if err := n.Runtime.StopPod(pod); err != nil {
					t.Fatal(err)
				}
				if err := n.Runtime.RemovePod(pod); err != nil {
					t.Fatal(err)
				}
				for _, gone := range []string{id, pod} {
					l.handle(runtimeEvent{cri.Event{ContainerID: gone, PodID: pod, Kind: cri.ContainerDeleted, At: l.now()}})
					l.runPasses()
				}
				q, answers := a.ofOwner("new", 4)
				l.handle(q)
				l.runPasses()
				if mine := answered(t, l, answers); !mine.Equal(cpuset.Range(4, 7)) {
					t.Errorf("is created on %s; CPUs 4-7 are free", mine)
				}
				if len(l.refusalLog.Totals())+len(l.refusalLog.Problems()) > 0 {
					t.Errorf("refusals are recorded: %v, %v", l.refusalLog.Totals(), l.refusalLog.Problems())
				}
			})
		})
	}
}

// TestPartialPassRepairsWhatIsStale checks that a write to a stale cgroup is repaired before the
// next full pass.
func TestPartialPassRepairsWhatIsStale(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 102})
	n.AwaitCPUs(shared, "2-3")
	r.settled()
	passes := r.betweenFullPasses(func(l *Loop) {
		l.cache.Invalidate(cgroup.Path(n.Runtime.Cgroup(shared)))
		n.WriteFile(shared, cgroup.FileCPUs, "4-7")
		n.Eventually("that is heard", func() bool { l.takeNotices(); return len(l.schedule.files) > 0 })
		l.runPasses()
		if on := n.State(shared).Effective.String(); on != "2-3" {
			t.Errorf("is on %s; want 2-3", on)
		}
	})
	if passes > 0 {
		t.Errorf("%d full passes", passes)
	}
}
