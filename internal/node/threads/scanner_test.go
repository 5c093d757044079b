package threads_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/threads"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// world holds fake containers. A turn of each takes turnTime.
type world struct {
	turns map[cgroup.Path]int // of a scan
	found map[cgroup.Path]cgroup.Gathered

	began  map[cgroup.Path][]time.Duration // since start
	start  time.Time
	open   int // scans
	most   int
	busy   time.Duration
	posted []threads.Found
	at     []time.Duration // of posted
}

const turnTime = 10 * time.Millisecond

func newWorld() *world {
	return &world{turns: make(map[cgroup.Path]int), found: make(map[cgroup.Path]cgroup.Gathered), began: make(map[cgroup.Path][]time.Duration), start: time.Now()}
}

func (w *world) scan(p cgroup.Path) threads.Scan {
	w.began[p] = append(w.began[p], time.Since(w.start))
	w.open++
	w.most = max(w.most, w.open)
	return &scan{w, p, w.turns[p]}
}

func (w *world) post(f threads.Found) {
	w.posted, w.at = append(w.posted, f), append(w.at, time.Since(w.start))
}

type scan struct {
	w    *world
	path cgroup.Path
	left int
}

func (s *scan) Next(ctx context.Context, n int) bool {
	if n < 1 {
		panic("a turn without work")
	}
	time.Sleep(turnTime) //nolint:forbidigo // fake time
	s.w.busy += turnTime
	s.left--
	return s.left <= 0 && ctx.Err() == nil
}

func (s *scan) Found() cgroup.Gathered { return s.w.found[s.path] }

func (s *scan) Close() { s.w.open-- }

// run runs a scanner for a time of the fake clock, and calls f before.
func (w *world) run(t *testing.T, d time.Duration, f func(s *threads.Scanner)) {
	t.Helper()
	s := threads.New()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx, w.scan, w.post); close(ended) }()
	f(s)
	time.Sleep(d) //nolint:forbidigo // fake time
	cancel()
	<-ended
	if w.open != 0 {
		t.Errorf("%d scans are open at the end; want 0", w.open)
	}
}

// paths returns the cgroups of the results in order.
func (w *world) paths() string {
	var all []string
	for _, f := range w.posted {
		all = append(all, string(f.Path))
	}
	return strings.Join(all, " ")
}

// TestNoContainerDelaysAnother checks that a container without end delays the scans of others by its turns only, and that the
// scanner uses a fifth of a CPU.
func TestNoContainerDelaysAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.turns["huge"], w.turns["a"], w.turns["b"] = 1<<30, 2, 1
		w.run(t, time.Minute, func(s *threads.Scanner) {
			s.Submit("huge")
			s.Submit("a")
			s.Submit("b")
		})
		if w.paths() != "b a" || w.at[1] > 10*5*turnTime {
			t.Errorf("results of %q after %v", w.paths(), w.at)
		}
		if share := float64(w.busy) / float64(time.Minute); share < 0.19 || share > 0.21 {
			t.Errorf("the scanner uses %.3f of a CPU; want 0.2", share)
		}
	})
}

// TestScansOfOneContainerPause checks the pause between two scans of a container, and that a request during a scan, and
// requests in the pause, are followed by one scan.
func TestScansOfOneContainerPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.turns["a"] = 4
		w.run(t, 10*time.Second, func(s *threads.Scanner) {
			s.Submit("a")
			time.Sleep(turnTime + time.Millisecond) //nolint:forbidigo // fake time
			s.Submit("a")
			time.Sleep(300 * time.Millisecond) //nolint:forbidigo // fake time
			s.Submit("a")
			s.Submit("a")
		})
		// Four turns and three pauses of 40 ms take 160 ms, of which the scan takes 40 ms.
		if want := []time.Duration{0, 560 * time.Millisecond}; !slices.Equal(w.began["a"], want) {
			t.Errorf("scans begin at %v; want %v", w.began["a"], want)
		}
	})
}

// TestScansRepeat checks that a scan which has moved threads is followed by others, and that the container is reported when
// threads appear outside of their CPUs again and again.
func TestScansRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.turns["a"], w.found["a"] = 1, cgroup.Gathered{Back: 1}
		w.run(t, 20*110*time.Millisecond, func(s *threads.Scanner) { s.Submit("a") })
		if len(w.posted) < 18 {
			t.Fatalf("%d results; want one in 110 ms", len(w.posted))
		}
		for i, f := range w.posted {
			if reported := f.Unread == 1 && f.UnreadErr != nil; reported != (i >= 15) || f.Back != 1 {
				t.Errorf("result %d: %+v", i, f)
			}
		}
		w = newWorld()
		w.turns["a"], w.found["a"] = 1, cgroup.Gathered{Unread: 1, UnreadErr: errors.New("no")}
		w.run(t, time.Minute, func(s *threads.Scanner) { s.Submit("a") })
		if w.paths() != "a" {
			t.Errorf("results of %q; want one", w.paths())
		}
	})
}

// TestOpenScansAreBounded checks that a limited number of scans has begun at once, and that all end.
func TestOpenScansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 30 {
			w.turns[cgroup.Path(fmt.Sprint(i))] = 3 + i%4
		}
		w.run(t, time.Minute, func(s *threads.Scanner) {
			for p := range w.turns {
				s.Submit(p)
			}
		})
		if w.most != 8 || len(w.posted) != 30 {
			t.Errorf("%d scans at once, %d results; want 8 and 30", w.most, len(w.posted))
		}
	})
}

// TestSubmitLater checks that an idle scanner starts a scan at once.
func TestSubmitLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t, time.Second, func(s *threads.Scanner) {
			time.Sleep(3 * time.Hour) //nolint:forbidigo // fake time
			s.Submit("a")
		})
		if want := []time.Duration{3 * time.Hour}; !slices.Equal(w.began["a"], want) {
			t.Errorf("scans begin at %v; want %v", w.began["a"], want)
		}
	})
}
