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
	// churners have containers come and go at the same time: what happens meanwhile shares
	// passes, as on a node that is busy.
	churners = 32
	// owning are those of the churners whose containers have a CPU of their own: fewer than
	// there are CPUs for it, so that nobody has to be refused.
	owning = 3
	// beat is after how many containers the runtime is listed: on a node that starts two a
	// second it is so with the default period. What is remembered of those that are gone
	// goes then, and what the node remembers for tests goes with it.
	beat = 64
	// heapSlack is by how much the heap may differ, whatever the number of containers.
	heapSlack = 1 << 20
	// long is from which number of containers on a daemon is old (aged).
	long = 100_000
)

// churning is a node on which containers come and go.
type churning struct {
	*running
	refused atomic.Int64 // answers, see begun
}

// held is what the process has, its fake runtime and cgroups with it.
type held struct {
	heap                       uint64 // bytes that are reachable
	goroutines, files, watches int
}

// tenth is what a tenth of the containers has cost.
type tenth struct {
	held
	p50, p99 time.Duration // from the question about a container to the answer, with those who ask before
	allocs   uint64        // for each container, by everybody
	pass     float64       // allocations of a whole pass with nothing to do
}

// TestChurn starts and stops containers of all pools on a node with some that stay. After
// each tenth the invariants hold, and memory, goroutines, descriptors and watches, and what
// a pass costs, are those after the first.
func TestChurn(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a million takes less time; what is left is looked at after collections
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

// grown fails the test where more is held, or a pass costs more, than after the first tenth.
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

// aged compares what a container costs with what it costs a daemon that has just begun: in
// turns, so that a machine that has other work at the moment has it for both. Between one
// tenth and another that would not be so: how long answers take, and how many events share
// a pass, and with it what is allocated, is the machine's doing.
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

// sample is what some containers have cost.
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
	n.Dir = fastDir(t)
	for i := range 8 {
		n.RunContainer(n.RunPod(fmt.Sprintf("stays-%d", i), "default", "burstable", 0, nil), "app", cri.Resources{Shares: 102})
	}
	r := n.start()
	r.connected()
	r.quiet()
	return &churning{running: r}
}

// filled fills the history with events that take the same room each time: else it would
// grow for some thousand containers, and shrink by a megabyte whenever it is moved together.
type filled struct{}

func (filled) scope(*Loop) scope { return scopeAll }

func (filled) apply(l *Loop) {
	for range 3 * history.MaxEvents {
		l.historyLog.Add(history.Event{Kind: history.Started})
	}
}

// tenth has containers come and go, and looks at what is left when nothing is under way.
func (r *churning) tenth(i, containers int, first *held) tenth {
	r.T.Helper()
	var cost sample
	cost.add(r, fmt.Sprint(i), containers)
	r.loop.box.Post(resync{})
	r.loop.box.Post(filled{})
	r.quiet()
	r.CheckClaims()
	r.forget()
	slices.Sort(cost.took)
	return tenth{held: r.held(first), p50: at(cost.took, 50), p99: at(cost.took, 99), allocs: cost.allocs / uint64(containers), pass: r.passAllocs()}
}

// churn has so many containers come and go, each in a pod of its own, and returns how long
// each was being made.
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
					r.loop.box.Post(resync{})
					r.forget()
				}
			}
		})
	}
	all.Wait()
	return slices.Concat(took...)
}

// comeAndGo is the life of a pod with a container of the churner's kind.
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

// begun makes and starts a container, and returns how long it was being made. A daemon that
// is kept from a CPU cannot answer in time, or has not got others out of the way, and refuses:
// then the kubelet tries again.
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

// held looks when no worker has anything to do. If there are more goroutines and
// descriptors than at first then, those of the last calls may be about to end.
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
	runtime.GC() // what finalizers have left
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

// passAllocs are the allocations of a whole pass with nothing to do. Nothing else is under
// way, mostly.
func (r *churning) passAllocs() float64 {
	answer := make(weighing, 1)
	r.loop.box.Post(answer)
	return <-answer
}

type weighing chan float64

func (weighing) scope(*Loop) scope { return scopeAll }

func (w weighing) apply(l *Loop) {
	w <- testing.AllocsPerRun(20, func() {
		l.pass()
		l.watchAll()
		l.publish()
	})
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// at is a percentile of sorted times.
func at(sorted []time.Duration, percent int) time.Duration { return sorted[len(sorted)*percent/100] }

// medians are those of what has its part of chance.
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
