package review

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestGarbageIsBounded checks that the garbage of large reviews does not add up if Go's collector
// gets no CPU time. Here it is off.
func TestGarbageIsBounded(t *testing.T) {
	const reviews, most = 20, 128 << 20 // bytes; one review takes 53 MiB
	pod := `{"metadata":{"annotations":{"target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}"}},"spec":{"containers":[` +
		strings.Repeat(`{},`, 19_000) + `{}]}}`
	request := encodeReview(t, creation(pod))
	r := newReviews(OfPods, mutatePods(managed(), nil, newTally()), newTally(), discard())
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	debug.FreeOSMemory()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := heap()
	for range reviews {
		if _, err := r.answer(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if got := heap() - before; got > most {
		t.Errorf("%d reviews took %d MiB; want %d at most", reviews, got>>20, most>>20)
	} else {
		t.Logf("%d MiB", got>>20)
	}
}
