package memrelease_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/memrelease"
)

// TestTimes checks that memory is released after the first full scan that is not at the start, and
// after each second one from then on.
func TestTimes(t *testing.T) {
	start := time.Now()
	usage := memrelease.Usage{Unused: memrelease.MinUnused, Heap: memrelease.MinHeap}
	r := memrelease.With(func() {}, func() memrelease.Usage { return usage })
	if r.NoteScan(); r.Due(start) != nil {
		t.Error("memory is released before the first listing")
	}
	r.Start(start)
	for i, pass := range []struct {
		at         time.Duration
		scans, due bool
	}{
		{0, true, false},
		{19900 * time.Millisecond, true, false},
		{25 * time.Second, false, false},
		{30 * time.Second, true, true},
		{60 * time.Second, true, false},
		{79900 * time.Millisecond, true, false},
		{82 * time.Second, false, false},
		{89 * time.Second, true, true}, // the previous scan was late
		{120 * time.Second, true, false},
		{10 * time.Minute, true, true},
	} {
		if pass.scans {
			r.NoteScan()
		}
		if got := r.Due(start.Add(pass.at)) != nil; got != pass.due {
			t.Errorf("pass %d, after %v: %t, want %t", i, pass.at, got, pass.due)
		}
	}
	for _, usage = range []memrelease.Usage{
		{Unused: memrelease.MinUnused - 1, Heap: memrelease.MinHeap},
		{Unused: memrelease.MinUnused, Heap: memrelease.MinHeap - 1},
	} {
		if r.NoteScan(); r.Due(start.Add(time.Hour)) != nil {
			t.Errorf("memory is released with %+v", usage)
		}
	}
}

// TestRead checks that the estimate includes garbage, and that a release ends it.
func TestRead(t *testing.T) {
	const size = 64 << 20                            // other tests leave less within a moment
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would count the garbage as live
	release := memrelease.New()
	release.Start(time.Now().Add(-time.Hour))
	garbage := make([]byte, size)
	runtime.KeepAlive(garbage)
	if u := memrelease.Read(); u.Unused < size-size/8 || u.Heap < u.Unused {
		t.Errorf("usage = %+v with %d bytes of garbage", u, size)
	}
	release.NoteScan()
	free := release.Due(time.Now())
	if free == nil {
		t.Fatal("no release is due")
	}
	free()
	if u := memrelease.Read(); u.Unused > size/2 || u.Heap > size {
		t.Errorf("usage = %+v after a release; want less than %d unused", u, size/2)
	}
}
