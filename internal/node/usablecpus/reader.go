package usablecpus

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// pollInterval is between readings of the root's CPUs, for which the kernel sends no event.
const pollInterval = 10 * time.Second

// Machine holds the usable CPUs of a machine.
type Machine struct {
	Topology *topology.Topology // of the usable CPUs
	Withheld []Withheld
}

// CutOrLog is Cut, and logs its error.
func CutOrLog(t *topology.Topology, cgroups *cgroup.FS, log *slog.Logger) Machine {
	m, err := Cut(t, cgroups)
	if err != nil {
		log.Error("the CPUs of the root cgroup are unknown; all online CPUs count as usable", "error", err)
	}
	return m
}

// Cut returns t without the CPUs that pools cannot use; with an error, all of t.
func Cut(t *topology.Topology, cgroups *cgroup.FS) (Machine, error) {
	root, err := cgroups.RootCPUs(t.Online)
	if err != nil {
		return Machine{Topology: t}, err
	}
	return without(t, Rule(t.Online, root)), nil
}

// without returns the machine t without some CPUs. It keeps all CPUs if none would be left.
func without(t *topology.Topology, withheld []Withheld) Machine {
	if cpus := Of(withheld); cpus.Overlaps(t.Online) && !t.Online.IsSubsetOf(cpus) {
		t = t.Without(cpus)
	}
	return Machine{t, withheld}
}

// Reader reads the usable CPUs, and reports changes.
type Reader struct {
	source  Source
	cgroups *cgroup.FS
	log     *slog.Logger

	mu       sync.Mutex // held from a reading to its report; guards the fields below
	all      *topology.Topology
	withheld []Withheld
	root     cpuset.Set // effective CPUs of the root
	logged   string     // the last error in the log since the last success
}

// NewReader returns a reader and its first machine, which stays the same without a source.
func NewReader(s Source, cgroups *cgroup.FS, t *topology.Topology, log *slog.Logger) (*Reader, Machine) {
	m := CutOrLog(t, cgroups, log)
	return &Reader{source: s, cgroups: cgroups, log: log, all: t, withheld: m.Withheld}, m
}

// Resync is Read in a resync, which finds lost events. It logs an error.
func (r *Reader) Resync(changed func(Machine)) {
	if err := r.Read(changed); err != nil {
		r.log.Error("read CPUs; the next resync tries again", "error", err)
	}
}

// Read calls changed if the machine has changed, in the order of the readings.
func (r *Reader) Read(changed func(Machine)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := r.source.Read(r.all)
	if err != nil {
		return err
	}
	withheld := r.withheld // with an error, a CPU that was withheld stays withheld
	root, err := r.cgroups.RootCPUs(t.Online)
	if err == nil {
		withheld, r.root = Rule(t.Online, root), root.Effective
	}
	if t != r.all || !slices.EqualFunc(withheld, r.withheld, func(a, b Withheld) bool { return a.By == b.By && a.CPUs.Equal(b.CPUs) }) {
		r.all, r.withheld = t, withheld
		changed(without(t, withheld))
	}
	if err == nil {
		r.logged = ""
	}
	return err
}

// LogLost logs an error of Watch once, because Watch is called again without end.
func (r *Reader) LogLost(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := err.Error(); text != r.logged {
		r.logged = text
		r.log.Error("watch CPUs; until that succeeds, only the resync finds CPUs that go offline or come online", "error", err)
	}
}

// Watch reads the machine at each event of a CPU, and when the root's CPUs have changed. It calls
// listens when it begins to listen, and at each event. It returns nil when ctx ends, and errors of
// the source and of Read.
func (r *Reader) Watch(ctx context.Context, listens func(), changed func(Machine)) error {
	watched, stop := context.WithCancelCause(ctx)
	var polls sync.WaitGroup
	polls.Go(func() { stop(r.poll(watched, pollInterval, changed)) })
	err := r.source.Watch(watched, func() error {
		listens()
		return r.Read(changed)
	})
	if err == nil && ctx.Err() == nil {
		err = context.Cause(watched)
	}
	stop(nil)
	polls.Wait()
	return err
}

// poll calls Read when the root has other CPUs than at the last reading.
func (r *Reader) poll(ctx context.Context, interval time.Duration, changed func(Machine)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now, err := r.cgroups.RootEffective()
		if err != nil {
			return err
		}
		r.mu.Lock()
		same := now.Equal(r.root)
		r.mu.Unlock()
		if !same {
			if err := r.Read(changed); err != nil {
				return err
			}
		}
	}
}
