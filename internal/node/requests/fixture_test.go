package requests_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const (
	podPath     = "kubepods-podu.slice"
	diskTimeout = 500 * time.Millisecond
)

// world is a queue with the state that it reads.
type world struct {
	*requests.Queue
	t         *testing.T
	inventory *inventory.Inventory
	cache     *kernelstate.Cache
	journal   *undo.Journal
	log       bytes.Buffer
	now       time.Time
	states    map[cgroup.Path]cgroup.State // in the kernel
	canceled  chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, inventory: inventory.New(cgroup.DriverSystemd), journal: undo.Document{}.Journal(),
		now: time.Unix(1000, 0), states: make(map[cgroup.Path]cgroup.State), canceled: make(chan struct{}),
	}
	w.inventory.UseClock(func() time.Time { return w.now })
	w.cache = kernelstate.New(w, slog.New(slog.DiscardHandler))
	w.Queue = requests.New(w.inventory, w.cache, w.journal, diskTimeout, func() time.Time { return w.now }, slog.New(slog.NewTextHandler(&w.log, nil)))
	return w
}

// Read is the kernel's part of the cache.
func (w *world) Read(p cgroup.Path) (cgroup.State, error) { return w.states[p], nil }

func (*world) Check(before cgroup.State) (cgroup.State, error) { return before, nil }

func (*world) Gather(cgroup.Path) (cgroup.Gathered, error) { return cgroup.Gathered{}, nil }

func (*world) Rest() {}

// container is a container of pod u. requested are the CPUs that another plugin has given it.
func container(id, requested string) cri.Container {
	return cri.Container{
		ID: id, PodID: "p", Name: id, State: cri.Created, CgroupsPath: podPath + ":cri-containerd:" + id,
		Requested: cri.Resources{Shares: 2048, CPUs: requested},
	}
}

// create adds a request for a container.
func (w *world) create(id, requested string) *requests.Create {
	a := requests.NewCreate(cri.Pod{ID: "p", UID: "u", CgroupParent: podPath}, container(id, requested), w.now, w.canceled)
	w.AddCreate(a, false)
	return a
}

// runs adds a container that the runtime has made, with its CPUs in the kernel and recorded.
func (w *world) runs(id, cpus string) cgroup.Path {
	w.t.Helper()
	set, err := cpuset.Parse(cpus)
	if err != nil {
		w.t.Fatal(err)
	}
	c := container(id, "")
	c.State, c.Recorded.CPUs = cri.Running, cpus
	w.inventory.PutContainer(lookup.ContainerStatus{Container: c})
	e := w.inventory.Objects().Container(id)
	w.states[e.Path] = cgroup.State{Path: e.Path, CPUs: set, Effective: set, HasCPUSet: true, Populated: true}
	w.cache.SetRecord(e.Path, e.Record())
	if gone, errs := w.cache.Read([]cgroup.Target{{Path: e.Path, Container: id, CPUs: set}}, w.inventory.Objects()); len(gone)+len(errs) > 0 {
		w.t.Fatal(gone, errs)
	}
	return e.Path
}

// save puts the journal on disk.
func (w *world) save() { w.journal.EndSave(w.journal.Newest(), nil, w.now) }

// change makes a change of the journal.
func (w *world) change() {
	w.journal.Originals.NoteAsync(undo.Original{Path: "new", File: cgroup.FileCPUs, Value: w.now.String()})
	w.now = w.now.Add(time.Millisecond)
}

// checkTimes checks the number of decided requests of a kind, and the sum of their times in seconds.
func (w *world) checkTimes(kind string, count uint64, sum float64) {
	w.t.Helper()
	if h := w.ReplyTimes()[kind]; h.Count != count || h.Sum != sum {
		w.t.Errorf("%s: %d times, sum %v s; want %d, %v s", kind, h.Count, h.Sum, count, sum)
	}
}

// next returns the time until the next deadline of the queue, 0 without one.
func (w *world) next() time.Duration {
	var next time.Time
	w.Next(func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	})
	if next.IsZero() {
		return 0
	}
	return next.Sub(w.now)
}

// replied reports whether there is a reply, and returns it.
func replied[R any](replies <-chan waits.Reply[R]) (r waits.Reply[R], ok bool) {
	select {
	case r = <-replies:
		return r, true
	default:
		return r, false
	}
}
