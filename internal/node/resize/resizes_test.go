package resize_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/resize"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// world holds the container "1", which has one CPU.
type world struct {
	*resize.Resizes
	inventory *inventory.Inventory
	now       time.Time
}

func newWorld() *world {
	w := &world{inventory: inventory.New(cgroup.DriverSystemd), now: time.Unix(1000, 0)}
	w.Resizes = resize.New(w.inventory, slog.New(slog.DiscardHandler))
	w.inventory.PutContainer(w.record(1))
	return w
}

// record returns the runtime's description of the container, which records this number of CPUs.
func (w *world) record(cpus int) lookup.ContainerStatus {
	r := nodefixture.WholeCPUs(cpus)
	return lookup.ContainerStatus{Container: cri.Container{ID: "1", State: cri.Running, CgroupsPath: "kubepods-pod1.slice:cri-containerd:1", Requested: r, Recorded: r}}
}

// resize requests these numbers of CPUs, one after the other.
func (w *world) resize(applied bool, cpus ...int) {
	e := w.inventory.Objects().Container("1")
	for _, n := range cpus {
		before := e.Size()
		undo := w.inventory.Resize(e, nodefixture.WholeCPUs(n))
		after := e.Size()
		if !applied {
			undo()
		}
		w.Follow("1", before, after, applied, w.now)
	}
}

// read reads the record some time later. It reports whether the record counts.
func (w *world) read(t *testing.T, later time.Duration, s lookup.ContainerStatus) bool {
	t.Helper()
	w.now = w.now.Add(later)
	due := w.Due(w.now)
	if len(due) != 1 {
		t.Fatalf("%d records to read; want 1", len(due))
	}
	if again := w.Due(w.now); len(again) > 0 {
		t.Errorf("the record is read twice at the same time")
	}
	return w.Seen(due[0], s, w.now)
}

// isOpen reports whether the record is read again.
func (w *world) isOpen() (is bool) {
	w.Next(func(time.Time) { is = true })
	return is
}

func (w *world) cpus() int { return int(w.inventory.Objects().Container("1").Request().Shares / 1024) }

// TestRecordDecides checks that the record of the runtime decides which of several requests is in
// force, as soon as no update can be in progress.
func TestRecordDecides(t *testing.T) {
	for name, c := range map[string]struct {
		applied  bool
		requests []int
		record   int // CPUs
		later    time.Duration
		want     int // CPUs
		open     bool
	}{
		"made":                        {true, []int{2}, 2, time.Second, 2, false},
		"perhaps in progress":         {true, []int{2}, 1, time.Second, 2, true},
		"not made":                    {true, []int{2}, 1, 4 * time.Second, 1, true},
		"not made, and no update can": {true, []int{2}, 1, time.Hour, 1, false},
		"an earlier one":              {true, []int{2, 3, 2, 4}, 3, 4 * time.Second, 3, true},
		"the newest of equal ones":    {true, []int{2, 3, 2}, 2, time.Second, 2, false},
		"an unknown one":              {true, []int{2, 3}, 7, 4 * time.Second, 1, true},
		"repeated without end":        {true, []int{2, 2, 2, 2}, 1, 4 * time.Second, 1, true},
		"cancelled, and made":         {false, []int{2}, 2, time.Second, 2, false},
		"cancelled, and not made":     {false, []int{2}, 1, 4 * time.Second, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.resize(c.applied, c.requests...)
			if !w.read(t, c.later, w.record(c.record)) {
				t.Error("the record does not count")
			}
			if got := w.cpus(); got != c.want {
				t.Errorf("the container has %d CPUs; want %d", got, c.want)
			}
			if got := w.isOpen(); got != c.open {
				t.Errorf("open: %t; want %t", got, c.open)
			}
		})
	}
}

// TestNoRecord checks that a failed reading, a record of an earlier resize, and the end of the
// container change nothing.
func TestNoRecord(t *testing.T) {
	w := newWorld()
	w.resize(true, 2)
	failed := w.record(1)
	failed.Err = errors.New("no answer")
	if w.read(t, 4*time.Second, failed) || w.cpus() != 2 || !w.isOpen() {
		t.Error("a failed reading counts")
	}
	w.now = w.now.Add(time.Minute)
	due := w.Due(w.now)
	w.resize(true, 3)
	if w.Seen(due[0], w.record(2), w.now) || w.cpus() != 3 {
		t.Error("a record from before the last resize counts")
	}
	w.resize(true, 3)
	ended := w.record(3)
	ended.State = cri.Exited
	w.inventory.PutContainer(ended)
	if due := w.Due(w.now.Add(time.Minute)); len(due) > 0 || w.isOpen() {
		t.Error("the record of a container that has ended is read")
	}
}

// TestNext checks the time of the next reading. A resize with equal shares needs none.
func TestNext(t *testing.T) {
	w := newWorld()
	next := func() (at time.Time) {
		w.Next(func(due time.Time) { at = due })
		return at
	}
	w.resize(true, 1)
	if at := next(); !at.IsZero() {
		t.Errorf("a reading at %v without another size", at)
	}
	w.resize(true, 2)
	first := next().Sub(w.now)
	if first <= 0 || first > time.Second {
		t.Errorf("first reading after %v; want at most a second", first)
	}
	w.read(t, first, w.record(1))
	if later := next().Sub(w.now); later < first {
		t.Errorf("second reading after %v; want at least %v", later, first)
	}
}
