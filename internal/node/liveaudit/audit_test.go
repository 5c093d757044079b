package liveaudit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/liveaudit"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// program records the calls of an Audit.
type program struct {
	mu      sync.Mutex
	calls   []string
	owned   []schedwatch.Owner
	missing cpuset.Set // CPUs that cannot be watched
	reading schedwatch.Reading
	fails   error
	tasks   chan schedwatch.Task
}

func (p *program) record(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

func (p *program) Release(cpus cpuset.Set) { p.record("release %s", cpus) }

func (p *program) Own(owners []schedwatch.Owner) (watched cpuset.Set, err error) {
	var all []string
	for _, o := range owners {
		all = append(all, o.CPUs.String()+"="+strings.Join(o.Cgroups, "+"))
		watched = watched.Union(o.CPUs)
	}
	p.record("own %s", strings.Join(all, " "))
	p.mu.Lock()
	p.owned = owners
	p.mu.Unlock()
	if watched.Overlaps(p.missing) {
		err = errors.New("no such cgroup")
	}
	return watched.Difference(p.missing), err
}

func (p *program) Read() (schedwatch.Reading, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.reading
	p.reading.Tasks = nil
	return r, p.fails
}

// Next names the present owner of the CPU, unless the test has set one.
func (p *program) Next() (schedwatch.Task, error) {
	t, ok := <-p.tasks
	if !ok {
		return schedwatch.Task{}, os.ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.owned {
		if o.CPUs.Contains(t.CPU) && t.Owner == "" {
			t.Owner = o.ID
		}
	}
	return t, nil
}

// set sets the next reading.
func (p *program) set(r schedwatch.Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = r
}

func (p *program) Close() error { close(p.tasks); p.record("close"); return nil }

// take returns the calls since the last take.
func (p *program) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := strings.Join(p.calls, "; ")
	p.calls = nil
	return all
}

// bench is an Audit with a fake program, in a bubble of synctest.
type bench struct {
	*testing.T
	*liveaudit.Audit
	*program
	log    bytes.Buffer
	gone   map[string]bool
	wakes  atomic.Int64
	looks  atomic.Int64          // whether a cgroup exists
	refuse atomic.Pointer[error] // of the next opening
	opened int
}

func run(t *testing.T, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, program: &program{tasks: make(chan schedwatch.Task)}, gone: make(map[string]bool)}
		b.Audit = liveaudit.New(slog.New(slog.NewTextHandler(&b.log, nil)), func(cgroup string) bool { b.looks.Add(1); return !b.gone[cgroup] }, time.Now, func() { b.wakes.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			b.Audit.Run(ctx, func() (liveaudit.Program, error) {
				if b.opened++; b.refuse.Load() != nil {
					return nil, *b.refuse.Load()
				}
				return b.program, nil
			})
		})
		test(b)
		cancel()
		running.Wait()
	})
}

// on switches the audit on, and waits until the program is loaded.
func (b *bench) on() {
	b.Switch(true)
	synctest.Wait()
	b.take()
}

// wait waits for a time of the bubble.
func wait(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's clock
	synctest.Wait()
}

// owner returns a place of a container with exclusive CPUs.
func owner(name, cpus string) audit.Place {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		panic(err)
	}
	return audit.Place{PoolName: audit.PoolName{Pool: "guaranteed"}, Pod: "ran/" + name, Name: "app", Cgroup: "kubepods/pod" + name + "/" + name, CPUs: set, Exclusive: true}
}

func owned(places ...audit.Place) audit.Ownership { return audit.Ownership{Places: places} }

// placed reports that each place runs on its CPUs.
func placed(o audit.Ownership) func(string) (cpuset.Set, bool) {
	return func(cgroup string) (cpuset.Set, bool) {
		i := slices.IndexFunc(o.Places, func(p audit.Place) bool { return p.Cgroup == cgroup })
		return o.Places[i].CPUs, true
	}
}

// pass makes a pass with a plan, and returns its calls.
func (b *bench) pass(places ...audit.Place) string {
	o := owned(places...)
	b.Begin(o)
	b.record("writes")
	b.End(o, placed(o))
	return b.take()
}

// TestHandovers checks the calls of passes: the CPUs that change their owner are released before the
// writes, and no others.
func TestHandovers(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		shared := audit.Place{Cgroup: "kubepods/podx/x", CPUs: cpuset.Range(2, 3)}
		sharer := func(name, cpus string) audit.Place {
			p := owner("p", cpus)
			p.Name, p.PodPool, p.Cgroup = name, true, "kubepods/podp/"+name
			return p
		}
		for _, step := range []struct {
			name   string
			places []audit.Place
			want   string
		}{
			{"a new owner", []audit.Place{owner("a", "4-5"), shared}, "writes; own 4-5=kubepods/poda/a"},
			{"no change", []audit.Place{owner("a", "4-5"), shared}, "writes"},
			{"another owner", []audit.Place{owner("a", "4-5"), owner("b", "6")}, "writes; own 4-5=kubepods/poda/a 6=kubepods/podb/b"},
			{"resize up", []audit.Place{owner("a", "4-5,7"), owner("b", "6")}, "writes; own 4-5,7=kubepods/poda/a 6=kubepods/podb/b"},
			{"resize down", []audit.Place{owner("a", "4"), owner("b", "6")}, "release 5,7; writes; own 4=kubepods/poda/a 6=kubepods/podb/b"},
			{"swap", []audit.Place{owner("b", "4"), owner("a", "6")}, "release 4,6; writes; own 6=kubepods/poda/a 4=kubepods/podb/b"},
			{"the end of an owner", []audit.Place{owner("a", "6")}, "release 4; writes; own 6=kubepods/poda/a"},
			{"a pod pool", []audit.Place{sharer("one", "4-5")}, "release 6; writes; own 4-5=kubepods/podp"},
			{"a further container of the pod", []audit.Place{sharer("one", "4-5"), sharer("two", "4-5")}, "writes"},
			{"a carve-out", []audit.Place{sharer("one", "4"), owner("c", "5")}, "release 5; writes; own 5=kubepods/podc/c 4=kubepods/podp"},
			{"no owner", []audit.Place{shared}, "release 4-5; writes; own "},
		} {
			if got := b.pass(step.places...); got != step.want {
				b.Errorf("%s: %q; want %q", step.name, got, step.want)
			}
		}
	})
}

// TestEndWithoutBegin checks that the watch of a CPU ends if its owner has ended since Begin.
func TestEndWithoutBegin(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		b.pass(owner("a", "4-5"), owner("b", "6"))
		for _, step := range []struct {
			owners audit.Ownership
			want   string
		}{
			{owned(owner("a", "4-5")), "release 6; own 4-5=kubepods/poda/a"},
			{owned(owner("c", "4"), owner("a", "5")), "release 4; own 5=kubepods/poda/a 4=kubepods/podc/c"},
			{owned(), "release 4-5; own "},
		} {
			b.End(step.owners, placed(step.owners))
			if got := b.take(); got != step.want {
				b.Errorf("%q; want %q", got, step.want)
			}
		}
	})
}

// TestManyTasks checks that the number of system calls of a reading does not depend on the number of
// tasks: the event loop may wait for them.
func TestManyTasks(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		b.pass(owner("a", "4-5"), owner("b", "6"))
		wait(10 * time.Second) // the reading that notes the new owners
		b.looks.Store(0)
		var tasks []schedwatch.Task
		for i := range 1000 {
			tasks = append(tasks,
				schedwatch.Task{CPU: 4 + i%2, PID: i, Command: fmt.Sprint(i), Cgroup: "system.slice", Switches: 1},
				schedwatch.Task{CPU: 6, PID: i, Command: fmt.Sprint(i), Cgroup: "kubepods/podb/b", Switches: 1})
		}
		const longest = 500
		tasks[2*longest].Time = time.Second
		b.mu.Lock()
		b.reading = schedwatch.Reading{Tasks: tasks}
		b.mu.Unlock()
		wait(10 * time.Second)
		if found := b.Findings(); len(found) != 1 || found[0].Task.PID != longest {
			b.Errorf("findings %+v; want the task with the most time, PID %d", found, longest)
		}
		if got := b.take(); got != "release 6; own 4-5=kubepods/poda/a 6=kubepods/podb/b" {
			b.Errorf("calls: %q; want the cgroup of b looked up once", got)
		}
		if len(b.Findings()) != 1 || b.looks.Load() != 1 || b.wakes.Load() != 1 {
			b.Errorf("findings %+v, %d looks for cgroups, %d wakes; want one each", b.Findings(), b.looks.Load(), b.wakes.Load())
		}
	})
}

// TestWakes checks that an idle daemon publishes when a problem of the live audit begins or ends.
func TestWakes(t *testing.T) {
	run(t, func(b *bench) {
		step := func(name string, do func()) {
			b.wakes.Store(0)
			do()
			synctest.Wait()
			if b.wakes.Load() != 1 {
				b.Errorf("%s: %d wakes; want one", name, b.wakes.Load())
			}
		}
		refused := fmt.Errorf("%w: no CAP_BPF", schedwatch.ErrUnavailable)
		b.refuse.Store(&refused)
		step("refused", func() { b.Switch(true) })
		b.refuse.Store(nil)
		step("loaded later", func() { wait(10 * time.Minute) })
		b.pass(owner("a", "4-5"))
		hog := schedwatch.Task{CPU: 4, PID: 7, Command: "hog", Cgroup: "system.slice/x", Switches: 1}
		step("a finding", func() { b.tasks <- hog })
		step("the finding is over", func() { wait(11 * time.Minute) })
		step("off", func() { b.Switch(false) })
	})
}

// TestPodEnds checks that a pod ends as an owner with its last container, though its slice stays.
func TestPodEnds(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		one, two := owner("p", "4-5"), owner("p", "4-5")
		one.PodPool, two.PodPool, two.Cgroup = true, true, "kubepods/podp/two"
		b.pass(one, two)
		b.gone[two.Cgroup] = true
		b.Gone(two.Cgroup)
		if got := b.take(); got != "" {
			b.Errorf("one of two containers: %q; want no change", got)
		}
		b.gone[one.Cgroup] = true
		b.tasks <- schedwatch.Task{CPU: 4, PID: 7, Command: "hog", Cgroup: "system.slice"} // before the notice
		synctest.Wait()
		if found := b.Findings(); len(found) != 0 {
			b.Errorf("after the last container: findings %+v", found)
		}
		b.Gone(one.Cgroup)
		if got := b.take(); got != "release 4-5" {
			b.Errorf("the last container: %q", got)
		}
	})
}

// TestPlaced checks that a watch begins when the owner runs on the CPU, and that it does not end
// because another process changes the cpuset.
func TestPlaced(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		o := owned(owner("a", "4-5"))
		end := func(cpus cpuset.Set, exists bool) string {
			b.Begin(o)
			b.End(o, func(string) (cpuset.Set, bool) { return cpus, exists })
			return b.take()
		}
		for _, step := range []struct {
			name   string
			cpus   cpuset.Set
			exists bool
			want   string
		}{
			{"not created", cpuset.Set{}, false, ""},
			{"in the shared pool", cpuset.Range(2, 3), true, ""},
			{"on a part", cpuset.Range(3, 4), true, "own 4=kubepods/poda/a"},
			{"placed", cpuset.Range(4, 5), true, "own 4-5=kubepods/poda/a"},
			{"changed by another process", cpuset.Range(0, 3), true, ""},
		} {
			if got := end(step.cpus, step.exists); got != step.want {
				b.Errorf("%s: %q; want %q", step.name, got, step.want)
			}
		}
		b.Gone("kubepods/poda/a")
		if got := b.take(); got != "release 4-5" {
			b.Errorf("cgroup is gone: %q", got)
		}
		if got := end(cpuset.Set{}, false); got != "own " {
			b.Errorf("pass without the cgroup: %q", got)
		}
		if got := end(cpuset.Range(4, 5), true); got != "own 4-5=kubepods/poda/a" {
			b.Errorf("the cgroup is there again: %q", got)
		}
		b.Admit("kubepods/poda/a/inner", cpuset.Range(4, 7))
		b.Admit("kubepods/podb/b", cpuset.Range(6, 7))
		if got := b.take(); got != "" {
			b.Errorf("a cgroup of the owner, and a cgroup on other CPUs: %q", got)
		}
		b.Admit("kubepods/podb/b", cpuset.Range(5, 7))
		if got := b.take(); got != "release 5" {
			b.Errorf("another cgroup: %q", got)
		}
		end(cpuset.Range(4, 5), true)
		b.Gone("kubepods/podb/b")
		if got := b.take(); got != "" {
			b.Errorf("another cgroup is gone: %q", got)
		}
	})
}

// TestMissing checks that the next pass tries CPUs again that the program does not watch.
func TestMissing(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		b.missing = cpuset.Of(5)
		want := "writes; own 4-5=kubepods/poda/a"
		for range 2 {
			if got := b.pass(owner("a", "4-5")); got != want {
				b.Errorf("%q; want %q", got, want)
			}
		}
		b.missing = cpuset.Set{}
		if got := b.pass(owner("a", "4-5")); got != want || strings.Count(b.log.String(), "no such cgroup") != 1 {
			b.Errorf("%q, log %s", got, &b.log)
		}
		if got := b.pass(owner("a", "4-5")); got != "writes" {
			b.Errorf("after success: %q", got)
		}
	})
}

// TestSwitch checks that nothing happens while the audit is off, that a program that is loaded later
// gets the present owners, and that the program is removed.
func TestSwitch(t *testing.T) {
	run(t, func(b *bench) {
		b.pass(owner("a", "4-5"))
		wait(time.Hour)
		if b.opened != 0 || b.Result() != nil {
			b.Fatalf("off: opened %d times", b.opened)
		}
		refused := fmt.Errorf("%w: no CONFIG_BPF_SYSCALL", schedwatch.ErrUnavailable)
		b.refuse.Store(&refused)
		b.Switch(true)
		synctest.Wait()
		b.pass(owner("a", "4-5"), owner("b", "6"))
		if r := b.Result(); r == nil || !strings.Contains(r.Unavailable, "no CONFIG_BPF_SYSCALL") || b.wakes.Load() != 1 {
			b.Fatalf("refused: %+v, %d wakes", r, b.wakes.Load())
		}
		b.Begin(owned(owner("a", "4-5"))) // a handover is in progress when the program is loaded
		b.refuse.Store(nil)
		wait(5 * time.Minute)
		if got := b.take(); got != "own 4-5=kubepods/poda/a" || b.opened != 2 {
			b.Errorf("loaded: %q, opened %d times", got, b.opened)
		}
		if r := b.Result(); r == nil || r.Unavailable != "" || !r.CPUs.Equal(cpuset.Range(4, 5)) {
			b.Errorf("loaded: %+v", r)
		}
		b.Switch(false)
		synctest.Wait()
		if got := b.take(); got != "release 4-5; close" || b.Result() != nil {
			b.Errorf("off: %q", got)
		}
		b.tasks = make(chan schedwatch.Task)
		b.Switch(true)
		synctest.Wait()
		if got := b.take(); got != "own " {
			b.Errorf("on again: %q", got)
		}
	})
}

// TestFindings checks which reports are findings, and how long they stay.
func TestFindings(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		b.pass(owner("a", "4-5"), owner("b", "6"))
		hog := schedwatch.Task{CPU: 4, PID: 7, Command: "hog\x1b[2J", Cgroup: "system.slice/x\n", CgroupID: 9, Time: time.Millisecond, Switches: 1, Owner: "kubepods/poda/a"}
		report := func(t schedwatch.Task) []liveaudit.Finding {
			b.tasks <- t
			synctest.Wait()
			return b.Findings()
		}
		for name, change := range map[string]func(*schedwatch.Task){
			"a kernel thread":   func(t *schedwatch.Task) { t.Kind = schedwatch.OtherKernel },
			"a free CPU":        func(t *schedwatch.Task) { t.CPU = 7 },
			"the owner itself":  func(t *schedwatch.Task) { t.Cgroup = "kubepods/poda/a/inner" },
			"the owner has end": func(t *schedwatch.Task) { t.CPU = 6 },
		} {
			b.gone["kubepods/podb/b"] = true
			other := hog
			other.Owner = ""
			change(&other)
			if found := report(other); len(found) != 0 {
				b.Errorf("%s: findings %+v", name, found)
			}
		}
		if got := b.take(); got != "release 4-5; own 4-5=kubepods/poda/a 6=kubepods/podb/b" {
			b.Errorf("a task of the owner: %q; want a new look at its cgroup", got)
		}
		found := report(hog)
		if len(found) != 1 || found[0].Owner.Pod != "ran/a" || found[0].Task != hog || b.wakes.Load() != 1 {
			b.Fatalf("findings %+v, %d wakes", found, b.wakes.Load())
		}
		if got, want := liveaudit.Describe(hog), `"hog\x1b[2J", PID 7, cgroup "system.slice/x\n"`; got != want {
			b.Errorf("described as %s; want %s", got, want)
		}
		wait(6 * time.Minute)
		hog.PID = 8
		if found = report(hog); found[0].Task.PID != 7 || b.wakes.Load() != 1 {
			b.Errorf("findings %+v, %d wakes; want the first task, and no further wake", found, b.wakes.Load())
		}
		wait(9 * time.Minute)
		if len(b.Findings()) != 1 {
			b.Error("the finding has ended too early")
		}
		wait(time.Minute)
		if found := b.Findings(); len(found) != 0 {
			b.Errorf("findings %+v after ten minutes", found)
		}
		if r := b.Result(); r.Reports != 6 {
			b.Errorf("%d reports; want 6", r.Reports)
		}
	})
}

// TestReadings checks the sums of the counts, and that tasks from before a handover are no findings
// of the next owner.
func TestReadings(t *testing.T) {
	run(t, func(b *bench) {
		b.on()
		b.pass(owner("a", "4-5"))
		wait(10 * time.Second) // the reading that notes the new owners
		count := func(n int) schedwatch.Count {
			return schedwatch.Count{Time: time.Duration(n) * time.Second, Switches: uint64(n)}
		}
		hog := schedwatch.Task{CPU: 4, PID: 7, Command: "hog", Cgroup: "system.slice", Time: time.Second, Switches: 1}
		own := schedwatch.Task{CPU: 5, PID: 8, Command: "a", Cgroup: "kubepods/poda/a", Time: 2 * time.Second, Switches: 2}
		b.set(schedwatch.Reading{BTF: true, Lost: 3, Tasks: []schedwatch.Task{own}, Running: []schedwatch.Task{hog}, CPUs: []schedwatch.CPU{
			{CPU: 4, Watched: 10 * time.Second, Switches: 50, Foreign: [schedwatch.Kinds]schedwatch.Count{count(1), count(4), count(2)}},
			{CPU: 5, Watched: 10 * time.Second, Switches: 50, Foreign: [schedwatch.Kinds]schedwatch.Count{count(3)}},
		}})
		wait(10 * time.Second)
		r := b.Result()
		if r.Program != "btf" || r.Watched != 20 || r.Switches != 100 || r.Foreign[0].Seconds != 2 || r.Foreign[0].Switches != 2 || r.Foreign[1].Seconds != 4 || r.Foreign[2].Seconds != 2 || r.Lost != 3 {
			b.Errorf("%+v", r)
		}
		if share, known := r.Share(); !known || share != 0.8 {
			b.Errorf("share %v; want 0.8", share)
		}
		if len(b.Findings()) != 1 || b.wakes.Load() != 1 {
			b.Errorf("findings %+v; want the task that runs without a switch", b.Findings())
		}
		wait(10 * time.Minute)
		if d := cmp.Diff(20.0, b.Result().Watched); d != "" {
			b.Errorf("the same counts again (-want +got):\n%s", d)
		}
		b.pass(owner("b", "4-5"))
		b.set(schedwatch.Reading{Tasks: []schedwatch.Task{hog}})
		wait(20 * time.Second)
		for _, f := range b.Findings() {
			if f.Owner.Pod == "ran/b" {
				b.Errorf("the next owner has the finding %+v", f)
			}
		}
		b.mu.Lock()
		b.fails = errors.New("broken")
		b.mu.Unlock()
		wait(10 * time.Second)
		if r := b.Result(); r.Failed != 1 {
			b.Errorf("%d failed readings; want 1", r.Failed)
		}
	})
}
