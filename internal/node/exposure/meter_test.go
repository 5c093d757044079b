package exposure_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/exposure"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const (
	path = cgroup.Path("kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope")
	took = 7 * time.Second
	used = 2 * time.Second // CPU time of the cgroup
)

var (
	shared  = cpuset.Range(2, 3)
	began   = time.Unix(1000, 0)
	targets = []cgroup.Target{{Container: "1", Path: path, CPUs: shared}}
)

// kernel is a fake kernel with one cgroup.
type kernel struct{ state cgroup.State }

func (k *kernel) Read(cgroup.Path) (cgroup.State, error)      { return k.state, nil }
func (k *kernel) Check(st cgroup.State) (cgroup.State, error) { return st, nil }
func (k *kernel) Gather(cgroup.Path) (cgroup.Gathered, error) { return cgroup.Gathered{}, nil }
func (k *kernel) Usage(cgroup.Path) (time.Duration, error)    { return used, nil }
func (k *kernel) Rest()                                       {}

// node is a Meter with all that it reads.
type node struct {
	*exposure.Meter
	inventory      *inventory.Inventory
	cache          *kernelstate.Cache
	kernel         *kernel
	asked, awaited map[cgroup.Path]bool
}

func newNode(systemd bool) *node {
	n := &node{inventory: inventory.New(cgroup.DriverSystemd), kernel: new(kernel), asked: make(map[cgroup.Path]bool), awaited: make(map[cgroup.Path]bool)}
	n.cache = kernelstate.New(n.kernel, slog.New(slog.DiscardHandler))
	n.Meter = exposure.New(n.inventory.Objects(), n.cache, n.kernel.Usage, systemd)
	n.inventory.BeginWatch(began)
	return n
}

// run reports the container, which the runtime has created at began.
func (n *node) run(state cri.State) {
	n.inventory.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "1", State: state, CreatedAt: began, CgroupsPath: "kubepods-pod1.slice:cri-containerd:1"}})
}

// read reads the cgroup again, with other CPUs.
func (n *node) read(own, effective cpuset.Set) {
	n.kernel.state = cgroup.State{Path: path, CPUs: own, Effective: effective, Populated: true}
	n.cache.Invalidate(path)
	n.cache.Refresh(targets, n.inventory.Objects())
}

// answer is an answer of systemd about the unit of the cgroup.
func answer(u cgroup.UnitState) func(*node) {
	return func(n *node) {
		n.asked[path] = true
		n.cache.SetUnit(path, u)
	}
}

// TestStarts checks the exposure of a container that the runtime may have created inside its
// pool. If systemd has its CPUs, it began inside, although its cgroup is older than them.
// Otherwise it may have been outside all the time.
func TestStarts(t *testing.T) {
	had := cgroup.UnitState{Known: true, CPUs: shared}
	for _, c := range []struct {
		name      string
		state     cri.State
		own       cpuset.Set // cpuset.cpus at first
		noSystemd bool
		then      func(*node)
		count     uint64
		sum       time.Duration
	}{
		{name: "systemd was not asked", state: cri.Created, then: func(*node) {}},
		{name: "systemd has not answered", state: cri.Created, then: func(n *node) { n.asked[path], n.awaited[path] = true, true }},
		{name: "no systemd", state: cri.Created, noSystemd: true, then: func(*node) {}, count: 1, sum: took},
		{name: "made with its CPUs", state: cri.Created, then: answer(had), count: 1},
		{name: "made with others", state: cri.Created, then: answer(cgroup.UnitState{Known: true, CPUs: cpuset.Range(1, 3)}), count: 1, sum: took},
		{name: "made without", state: cri.Created, then: answer(cgroup.UnitState{Known: true}), count: 1, sum: took},
		{name: "systemd does not know it", state: cri.Created, then: answer(cgroup.UnitState{}), count: 1, sum: took},
		{name: "gone", state: cri.Created, then: func(n *node) { n.Gone(path) }, count: 1, sum: took},
		{name: "gone without a notice", state: cri.Created, then: func(n *node) { n.Forget(func(cgroup.Path) bool { return true }) }, count: 1, sum: took},
		{name: "persisted by the daemon since", state: cri.Created, then: func(n *node) { n.NotePersisted(path); answer(had)(n) }, count: 1, sum: took},
		{name: "first seen when it ran", state: cri.Running, then: answer(had), count: 1, sum: took},
		{name: "first seen with other CPUs", state: cri.Created, own: cpuset.Range(1, 3), then: answer(had), count: 1, sum: took},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(!c.noSystemd)
			n.run(c.state)
			n.inventory.Objects().Container("1").Exposure().FoundBy(telemetry.WaySpec)
			n.read(c.own, cpuset.Range(0, 7))
			n.NoteFirstReads(targets)
			n.ObserveStarts(targets, began.Add(time.Second)) // it is not in its pool
			n.read(shared, shared)
			n.ObserveStarts(targets, began.Add(took))
			c.then(n)
			n.ObserveStarts(targets, began.Add(time.Hour))
			n.FinishStarts(func(p cgroup.Path) bool { return n.asked[p] && !n.awaited[p] })
			got, cpu := n.Placements()[telemetry.WaySpec], min(c.sum, used)
			if got.Elapsed.Count != c.count || got.Elapsed.Sum != c.sum.Seconds() || got.Used.Sum != cpu.Seconds() {
				t.Errorf("%d placements in %v s, with %v s of CPU time; want %d in %v with %v",
					got.Elapsed.Count, got.Elapsed.Sum, got.Used.Sum, c.count, c.sum, cpu)
			}
		})
	}
}

// TestUnidentified checks that the exposure of a container which the runtime reports late ends
// when its cgroup is in the shared pool.
func TestUnidentified(t *testing.T) {
	n := newNode(true)
	n.Appeared(path, began)
	n.read(cpuset.Set{}, cpuset.Range(0, 7))
	n.NoteUnidentified(path, shared, began.Add(time.Second)) // it is not in the pool
	n.read(shared, shared)
	n.NoteUnidentified(path, shared, began.Add(took))
	n.NoteUnidentified(path, shared, began.Add(time.Hour))
	n.run(cri.Running)
	n.NoteFirstReads(targets)
	n.NoteFirstReads(targets)
	got := n.Placements()[telemetry.WayInotify]
	if got.Elapsed.Count != 1 || got.Elapsed.Sum != took.Seconds() || got.Used.Sum != used.Seconds() {
		t.Errorf("%d placements in %v s, with %v s of CPU time; want one in %v with %v", got.Elapsed.Count, got.Elapsed.Sum, got.Used.Sum, took, used)
	}
}
