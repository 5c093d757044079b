package daemon

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

var churned = flag.Int("churn", 400, "containers that TestChurn starts and stops; `make churn` takes a million")

const (
	// churners is the number of goroutines that start and stop containers. Their events share
	// passes, as on a busy node.
	churners = 32
	// owning is the number of churners whose containers have an exclusive CPU. There are more
	// CPUs than that, so that none is refused.
	owning = 3
	// beat is the number of containers after which the runtime is listed. With the default
	// period that is so on a node that starts two containers per second. The daemon then
	// forgets removed containers, and the fake node forgets its records.
	beat = 64
	// heapSlack is the maximum difference of the heap, whatever the number of containers.
	heapSlack = 1 << 20
	// long is the number of containers from which on a daemon counts as aged.
	long = 100_000
)

// churning is a node on which containers start and stop.
type churning struct {
	*running
	refused atomic.Int64 // replies, see begun
}

// held is the memory and the resources of the process, including its fake runtime and cgroups.
type held struct {
	heap                       uint64 // reachable bytes
	goroutines, files, watches int
}

// tenth is the cost of a tenth of the containers.
type tenth struct {
	held
	p50, p99 time.Duration // from the request for a container to the reply, waiting included
	allocs   uint64        // of the process, per container
	pass     float64       // allocations of a full pass without changes
}

// TestChurn starts and stops containers of all pools on a node with some that stay. After each
// tenth the invariants hold. Memory, goroutines, descriptors, watches and the cost of a pass
// are as after the first tenth.
func TestChurn(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a million containers take less time; memory is measured after collections
	n := newChurnNode(t)
	var looks []tenth
	var first *held
	for i := range 10 {
		look := n.tenth(i, *churned/10, first)
		looks = append(looks, look)
		first = &looks[0].held
		n.grown(&looks[0], &look)
		t.Logf("%d: heap %d, goroutines %d, descriptors %d, watches %d; p50 %v, p99 %v; allocations %d a container, %v a pass; %d refused so far",
			(i+1)*(*churned/10), look.heap, look.goroutines, look.files, look.watches, look.p50, look.p99, look.allocs, look.pass, n.refused.Load())
	}
	early, late := medians(looks[:3]), medians(looks[7:])
	t.Logf("last three tenths to first three: p50 %.2f, p99 %.2f, allocations %.3f",
		ratio(late.p50, early.p50), ratio(late.p99, early.p99), ratio(late.allocs, early.allocs))
	if refused := n.refused.Load(); refused > int64(8+*churned/100) {
		t.Errorf("%d containers were refused", refused)
	}
	if *churned >= long {
		n.aged(t)
	}
}

// grown fails the test if more is held, or a pass costs more, than after the first tenth.
func (r *churning) grown(first, now *tenth) {
	r.T.Helper()
	if now.heap > first.heap+heapSlack {
		r.T.Errorf("%d bytes after the first tenth, %d now", first.heap, now.heap)
	}
	if now.pass > first.pass*1.1 {
		r.T.Errorf("%v allocations in a pass after the first tenth, %v now", first.pass, now.pass)
	}
	if now.watches != first.watches {
		r.T.Errorf("%d watches after the first tenth, %d now", first.watches, now.watches)
	}
}

// aged compares the cost of a container with its cost for a daemon that has just started, in
// turns, so that other load on the machine affects both. Two tenths cannot be compared like
// that: the time of replies, the number of events per pass, and with it the allocations, depend
// on the machine.
func (r *churning) aged(t *testing.T) {
	t.Helper()
	const turns, containers = 32, 256
	fresh := newChurnNode(t)
	fresh.churn("warm", containers)
	var old, young sample
	for turn := range turns {
		old.add(r, fmt.Sprintf("old-%d", turn), containers)
		young.add(fresh, fmt.Sprintf("young-%d", turn), containers)
	}
	slices.Sort(old.took)
	slices.Sort(young.took)
	p50, p99 := ratio(at(old.took, 50), at(young.took, 50)), ratio(at(old.took, 99), at(young.took, 99))
	allocs := ratio(old.allocs, young.allocs)
	t.Logf("old daemon: p50 %v, p99 %v; new one: p50 %v, p99 %v; %.2f and %.2f times as long, %.3f times the allocations",
		at(old.took, 50), at(old.took, 99), at(young.took, 50), at(young.took, 99), p50, p99, allocs)
	if p50 > 1.5 || p99 > 2 || allocs > 1.1 {
		t.Errorf("the old daemon takes %.2f (p50) and %.2f (p99) times as long as a new one, and %.3f times the allocations", p50, p99, allocs)
	}
}

// sample is the cost of some containers.
type sample struct {
	took   []time.Duration
	allocs uint64
}

func (s *sample) add(r *churning, name string, containers int) {
	before := mallocs()
	s.took = append(s.took, r.churn(name, containers)...)
	s.allocs += mallocs() - before
}

// newChurnNode runs a daemon on a node with some containers that stay.
func newChurnNode(t *testing.T) *churning {
	t.Helper()
	n := newNRINode(t)
	for i := range 8 {
		n.RunContainer(n.RunPod(fmt.Sprintf("stays-%d", i), "default", "burstable", 0, nil), "app", cri.Resources{Shares: 102})
	}
	r := n.start()
	r.connected()
	r.quiet()
	return &churning{running: r}
}

// fillHistory fills the history with events of the same size. Otherwise the history grows
// for some thousand containers, and the heap differs by a megabyte.
func (r *churning) fillHistory() {
	r.loop.box.Post(errand(func(l *Loop) {
		for range 3 * history.MaxEvents {
			l.publisher.History().Add(history.Event{Kind: history.Started})
		}
	}))
}

// tenth starts and stops containers, and measures what is held when no job runs.
func (r *churning) tenth(i, containers int, first *held) tenth {
	r.T.Helper()
	var cost sample
	cost.add(r, fmt.Sprint(i), containers)
	r.skip(time.Minute) // the inventory keeps the IDs of removed containers for half a minute
	r.resync()
	r.fillHistory()
	r.quiet()
	r.CheckOccupants()
	r.forget()
	slices.Sort(cost.took)
	return tenth{held: r.held(first), p50: at(cost.took, 50), p99: at(cost.took, 99), allocs: cost.allocs / uint64(containers), pass: r.passAllocs()}
}

// churn starts and stops containers, each in its own pod, and returns the time that each
// creation took.
func (r *churning) churn(round string, containers int) []time.Duration {
	r.T.Helper()
	took := make([][]time.Duration, churners)
	var all sync.WaitGroup
	var made atomic.Int64
	for w := range churners {
		all.Go(func() {
			for i := w; i < containers; i += churners {
				t, err := r.comeAndGo(w, fmt.Sprintf("churn-%s-%d", round, i))
				if err != nil {
					r.T.Error(err)
					return
				}
				took[w] = append(took[w], t)
				if made.Add(1)%beat == 0 {
					r.resync()
					r.forget()
				}
			}
		})
	}
	all.Wait()
	return slices.Concat(took...)
}

// comeAndGo runs and removes a pod with a container of the churner's kind.
func (r *churning) comeAndGo(churner int, name string) (time.Duration, error) {
	spec := testnode.PodSpec{UID: name, Name: name, Namespace: "default", QoS: "burstable"}
	res := cri.Resources{Shares: 512}
	switch {
	case churner < owning:
		spec.QoS, spec.Resources, res = "guaranteed", nodefixture.WholeCPUs(1), nodefixture.WholeCPUs(1)
	case churner%3 == 0:
		spec.Namespace, spec.Annotations = "kube-system", nodefixture.Management(map[string]int{"app": 512})
	case churner%3 == 1:
		spec.QoS, res.Shares = "besteffort", 2
	}
	pod, err := r.Runtime.RunPod(spec)
	if err != nil {
		return 0, err
	}
	id, took, err := r.begun(pod, res)
	for _, do := range []func() error{
		func() error { return r.Runtime.StopContainer(id) }, func() error { return r.Runtime.RemoveContainer(id) },
		func() error { return r.Runtime.StopPod(pod) }, func() error { return r.Runtime.RemovePod(pod) },
	} {
		if err == nil {
			err = do()
		}
	}
	return took, err
}

// begun creates and starts a container and returns the time that its creation took. A daemon
// without CPU time may reply too late, or before other containers have left the CPUs, and
// refuses: then begun tries again, as the kubelet does.
func (r *churning) begun(pod string, res cri.Resources) (id string, took time.Duration, err error) {
	began := time.Now()
	for attempt := uint32(0); ; attempt++ {
		id, err = r.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Attempt: attempt, Resources: res})
		took = time.Since(began)
		if err == nil {
			err = r.Runtime.StartContainer(id)
		}
		if err == nil || !strings.Contains(err.Error(), ": NRI: ") || took > nodefixture.Timeout {
			return id, took, err
		}
		r.refused.Add(1)
	}
}

// held measures the process when no worker has a job. Goroutines and descriptors of the last
// calls may still be about to end.
func (r *churning) held(first *held) held {
	r.T.Helper()
	r.Eventually("no worker at work", func() bool { return r.jobs.idle() })
	if first != nil {
		r.Eventually(fmt.Sprintf("%d goroutines and %d descriptors, as after the first tenth", first.goroutines, first.files), func() bool {
			return runtime.NumGoroutine() <= first.goroutines && r.descriptors() <= first.files
		})
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // also the memory that finalizers release
	runtime.ReadMemStats(&m)
	return held{m.HeapAlloc, runtime.NumGoroutine(), r.descriptors(), r.Tree.Watches()}
}

func (r *churning) descriptors() int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		r.T.Fatal(err)
	}
	return len(files)
}

// passAllocs returns the allocations of a full pass that changes nothing. It runs while the
// daemon is idle, because other goroutines' allocations count too.
func (r *churning) passAllocs() (allocs float64) {
	r.inspect(func(l *Loop) {
		allocs = testing.AllocsPerRun(20, func() {
			l.pass()
			l.notices.Watch(l.last.Targets)
			l.publish()
		})
	})
	return allocs
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// at returns a percentile of sorted durations.
func at(sorted []time.Duration, percent int) time.Duration { return sorted[len(sorted)*percent/100] }

// medians returns the medians of the measurements that vary by chance.
func medians(of []tenth) (m tenth) {
	pick := func(key func(tenth) int64) int64 {
		all := make([]int64, 0, len(of))
		for _, look := range of {
			all = append(all, key(look))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	m.p50 = time.Duration(pick(func(l tenth) int64 { return int64(l.p50) }))
	m.p99 = time.Duration(pick(func(l tenth) int64 { return int64(l.p99) }))
	m.allocs = uint64(pick(func(l tenth) int64 { return int64(l.allocs) }))
	return m
}

func ratio[N time.Duration | uint64](a, b N) float64 { return float64(a) / float64(b) }
