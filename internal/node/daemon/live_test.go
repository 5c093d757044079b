package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/liveaudit"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// liveYAML switches the live audit on; tests append it to a configuration.
const liveYAML = "audit: {interval: off, live: true}\n"

// liveProgram stands for the eBPF program of the live audit. It finds writes that would make the
// program report tasks of the node's own containers.
type liveProgram struct {
	tree   *testnode.Cgroups
	closed chan struct{}
	tasks  chan schedwatch.Task

	mu       sync.Mutex       // guards the fields below
	watched  map[int][]string // cgroups of the owner, by CPU
	ids      map[int]string   // likewise, the ID of the owner
	strict   bool             // no other process writes cpusets
	calls    int              // of Release and Own
	released cpuset.Set
	wrong    []error
}

// watchLive makes the live audit of a daemon use a liveProgram until the daemon stops. The
// configuration must contain liveYAML.
func (r *running) watchLive(strict bool) *liveProgram {
	p := newLiveProgram(r.Tree, strict)
	ctx, cancel := context.WithCancel(context.Background())
	var audit sync.WaitGroup
	loop, stop := r.loop, r.stop
	loop.publisher.CgroupExists = p.exists
	audit.Go(func() { loop.publisher.Live.Run(ctx, func() (liveaudit.Program, error) { return p, nil }) })
	r.stop = sync.OnceFunc(func() { stop(); cancel(); audit.Wait() })
	r.T.Cleanup(r.stop)
	return p
}

func newLiveProgram(tree *testnode.Cgroups, strict bool) *liveProgram {
	return &liveProgram{tree: tree, closed: make(chan struct{}), tasks: make(chan schedwatch.Task), watched: make(map[int][]string), strict: strict}
}

// exists reports whether a cgroup exists.
func (p *liveProgram) exists(at string) bool {
	_, err := p.tree.ReadFile(at+"/cpuset.cpus", 1<<12)
	return err == nil
}

func (p *liveProgram) Release(cpus cpuset.Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.released = p.released.Union(cpus)
	for cpu := range cpus.All() {
		delete(p.watched, cpu)
	}
}

func (p *liveProgram) Own(owners []schedwatch.Owner) (watched cpuset.Set, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	now, ids := make(map[int][]string), make(map[int]string)
	for _, o := range owners {
		for _, dir := range o.Cgroups {
			if _, missing := p.tree.ReadFile(dir+"/cpuset.cpus", 1<<12); missing != nil {
				err = errors.Join(err, missing)
				o.CPUs = cpuset.Set{}
			}
		}
		for cpu := range o.CPUs.All() {
			now[cpu], ids[cpu] = o.Cgroups, o.ID
		}
		watched = watched.Union(o.CPUs)
	}
	p.watched, p.ids = now, ids
	return watched, err
}

func (p *liveProgram) Read() (schedwatch.Reading, error) { return schedwatch.Reading{}, nil }

func (p *liveProgram) Next() (schedwatch.Task, error) {
	select {
	case t := <-p.tasks:
		p.mu.Lock()
		defer p.mu.Unlock()
		t.Owner = p.ids[t.CPU]
		return t, nil
	case <-p.closed:
		return schedwatch.Task{}, os.ErrClosed
	}
}

func (p *liveProgram) Close() error {
	close(p.closed)
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.watched)
	return nil
}

// write is called before each write of the daemon to a file. On a CPU that is watched, a write must
// neither let tasks of another cgroup run, nor end that they run.
func (p *liveProgram) write(x testnode.CgroupWrite) error {
	dir, file := path.Split(x.Name)
	if file != cgroup.FileCPUs {
		return nil
	}
	dir = path.Clean(dir)
	cpus, _ := cpuset.Parse(x.Value)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, err := p.tree.ReadFile(dir+"/cpuset.cpus", 1<<12); err == nil && p.strict {
		has, _ := cpuset.Parse(strings.TrimSpace(string(now)))
		cpus = cpus.Union(has)
	}
	for cpu, owners := range p.watched {
		related := func(own string) bool {
			return own == dir || strings.HasPrefix(own, dir+"/") || strings.HasPrefix(dir, own+"/")
		}
		if cpus.Contains(cpu) && !slices.ContainsFunc(owners, related) {
			p.wrong = append(p.wrong, fmt.Errorf("write of %q to %s while CPU %d is watched for %s", x.Value, x.Name, cpu, owners))
		}
	}
	return nil
}

// mark begins a new step, and returns the CPUs that were released since the last one, with the errors.
func (p *liveProgram) mark() (released cpuset.Set, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	released, err = p.released, errors.Join(p.wrong...)
	p.released, p.wrong = cpuset.Set{}, nil
	return released, err
}

func (p *liveProgram) now() map[int][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.watched)
}

// differs compares the watched CPUs with the plan and the cgroups of a loop.
func (p *liveProgram) differs(l *Loop) error {
	o := l.settings.Ownership(l.last.Plan, l.inventory.Objects(), l.last.Hosts, l.last.Auxiliary)
	watched, owned := p.now(), cpuset.Set{}
	for _, place := range o.Places {
		if !place.Exclusive {
			continue
		}
		owned = owned.Union(place.CPUs)
		owns := func(own string) bool { return own == place.Cgroup || own == path.Dir(place.Cgroup) }
		if now := l.cache.Current(cgroup.Path(place.Cgroup)); now.Exists {
			for cpu := range place.CPUs.Intersection(now.State.Effective).All() {
				if !slices.ContainsFunc(watched[cpu], owns) {
					return fmt.Errorf("CPU %d of %s is watched for %q", cpu, place.Cgroup, watched[cpu])
				}
			}
		}
	}
	for cpu, owners := range watched {
		if !owned.Contains(cpu) {
			return fmt.Errorf("CPU %d is watched for %s, and has no owner", cpu, owners)
		}
	}
	return nil
}

// liveStep is a change on a node, with the CPUs that may be without a watch for a moment.
type liveStep struct {
	name    string
	do      func() error
	release string
}

// liveSteps makes changes one by one. After each one, exactly the CPUs with owners must be watched.
// During it, only the CPUs in release may be without a watch. A step with a "?" in release may also keep their watch: the
// notice of a new cgroup arrives before or after the pass that begins the watch.
func (r *running) liveSteps(p *liveProgram, steps ...liveStep) {
	r.T.Helper()
	for _, s := range steps {
		if err := s.do(); err != nil {
			r.T.Fatalf("%s: %v", s.name, err)
		}
		r.Tree.AwaitReaders()
		r.Eventually(s.name+": notices are handled", func() (handled bool) {
			r.inspect(func(l *Loop) { handled = len(l.notices.Tree.Wake()) == 0 })
			return handled
		})
		r.quiet()
		var differs error
		r.Eventually(s.name+": watched CPUs", func() bool {
			r.inspect(func(l *Loop) { differs = p.differs(l) })
			return differs == nil
		})
		released, err := p.mark()
		if err != nil {
			r.T.Errorf("%s: %v", s.name, err)
		}
		maybe, isMaybe := strings.CutSuffix(s.release, "?")
		if got := released.String(); got != maybe && (!isMaybe || got != "") {
			r.T.Errorf("%s: released CPUs %q; want %q", s.name, released, s.release)
		}
	}
}

// TestLiveHandovers checks that the live audit has neither a gap nor a wrong owner while containers
// start, change, move and end.
func TestLiveHandovers(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	n.YAML = nodefixture.CarvedYAML + liveYAML
	r := n.start()
	p := r.watchLive(true)
	n.Tree.Intercept(p.write)
	r.connected()
	var a, b, shared string
	run := func(id *string, uid string, cpus int) func() error {
		return func() error {
			*id = n.RunContainer(n.RunPod(uid, "default", "guaranteed", cpus, nil), "app", nodefixture.WholeCPUs(cpus))
			return nil
		}
	}
	r.liveSteps(p,
		liveStep{"a shared container", func() error {
			shared = n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", nodefixture.MilliCPUs(500))
			return nil
		}, ""},
		liveStep{"an owner", run(&a, "a", 2), ""},
		liveStep{"another owner", run(&b, "b", 1), ""},
	)
	if got := len(p.now()); got != 3 {
		t.Fatalf("%d CPUs are watched; want 3", got)
	}
	before := n.State(a).Effective
	r.liveSteps(p,
		liveStep{"a grows", func() error { return n.Runtime.Resize(a, nodefixture.WholeCPUs(3)) }, ""},
	)
	more := n.State(a).Effective.Difference(before)
	r.liveSteps(p,
		liveStep{"another process moves the shared container", func() error {
			n.WriteFile(shared, cgroup.FileCPUs, "0-7")
			n.Eventually("repair", func() bool { return !n.State(shared).CPUs.Overlaps(n.State(a).Effective) })
			_, _ = p.mark() // the task was foreign, and the repair ends that
			return nil
		}, ""},
		liveStep{"another process moves an owner", func() error {
			n.WriteFile(a, cgroup.FileCPUs, "0-7")
			n.Eventually("repair", func() bool { return n.State(a).Effective.Len() == 3 })
			_, _ = p.mark()
			return nil
		}, ""},
		liveStep{"a shrinks", func() error {
			if err := n.Runtime.Resize(a, nodefixture.WholeCPUs(2)); err != nil {
				return err
			}
			n.Eventually("two CPUs", func() bool { return n.State(a).Effective.Len() == 2 })
			before, more = n.State(a).Effective, before.Union(more).Difference(n.State(a).Effective)
			return nil
		}, more.String()},
	)
	others := n.State(b).Effective
	r.liveSteps(p,
		liveStep{"b ends between two passes", func() error { return n.Runtime.StopContainer(b) }, others.String()},
		liveStep{"b again", func() error {
			b = n.RunContainer(n.PodOf(b), "app", nodefixture.WholeCPUs(1))
			return nil
		}, ""},
		liveStep{"the pod of a ends", func() error { return n.Runtime.StopPod(n.PodOf(a)) }, before.String()},
	)
	r.stop()
	if got := p.now(); len(got) > 0 {
		t.Errorf("watched after the end: %v", got)
	}
	r = n.start() // adopts the CPUs of b
	p = r.watchLive(true)
	n.Tree.Intercept(p.write)
	r.liveSteps(p, liveStep{"restart", func() error { return nil }, ""})
	if got := p.now(); len(got) != 1 {
		t.Errorf("watched after a restart: %v", got)
	}
}
