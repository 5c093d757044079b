package daemon

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

var churned = flag.Int("churn", 400, "containers that TestChurn starts and stops; `make churn` takes a million")

// held is what the process has, its fake runtime and cgroups with it.
type held struct {
	heap                       uint64 // bytes that are reachable
	goroutines, files, watches int
	p99                        time.Duration // from the question about a container to the answer
}

// TestChurn starts and stops containers of all pools on a node with some that stay. Memory,
// goroutines, descriptors and watches at the end are those after the first tenth, and the
// invariants hold after each tenth. How long answers take is only told.
func TestChurn(t *testing.T) {
	n := newNRINode(t)
	for i := range 8 {
		n.container(n.pod(fmt.Sprintf("stays-%d", i), "default", "burstable", 0, nil), "app", cri.Resources{Shares: 102})
	}
	r := n.start()
	r.connected()
	r.quiet()
	var looks []held
	for tenth := range 10 {
		took := n.churn(tenth, *churned/10)
		r.loop.box.post(resync{}) // when what is remembered of those that are gone goes
		r.quiet()
		n.check()
		n.logs.reset() // which are the test's own
		n.tree.Forget()
		looks = append(looks, n.held(took))
		t.Logf("%d: %+v", (tenth+1)*(*churned/10), looks[tenth])
	}
	first, last := looks[0], looks[len(looks)-1]
	// Of the daemon's, histories grow until they are full. The fake runtime and its systemd keep something of each container.
	if slack := 4<<20 + uint64(*churned)<<10; last.heap > first.heap+slack {
		t.Errorf("%d bytes after the first tenth, %d at the end", first.heap, last.heap)
	}
	if last.goroutines > first.goroutines+8 || last.files > first.files+8 || last.watches != first.watches {
		t.Errorf("after the first tenth %+v, at the end %+v", first, last)
	}
}

// churn has so many containers come and go, four at a time, and returns how long each was
// being made.
func (n *node) churn(round, containers int) []time.Duration {
	n.t.Helper()
	const workers = 4
	kinds := []struct {
		qos         string
		cpus        int
		res         cri.Resources
		namespace   string
		annotations map[string]string
	}{
		{"burstable", 0, cri.Resources{Shares: 512}, "default", nil},
		{"guaranteed", 1, whole(1), "default", nil},
		{"burstable", 0, cri.Resources{Shares: 102}, "kube-system", management(map[string]int{"app": 512})},
		{"besteffort", 0, cri.Resources{Shares: 2}, "default", nil},
	}
	took := make([][]time.Duration, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			k := kinds[w]
			for i := range containers / workers {
				pod := n.pod(fmt.Sprintf("churn-%d-%d-%d", round, w, i), k.namespace, k.qos, k.cpus, k.annotations)
				began := time.Now()
				id, err := n.runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: k.res})
				took[w] = append(took[w], time.Since(began))
				for _, do := range []func() error{
					func() error { return n.runtime.StartContainer(id) }, func() error { return n.runtime.StopContainer(id) },
					func() error { return n.runtime.RemoveContainer(id) }, func() error { return n.runtime.StopPod(pod) }, func() error { return n.runtime.RemovePod(pod) },
				} {
					if err == nil {
						err = do()
					}
				}
				if err != nil {
					n.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return slices.Concat(took...)
}

func (n *node) held(took []time.Duration) held {
	n.t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers have left
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		n.t.Fatal(err)
	}
	slices.Sort(took)
	return held{m.HeapAlloc, runtime.NumGoroutine(), len(files), n.tree.Watches(), took[len(took)*99/100]}
}
