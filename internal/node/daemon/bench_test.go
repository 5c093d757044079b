package daemon

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/memrelease"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/cputime"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// BenchmarkResync measures what an idle daemon does once per resyncPeriod: list the runtime's
// 250 containers, read all their cgroups again, plan and compare. It counts the CPU time of the
// process; the runtime is another process. Wall-clock time has no meaning here. The cgroup
// states are cached; BenchmarkSweep of pkg/cgroup measures their reading.
func BenchmarkResync(b *testing.B) {
	r := idleNode(b)
	look, _ := r.resyncFuncs()
	settle(look)
	before := cputime.Of(b)
	for b.Loop() {
		look()
	}
	cputime.Report(b, before)
	b.ReportMetric(0, "ns/op")
	r.checkListings(125, 250)
}

// BenchmarkIdle measures two resyncs and the release of memory after the second. That is the
// work of an idle daemon in 60 s with the default of resyncPeriod. The memory of the fake
// cgroups is part of the process.
func BenchmarkIdle(b *testing.B) {
	r := idleNode(b)
	look, giveBack := r.resyncFuncs()
	settle(look)
	before := cputime.Of(b)
	for b.Loop() {
		look()
		look()
		giveBack()
	}
	cputime.Report(b, before)
	b.ReportMetric(0, "ns/op")
	r.checkListings(125, 250)
}

// settle makes resyncs until the files for applications are as on an idle node. A resync reads a file that
// has changed in the last two seconds, because a later change could leave its time stamp as it is.
func settle(look func()) {
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		look()
	}
}

// resyncFuncs returns look, which makes one resync and waits for its end without CPU time of its
// own, and giveBack, which releases memory. The resyncs themselves then release none.
func (r *running) resyncFuncs() (look, giveBack func()) {
	looked := make(chan struct{})
	r.inspect(func(l *Loop) {
		l.memory = memrelease.With(func() { looked <- struct{}{} }, func() memrelease.Usage {
			return memrelease.Usage{Unused: memrelease.MinUnused, Heap: memrelease.MinHeap}
		})
	})
	return func() {
		r.loop.box.Post(unasked(func(l *Loop) {
			l.memory.Start(l.now().Add(-memrelease.FirstDelay)) // due
			r.resyncNow(l)
		}))
		<-looked
	}, debug.FreeOSMemory
}

// idleNode returns an idle daemon with 250 containers of all pools and cached cgroup states.
func idleNode(b *testing.B) *running {
	n := newNode(b)
	for i := range 125 {
		uid := fmt.Sprintf("pod-%d", i)
		pod, res := "", cri.Resources{Shares: 102}
		switch {
		case i < 2:
			pod, res = n.RunPod(uid, "default", "guaranteed", 2, nil), nodefixture.WholeCPUs(1)
		case i%5 == 0:
			pod = n.RunPod(uid, "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"a": 512, "b": 100}))
		default:
			pod = n.RunPod(uid, "default", "burstable", 0, nil)
		}
		n.RunContainer(pod, "a", res)
		n.RunContainer(pod, "b", res)
	}
	r := n.start()
	r.quiet()
	r.awaitIdle()
	there := n.listedElsewhere(nil)
	r.inspect(func(l *Loop) {
		l.Runtime = there
		read := *l.cache
		*l.cache = *kernelstate.New(fakeKernel(func(p cgroup.Path) cgroup.State { return read.Current(p).State }), l.log)
		l.cache.Refresh(l.last.Targets, l.inventory.Objects())
		for _, t := range l.last.Targets {
			l.cache.SetRecord(t.Path, read.Current(t.Path))
		}
		l.cache.Refresh(l.last.Targets, l.inventory.Objects())
	})
	n.forget()
	n.Runtime.Forget()
	return r
}

// checkListings checks that the lists had all pods and containers until the end.
func (r *running) checkListings(pods, containers int) {
	r.T.Helper()
	r.inspect(func(l *Loop) {
		if p, c := l.inventory.Objects().Len(); l.publisher.States.RuntimeErr() != nil || p != pods || c != containers {
			r.T.Errorf("%d pods, %d containers, %v", p, c, l.publisher.States.RuntimeErr())
		}
	})
}

// BenchmarkStart measures a start of the daemon on 500 containers in their pools, until it is
// ready. It counts the CPU time of the process with its fake runtime and fake cgroups.
// BenchmarkRead of pkg/cgroup measures one of the 1,000 reads of cgroups, which real files add.
func BenchmarkStart(b *testing.B) {
	n := newNode(b)
	n.runShared(500)
	r := n.start()
	r.quiet()
	r.awaitIdle()
	var used time.Duration
	starts := 0
	for b.Loop() {
		r.stop()
		n.forget()
		before := cputime.Of(b)
		r = n.start()
		r.view("ready", func(v *telemetry.View) bool { return v.Ready })
		used += cputime.Of(b) - before
		r.view("verified", func(v *telemetry.View) bool { return v.Faulty == 0 })
		starts++
	}
	b.ReportMetric(float64(used)/float64(starts), "cpu-ns/op")
}

// runShared runs containers that share their CPUs, two per pod, and returns their ids.
func (n *node) runShared(containers int) (ids []string) {
	for i := range containers / 2 {
		pod := n.RunPod(fmt.Sprintf("pod-%d", i), "default", "burstable", 0, nil)
		ids = append(ids, n.RunContainer(pod, "a", cri.Resources{Shares: 102}), n.RunContainer(pod, "b", cri.Resources{Shares: 102}))
	}
	return ids
}

// forget drops the records that the fake node keeps for tests: growing them takes longer than
// an answer.
func (n *node) forget() {
	n.Logs.Reset()
	n.Tree.Forget()
}

// containerCounts are the numbers of unrelated containers on the node while events are measured.
var containerCounts = []int{16, 100, 500, 1000}

// reportP99 reports the median and the 99th percentile of durations.
func reportP99(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[(len(took)-1)*99/100]), "p99-ns")
}

// BenchmarkCreate measures the time from the runtime's request for a new container to the
// reply, by the number of containers on the node. The p99 counts. The container is removed
// afterwards. The daemon is idle when the request for an exclusive container arrives. The runtime has
// reported the sandbox before, as runtimes do, and another container has exclusive CPUs.
func BenchmarkCreate(b *testing.B) {
	for _, pool := range []string{"shared", "own", "own-from-shared"} {
		for _, containers := range containerCounts {
			b.Run(fmt.Sprintf("%s/%dcontainers", pool, containers), func(b *testing.B) {
				n := newNode(b)
				if pool == "own-from-shared" {
					n.YAML = strings.Replace(n.YAML, "cpus: 4-7", "from: shared", 1)
					n.YAML = strings.Replace(n.YAML, "cpus: 2-3", "cpus: 2-7", 1)
				}
				n.runShared(containers)
				if pool != "shared" {
					n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
				}
				r := n.start()
				r.quiet()
				a := r.asker()
				r.loop.box.Post(nriChanged{state: nri.Connected})
				r.awaitIdle()
				qos, res := "burstable", cri.Resources{Shares: 512}
				if pool != "shared" {
					qos, res = "guaranteed", nodefixture.WholeCPUs(2)
				}
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					p := ofPod(fmt.Sprintf("new-%d", i), "default", qos, int(res.Shares/1024), nil)
					if pool != "shared" {
						p.ID = n.RunPod(p.UID, "default", qos, int(res.Shares/1024), nil)
						p.CgroupsPath = p.CgroupParent + ":cri-containerd:" + p.ID
						a.hooks.RunPod(p)
						r.awaitIdle()
					}
					c := a.container(p, "app", res)
					began := time.Now()
					reply := a.mustCreate(p, c)
					took = append(took, time.Since(began))
					r.makeUpdates(reply)
					a.hooks.Remove(c.ID)
					a.hooks.RemovePod(p.ID)
					if pool != "shared" { // it takes full passes, and workers have jobs afterwards
						if err := errors.Join(n.Runtime.StopPod(p.ID), n.Runtime.RemovePod(p.ID)); err != nil {
							b.Fatal(err)
						}
						r.awaitIdle()
					}
					if i%100 == 0 {
						n.forget()
					}
				}
				reportP99(b, took)
			})
		}
	}
}

// makeUpdates makes the updates in a reply, as the runtime does before it creates the container.
// Then the daemon does not wait for their time to end.
func (r *running) makeUpdates(reply nri.Reply) {
	r.T.Helper()
	for _, u := range reply.Updates {
		w := cgroup.Write{Container: u.Container, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: u.CPUs.String()}
		if err := r.loop.Record(r.T.Context(), w); err != nil {
			r.T.Fatal(err)
		}
	}
	if len(reply.Updates) > 0 {
		r.inspect(func(l *Loop) { l.settleUpdates(true, l.now()) })
	}
}

// BenchmarkRepair measures the time from an external write to a placed cgroup to the repair, on
// an idle node, by the number of containers on the node. The p99 counts.
func BenchmarkRepair(b *testing.B) {
	for _, containers := range containerCounts {
		b.Run(fmt.Sprintf("%dcontainers", containers), func(b *testing.B) {
			n := newNode(b)
			ids := n.runShared(containers)
			r := n.start()
			r.view("listens to the cgroups", func(v *telemetry.View) bool { return v.Sources[telemetry.Inotify] == telemetry.SourceOK })
			r.quiet()
			r.awaitIdle()
			repaired := make(chan time.Time, 16)
			n.Tree.Intercept(func(w testnode.CgroupWrite) error {
				if w.Value != "0" {
					repaired <- time.Now()
				}
				return nil
			})
			defer n.Tree.Intercept(nil)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				if i%len(ids) == 0 { // otherwise the daemon would stop its repairs for a while
					r.inspect(func(l *Loop) { *l.backoffs = *retry.New() })
				}
				at := n.Runtime.Cgroup(ids[i%len(ids)]) + "/cpuset.cpus"
				began := time.Now()
				if err := n.Tree.Write(at, "0"); err != nil {
					b.Fatal(err)
				}
				took = append(took, (<-repaired).Sub(began))
				r.awaitIdle() // until the writer is identified and the record repaired
				n.forget()
			}
			reportP99(b, took)
		})
	}
}

// awaitIdle waits until no job runs and no full pass is due.
func (r *running) awaitIdle() {
	r.Eventually("nothing is due", func() bool {
		var due bool
		before, idle := r.jobs.state()
		r.inspectOnly(func(l *Loop) {
			due = l.schedule.isDue() || len(l.drifts.Unrepaired()) > 0 || l.cache.HasStale()
			begun, now := r.jobs.state()
			// Results of jobs that have ended before were posted before, and are applied.
			idle = idle && now && begun == before && !l.cache.Writes.HasBusy()
		})
		if idle && due {
			r.inspect(func(*Loop) {}) // a full pass does the deferred work
		}
		return idle && !due
	})
}

// BenchmarkPass measures a full pass without changes, by the number of containers: decide,
// compare, publish.
func BenchmarkPass(b *testing.B) {
	for _, containers := range containerCounts {
		n := newNode(b)
		n.runShared(containers)
		r := n.start()
		r.quiet()
		for _, part := range []struct {
			name string
			do   func(l *Loop)
		}{{"pass", (*Loop).pass}, {"publish", (*Loop).publish}} {
			b.Run(fmt.Sprintf("%dcontainers/%s", containers, part.name), func(b *testing.B) {
				b.ReportAllocs()
				r.inspect(func(l *Loop) {
					for b.Loop() {
						part.do(l)
					}
				})
			})
		}
	}
}
