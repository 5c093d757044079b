package daemon

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/memrelease"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/threads"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// Sizes of the hostile containers: the list of so many threads has more than 1 MiB.
const (
	crowdCgroups = 100_000
	crowdThreads = 131_073
)

// countedTree counts the accesses of the daemon: parts of files, lists of directories, and questions about threads.
type countedTree struct {
	*testnode.Cgroups
	reads, threads *atomic.Int64
}

func (c countedTree) ReadFile(name string, limit int) ([]byte, error) {
	c.reads.Add(1)
	return c.Cgroups.ReadFile(name, limit)
}

func (c countedTree) ReadParts(name string, buffer []byte, visit func([]byte) error) error {
	return c.Cgroups.ReadParts(name, buffer, func(part []byte) error {
		c.reads.Add(1)
		return visit(part)
	})
}

func (c countedTree) ReadDir(name string) ([]string, error) {
	c.reads.Add(1)
	return c.Cgroups.ReadDir(name)
}

func (c countedTree) Inside(tid int, cpus cpuset.Set) (bool, error) {
	c.threads.Add(1)
	return c.Cgroups.Inside(tid, cpus)
}

// crowd is a node with shared containers. If it is hostile, one of them has very many cgroups, another one very many
// threads, and a third one a cgroup that cannot be opened by its path.
type crowd struct {
	*running
	ids            []string
	reads, threads atomic.Int64 // of the daemon, without the scanner
}

func newCrowd(tb testing.TB, yaml string, hostile bool) *crowd {
	tb.Helper()
	n := newPartitionNode(tb, 7, 0, testnode.RuntimeConfig{})
	n.YAML = nodefixture.WithPartitions(yaml)
	c := &crowd{ids: n.runShared(20)}
	if hostile {
		tops := []string{n.Runtime.Cgroup(c.ids[0]), n.Runtime.Cgroup(c.ids[2]), n.Runtime.Cgroup(c.ids[4])}
		for i := range crowdCgroups {
			if err := n.Tree.Mkdir(fmt.Sprintf("%s/%d", tops[0], i)); err != nil {
				tb.Fatal(err)
			}
		}
		if err := n.Tree.AddThreads(tops[1], 1_000_000, crowdThreads); err != nil {
			tb.Fatal(err)
		}
		n.Tree.MkdirAll(tops[2] + strings.Repeat("/"+strings.Repeat("x", 255), 16))
	}
	c.running = &running{node: n}
	return c
}

// begin starts the daemon, and counts its accesses.
func (c *crowd) begin() {
	h := c.Host()
	h.Cgroups = cgroup.New(countedTree{c.Tree, &c.reads, &c.threads})
	c.running = c.startOnCounted(c.node, h)
}

// startOnCounted runs a daemon as startOn does. Its scanner reads the cgroups without counting.
func (c *crowd) startOnCounted(n *node, h hostenv.Host) *running {
	n.T.Helper()
	l, err := newLoop(h, n.options())
	if err != nil {
		n.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	jobs, wait := startWorkers(ctx, l)
	var all sync.WaitGroup
	scan := l.cache.Threads.Scans(cgroup.New(n.Tree))
	all.Go(func() { scan(ctx, func(f threads.Found) { l.box.Post(threadsScanned{f}) }) })
	all.Go(func() { l.watchers.runtime(ctx) })
	all.Go(func() { l.watchers.units(ctx, l.units) })
	all.Go(func() { l.watchers.cgroups(ctx) })
	all.Go(func() {
		runtime.LockOSThread() // so that threadTime measures the loop
		defer runtime.UnlockOSThread()
		l.run(ctx)
	})
	l.askFormula()
	r := &running{node: n, loop: l, jobs: jobs, cancel: cancel, stop: sync.OnceFunc(func() { cancel(); all.Wait(); wait() })}
	n.T.Cleanup(r.stop)
	return r
}

// TestCrowdDelaysNoOtherPod checks that containers with very many cgroups and threads delay no other pod. A new owner gets
// its CPUs and its partition, no problem names it, and the daemon reads at most twice as much as on a quiet node.
func TestCrowdDelaysNoOtherPod(t *testing.T) {
	type costs struct{ reads, threads int64 }
	measured := make(map[bool]costs)
	for _, hostile := range []bool{false, true} {
		c := newCrowd(t, nodefixture.CarvedYAML, hostile)
		c.begin()
		c.view("all scanned", func(v *telemetry.View) bool { return v.Ready && (v.Problems["StuckThreads"] > 0) == hostile })
		c.quiet()
		c.awaitIdle()
		watches := c.Tree.Watches()
		c.reads.Store(0)
		c.threads.Store(0)
		id := c.RunContainer(c.RunPod("own", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
		c.AwaitPartition(id, cgroup.RootPartition)
		c.awaitIdle()
		measured[hostile] = costs{c.reads.Load(), c.threads.Load()}
		if n := c.Tree.Watches(); n > watches+10 || n > 300 {
			t.Errorf("hostile: %t: %d watches, before the new pod %d", hostile, n, watches)
		}
		c.inspect(func(l *Loop) {
			for _, p := range l.publisher.Latest().Problems {
				if p.PodUID == "own" {
					t.Errorf("hostile: %t: problem of the new pod: %+v", hostile, p)
				}
				if len(p.Text) > 1000 || !strings.Contains(p.Text, "remove these cgroups, or restart the container") {
					t.Errorf("hostile: %t: problem of %d bytes: %s", hostile, len(p.Text), p.Text)
				}
			}
			if len(l.last.Unreadable) > 0 || len(l.publisher.Latest().Faults) > 0 {
				t.Errorf("hostile: %t: unreadable %v, faults %v", hostile, l.last.Unreadable, l.publisher.Latest().Faults)
			}
		})
		c.stop()
	}
	quiet, hostile := measured[false], measured[true]
	t.Logf("quiet %+v, hostile %+v", quiet, hostile)
	if hostile.reads > 2*quiet.reads {
		t.Errorf("%d reads next to hostile containers, %d on a quiet node", hostile.reads, quiet.reads)
	}
	if hostile.threads > crowdThreads/4 {
		t.Errorf("the event loop asks for %d threads", hostile.threads)
	}
}

// BenchmarkCrowd measures a new owner on a node with hostile containers and on a node without them. It reports the time from
// the runtime's request to the reply, and until nothing is due the CPU time of the event loop and the accesses to cgroups. The
// quotients are the delay that hostile containers cause. It also reports the heap of the daemon from its start until it has
// scanned all containers.
func BenchmarkCrowd(b *testing.B) {
	for _, hostile := range []bool{false, true} {
		b.Run(map[bool]string{false: "quiet", true: "hostile"}[hostile], func(b *testing.B) {
			c := newCrowd(b, nodefixture.PoolsYAML, hostile)
			peak := watchHeap(b, liveHeap())
			c.begin()
			c.view("all scanned", func(v *telemetry.View) bool { return v.Ready && (v.Problems["StuckThreads"] > 0) == hostile })
			c.quiet()
			c.awaitIdle()
			heap := peak()
			var used time.Duration
			var reads int64
			took := c.answerOwners(b, func(answer func()) {
				before, at := c.loopTime(), c.reads.Load()
				answer()
				used += c.loopTime() - before
				reads += c.reads.Load() - at
			})
			b.ReportMetric(float64(used)/float64(len(took)), "loop-cpu-ns/op")
			b.ReportMetric(float64(reads)/float64(len(took)), "reads/op")
			b.ReportMetric(heap, "heap-B")
			reportP99(b, took)
		})
	}
}

// BenchmarkAnnotations measures a new owner on a node with 110 pods that have 256 KiB of annotations each, the maximum of the
// API server, and next to 110 other pods. It also reports the heap of the daemon during three listings of these pods, with all
// that it keeps of them. The runtime that lists them is another process.
func BenchmarkAnnotations(b *testing.B) {
	for _, hostile := range []bool{false, true} {
		b.Run(map[bool]string{false: "quiet", true: "hostile"}[hostile], func(b *testing.B) {
			n := newNodeWith(b, testnode.RuntimeConfig{Flavor: testnode.CRIO}) // containerd sends lists of at most 16 MiB
			var annotations map[string]string
			if hostile {
				const key = "cpu-quota.crio.io/x" // the daemon keeps it, and drops all other names
				annotations = map[string]string{"example.org/note": strings.Repeat("x", 128<<10), key: strings.Repeat("x", 127<<10)}
			}
			for i := range 110 {
				n.RunContainer(n.RunPod(fmt.Sprintf("pod-%d", i), "default", "burstable", 0, annotations), "app", cri.Resources{Shares: 102})
			}
			r := n.start() // the fake runtime keeps the texts that it has sent
			r.quiet()
			r.stop()
			there := n.listedElsewhere(r.loop.Annotations.Reads)
			before := liveHeap()
			r = n.start()
			r.quiet()
			r.view("listens to the runtime", func(v *telemetry.View) bool { return v.Sources[telemetry.CRIEvents] == telemetry.SourceOK })
			r.awaitIdle() // a listing follows the connection
			look, _ := r.resyncFuncs()
			r.inspect(func(l *Loop) { l.Runtime = there })
			peak := watchHeap(b, before)
			for range 3 {
				look()
				r.awaitIdle() // the listing has ended
			}
			heap := peak()
			r.checkListings(110, 110)
			r.inspect(func(l *Loop) { l.memory = memrelease.New() }) // the release of resyncFuncs waits for look
			took := r.answerOwners(b, func(answer func()) { answer() })
			b.ReportMetric(heap, "heap-B")
			reportP99(b, took)
		})
	}
}

// answerOwners adds and removes an owner in each iteration, and returns the times from the requests to the replies. around calls
// its argument once. The argument returns when the daemon has no more work.
func (r *running) answerOwners(b *testing.B, around func(answer func())) (took []time.Duration) {
	a := r.asker()
	r.loop.box.Post(nriChanged{state: nri.Connected})
	for i := 0; b.Loop(); i++ {
		p := ofPod(fmt.Sprintf("new-%d", i), "default", "guaranteed", 2, nil)
		own := a.container(p, "app", nodefixture.WholeCPUs(2))
		around(func() {
			began := time.Now()
			a.mustCreate(p, own)
			took = append(took, time.Since(began))
			a.hooks.Remove(own.ID)
			a.hooks.RemovePod(p.ID)
			r.awaitIdle()
		})
		r.forget()
	}
	return took
}

// heapLive is the name of the memory of the objects that the last garbage collection found in use.
const heapLive = "/gc/heap/live:bytes"

// liveHeap collects garbage, and returns the memory of the objects in use in bytes.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // the first one keeps pools of buffers
	live := []metrics.Sample{{Name: heapLive}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// watchHeap starts to measure the heap. peak ends the measurement, and returns by how many bytes the objects in use exceeded
// before, at most. Go measures them only in garbage collections, so watchHeap makes these frequent.
func watchHeap(b *testing.B, before uint64) (peak func() float64) {
	liveHeap() // otherwise the first value would be of an earlier moment
	percent := debug.SetGCPercent(10)
	ctx, cancel := context.WithCancel(b.Context())
	live, most := []metrics.Sample{{Name: heapLive}}, uint64(0)
	var watch sync.WaitGroup
	watch.Go(func() {
		for ticks := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-ticks.C {
			metrics.Read(live)
			most = max(most, live[0].Value.Uint64())
		}
	})
	return func() float64 {
		cancel()
		watch.Wait()
		debug.SetGCPercent(percent)
		return max(0, float64(max(most, liveHeap()))-float64(before))
	}
}

// loopTime returns the CPU time of the event loop.
func (c *crowd) loopTime() (used time.Duration) {
	c.inspectOnly(func(*Loop) { used = threadTime() })
	return used
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
