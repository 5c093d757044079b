package kernelstate_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/threads"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// kernel is a fake kernel. It returns the state for any cgroup, with the path asked for.
type kernel struct {
	state            cgroup.State
	err, checkErr    error
	gathered         cgroup.Gathered
	gatherErr        error
	reads, checks    map[cgroup.Path]int
	gathers, resting int
}

func newKernel() *kernel {
	return &kernel{reads: make(map[cgroup.Path]int), checks: make(map[cgroup.Path]int)}
}

func (k *kernel) Read(p cgroup.Path) (cgroup.State, error) {
	k.reads[p]++
	st := k.state
	st.Path = p
	return st, k.err
}

func (k *kernel) Check(st cgroup.State) (cgroup.State, error) {
	k.checks[st.Path]++
	return st, k.checkErr
}

func (k *kernel) Gather(cgroup.Path) (cgroup.Gathered, error) {
	k.gathers++
	return k.gathered, k.gatherErr
}

func (k *kernel) Rest() { k.resting++ }

func newCache(k *kernel) *kernelstate.Cache {
	return kernelstate.New(k, slog.New(slog.DiscardHandler))
}

var noObjects = inventory.New(cgroup.DriverSystemd).Objects()

// targets returns n targets with CPUs.
func targets(n int) []cgroup.Target {
	all := make([]cgroup.Target, n)
	for i := range all {
		all[i] = cgroup.Target{Path: cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-pod%d.slice/cri-containerd-%064x.scope", i/4, i*i)), CPUs: cpuset.Of(0)}
	}
	return all
}

func watchesAll(cgroup.State) bool { return true }

// TestRecheck checks that within some rechecks each watched cgroup is read as a whole once,
// that the rechecks share the work, and that cgroups without a watch are always read.
func TestRecheck(t *testing.T) {
	for name, c := range map[string]struct {
		period time.Duration
		deaf   bool
		turns  int
	}{
		"default":      {period: 30 * time.Second, turns: 8},
		"often":        {period: 20 * time.Second, turns: 8},
		"rarely":       {period: 2 * time.Minute, turns: 2},
		"once an hour": {period: time.Hour, turns: 1},
		"not watched":  {period: 30 * time.Second, deaf: true, turns: 1},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel()
			tr, all := newCache(k), targets(400)
			tr.Refresh(all, noObjects)
			clear(k.reads)
			for turn := range c.turns {
				before := len(k.reads)
				tr.Recheck(func(cgroup.State) bool { return !c.deaf }, c.period)
				tr.Refresh(all, noObjects)
				if n := len(k.reads) - before; n < len(all)/c.turns/2 || n > len(all)/c.turns*2 {
					t.Errorf("recheck %d reads %d of %d cgroups", turn, n, len(all))
				}
			}
			for _, target := range all {
				if reads, checks := k.reads[target.Path], k.checks[target.Path]; reads != 1 || checks != c.turns-1 {
					t.Errorf("%s: %d reads, %d checks", target.Path, reads, checks)
				}
			}
		})
	}
}

// TestRecheckReads checks that a recheck reads a cgroup as a whole whenever its state may
// have changed without a notice.
func TestRecheckReads(t *testing.T) {
	all := targets(1)
	p := all[0].Path
	record := cgroup.Write{Path: p, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "0"}
	for name, c := range map[string]struct {
		change func(*kernelstate.Cache)
		reads  bool
	}{
		"nothing":   {func(*kernelstate.Cache) {}, false},
		"own write": {func(tr *kernelstate.Cache) { tr.NoteWrite(cgroup.Write{Path: p, Property: cgroup.FileWeight}, nil) }, true},
		"record":    {func(tr *kernelstate.Cache) { tr.NoteSubmitted(record) }, true},
		"revert":    {func(tr *kernelstate.Cache) { tr.Writes.BeginRevert(p) }, true},
		"stale":     {func(tr *kernelstate.Cache) { tr.Invalidate(p) }, true},
		"all stale": {(*kernelstate.Cache).InvalidateAll, true},
		"forgotten": {func(tr *kernelstate.Cache) { tr.Forget(p) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel()
			tr := newCache(k)
			recheck := func() int {
				clear(k.reads)
				tr.Recheck(watchesAll, time.Second)
				if _, errs := tr.Refresh(all, noObjects); errs != nil {
					t.Fatal(errs)
				}
				return k.reads[p]
			}
			tr.Refresh(all, noObjects)
			for recheck() == 0 { // the next turn of the cgroup is eight rechecks away
			}
			k.gathers = 0
			c.change(tr)
			reads := recheck()
			if (reads == 1) != c.reads {
				t.Errorf("%d reads", reads)
			}
			// A check does not read whether processes run. In the fake cgroup none run.
			if wantGathers := 1 - reads; k.gathers != wantGathers {
				t.Errorf("threads are moved %d times; want %d", k.gathers, wantGathers)
			}
		})
	}
}

// TestRecheckFails checks that a cgroup with a failed check is read again by the next
// Refresh, and keeps its state until then.
func TestRecheckFails(t *testing.T) {
	k := newKernel()
	tr, all := newCache(k), targets(64)
	tr.Refresh(all, noObjects)
	k.checkErr = errors.New("too many open files")
	tr.Recheck(watchesAll, time.Second)
	_, errs := tr.Refresh(all, noObjects)
	if len(errs) == 0 || len(errs) == len(all) {
		t.Fatalf("%d errors", len(errs))
	}
	for p := range errs {
		if !tr.IsStale(p) || !tr.Current(p).Exists {
			t.Errorf("%s: stale %t, exists %t", p, tr.IsStale(p), tr.Current(p).Exists)
		}
	}
	if _, errs = tr.Refresh(all, noObjects); len(errs) > 0 || tr.HasStale() {
		t.Errorf("%d errors, stale: %t", len(errs), tr.HasStale())
	}
}

// TestRefreshIsCheap checks that a refresh allocates no memory for unchanged cgroups.
func TestRefreshIsCheap(t *testing.T) {
	k := newKernel()
	tr, all := newCache(k), targets(100)
	tr.Refresh(all, noObjects)
	clear(k.reads)
	if n := testing.AllocsPerRun(10, func() { tr.Refresh(all, noObjects) }); n > float64(len(all)/10) || len(k.reads) > 0 {
		t.Errorf("%v allocations and %d reads for %d cgroups", n, len(k.reads), len(all))
	}
	if k.resting == 0 {
		t.Error("files stay open")
	}
}

// TestRefreshForgets checks that a cgroup is dropped when it is no longer a target.
func TestRefreshForgets(t *testing.T) {
	tr, all := newCache(newKernel()), targets(1)
	p := all[0].Path
	tr.Refresh(all, noObjects)
	tr.NoteWrite(cgroup.Write{Path: p, Via: cgroup.File, Property: cgroup.FileWeight, Value: "59"}, nil)
	tr.Forget(p) // the cgroup is gone
	tr.Refresh(nil, noObjects)
	if tr.Has(p) || tr.HasStale() {
		t.Errorf("known %t, stale %t", tr.Has(p), tr.HasStale())
	}
	tr.NoteSubmitted(cgroup.Write{Path: p, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "0"})
	if tr.Refresh(nil, noObjects); !tr.Has(p) || !tr.Writes.IsBusy(p) {
		t.Error("a cgroup with a write in progress is dropped")
	}
}

// TestGone checks the result for a cgroup that does not exist: it is gone, unless its
// container was not started or its unit is stopped.
func TestGone(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	slice := "kubepods-podu.slice"
	m.Expect(cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice},
		cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Created, CgroupsPath: slice + ":cri-containerd:c"}, false)
	all := []cgroup.Target{
		{Path: "kubepods.slice/running.scope", Container: "running", CPUs: cpuset.Of(0)},
		{Path: m.Objects().Container("c").Path, Container: "c", CPUs: cpuset.Of(0)},
		{Path: "du.service", Unit: "du.service", CPUs: cpuset.Of(0)},
	}
	k := newKernel()
	k.err = cgroup.ErrGone
	tr := newCache(k)
	gone, errs := tr.Refresh(all, m.Objects())
	if len(errs) > 0 || len(gone) != 1 || gone[0] != all[0].Path || tr.Has(gone[0]) {
		t.Errorf("gone %v, errors %v", gone, errs)
	}
	for _, target := range all[1:] {
		if !tr.Has(target.Path) || tr.Current(target.Path).Exists {
			t.Errorf("%s: known %t, exists %t", target.Path, tr.Has(target.Path), tr.Current(target.Path).Exists)
		}
	}
	k.err = nil
	tr.Invalidate("du.service")
	if tr.Refresh(all, m.Objects()); !tr.Current("du.service").Exists {
		t.Error("a started unit is not found")
	}
}

// TestThreads checks that a cgroup with threads on its former CPUs keeps them in the cache,
// and how threads that cannot be moved are reported.
func TestThreads(t *testing.T) {
	k := newKernel()
	k.state = cgroup.State{CPUs: cpuset.Range(0, 3), Effective: cpuset.Range(0, 3), HasCPUSet: true, Populated: true}
	tr, all := newCache(k), targets(1)
	p := all[0].Path
	if _, errs := tr.Refresh(all, noObjects); errs != nil {
		t.Fatal(errs)
	}
	failed := errors.New("input/output error")
	k.state.CPUs, k.state.Effective, k.gatherErr = cpuset.Of(0), cpuset.Of(0), failed
	tr.NoteWrite(cgroup.Write{Path: p, Via: cgroup.File, Property: cgroup.FileCPUs, Value: "0"}, nil)
	for range 2 {
		if _, errs := tr.Refresh(all, noObjects); !errors.Is(errs[p], failed) {
			t.Errorf("errors %v", errs)
		}
		if effective := tr.Current(p).Effective; effective.String() != "0-3" {
			t.Errorf("runs on %s; want 0-3", effective)
		}
	}
	k.gatherErr, k.gathered = nil, cgroup.Gathered{Back: 2, Outside: 2, Stuck: []int{7, 8}, Why: errors.New("operation not permitted")}
	if _, errs := tr.Refresh(all, noObjects); errs != nil || tr.Current(p).Effective.String() != "0" {
		t.Errorf("errors %v, runs on %s", errs, tr.Current(p).Effective)
	}
	if tr.Threads.Moved() != 2 || tr.Threads.CountStranded() != 2 {
		t.Errorf("%d threads moved, %d stranded; want 2 and 2", tr.Threads.Moved(), tr.Threads.CountStranded())
	}
	for at, err := range tr.Threads.Stranded() {
		if at != p || !errors.Is(err, k.gathered.Why) {
			t.Errorf("%s: %v", at, err)
		}
	}
	k.gathered, k.gatherErr = cgroup.Gathered{}, cgroup.ErrGone
	if err := tr.Threads.Move(p); err != nil || tr.Threads.CountStranded() != 0 {
		t.Errorf("after the end of the cgroup: %v, %d stranded; want 0", err, tr.Threads.CountStranded())
	}
	k.gathered, k.gatherErr = cgroup.Gathered{Outside: 1, Stuck: []int{7}, Why: failed}, nil
	if err := tr.Threads.Move(p); err != nil {
		t.Error(err)
	}
	if tr.Refresh(nil, noObjects); tr.Threads.CountStranded() != 0 {
		t.Error("threads of a cgroup that is no target remain")
	}
}

// TestThreadsBelowContainer checks that unreadable cgroups below a container are a problem and no error. The result of a scan
// takes precedence while the event loop does not read all threads.
func TestThreadsBelowContainer(t *testing.T) {
	k := newKernel()
	k.state = cgroup.State{CPUs: cpuset.Of(0), Effective: cpuset.Of(0), HasCPUSet: true, Populated: true}
	tr, all := newCache(k), targets(1)
	p := all[0].Path
	problems := func() (texts []string) {
		for at, r := range tr.Threads.Problems() {
			if at != p || r.Code != "StuckThreads" {
				t.Errorf("problem %+v of %s", r, at)
			}
			texts = append(texts, r.Text)
		}
		return texts
	}
	refresh := func(g cgroup.Gathered) {
		t.Helper()
		k.gathered = g
		tr.Invalidate(p)
		if _, errs := tr.Refresh(all, noObjects); errs != nil {
			t.Error(errs)
		}
	}
	failed := errors.New("input/output error")
	refresh(cgroup.Gathered{Unread: 3, UnreadErr: failed, More: true})
	if texts := problems(); len(texts) != 1 || !strings.Contains(texts[0], "3 cgroups") || !strings.Contains(texts[0], "input/output error: remove these cgroups") {
		t.Errorf("problems %q", texts)
	}
	for at, err := range tr.Threads.Stranded() {
		t.Errorf("%s counts as outside of its CPUs: %v", at, err)
	}
	tr.Threads.Note(threads.Found{Path: p, Gathered: cgroup.Gathered{Back: 5, Outside: 9, Stuck: []int{7}, Why: failed}})
	if texts := problems(); len(texts) != 1 || !strings.HasPrefix(texts[0], "9 threads of ") || tr.Threads.Moved() != 5 || tr.Threads.CountStranded() != 9 {
		t.Errorf("after a scan: problems %q, %d moved, %d stranded", texts, tr.Threads.Moved(), tr.Threads.CountStranded())
	}
	tr.Threads.Note(threads.Found{Path: p})
	if texts := problems(); len(texts) > 0 {
		t.Errorf("after a scan without findings: problems %q", texts)
	}
	tr.Threads.Note(threads.Found{Path: p, Gathered: cgroup.Gathered{Unread: 1, UnreadErr: failed}})
	refresh(cgroup.Gathered{More: true})
	if len(problems()) != 1 {
		t.Error("the result of the scan is lost")
	}
	refresh(cgroup.Gathered{})
	if texts := problems(); len(texts) > 0 {
		t.Errorf("after the event loop has read all threads: problems %q", texts)
	}
	tr.Threads.Note(threads.Found{Path: "gone", Gathered: cgroup.Gathered{Unread: 1, UnreadErr: failed}})
	if texts := problems(); len(texts) > 0 {
		t.Errorf("problems of a cgroup that is no target: %q", texts)
	}
}

// TestContainerBeingMade checks that the cache does not read a cgroup while the OCI runtime
// writes its files, and reads it when the runtime asks to start the container.
func TestContainerBeingMade(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	slice := "kubepods-podu.slice"
	e := m.Expect(cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice},
		cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Created, CgroupsPath: slice + ":cri-containerd:c"}, false)
	e.Answer(cpuset.Of(4), cpuset.Set{})
	k := newKernel()
	k.state = cgroup.State{HasCPUSet: true, Effective: cpuset.Range(0, 7)}
	tr := newCache(k)
	all := []cgroup.Target{{Path: e.Path, Container: "c", CPUs: cpuset.Of(4)}}
	exists := func() bool {
		if gone, errs := tr.Refresh(all, m.Objects()); len(gone)+len(errs) > 0 {
			t.Fatal(gone, errs)
		}
		return tr.Current(e.Path).Exists
	}
	m.SetNRI(true)
	if exists() {
		t.Error("read while it is being made")
	}
	m.SetNRI(false)
	if tr.Invalidate(e.Path); !exists() {
		t.Error("not read although the runtime does not ask")
	}
	m.SetNRI(true)
	if tr.Invalidate(e.Path); exists() {
		t.Error("read while it is being made, with NRI again")
	}
	m.MarkStarting(e)
	if tr.Invalidate(e.Path); !exists() {
		t.Error("not read when the runtime asks whether it may start")
	}
}

// TestNoteReading checks which readings after a notice of a write bring nothing new.
func TestNoteReading(t *testing.T) {
	k := newKernel()
	k.state = cgroup.State{HasCPUSet: true, HasCPU: true, CPUs: cpuset.Of(0), Effective: cpuset.Of(0), Weight: 100}
	tr, all := newCache(k), targets(1)
	p := all[0].Path
	tr.Refresh(all, noObjects)
	read := func(change func(*cgroup.State)) cgroup.State {
		st, err := k.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		change(&st)
		return st
	}
	other := read(func(st *cgroup.State) { st.CPUs = cpuset.Of(1) })
	for name, c := range map[string]struct {
		st   cgroup.State
		want bool
	}{
		"the same":          {read(func(*cgroup.State) {}), true},
		"effective CPUs":    {read(func(st *cgroup.State) { st.Effective = cpuset.Of(1) }), true},
		"other CPUs":        {other, false},
		"another weight":    {read(func(st *cgroup.State) { st.Weight = 1 }), false},
		"a partition":       {read(func(st *cgroup.State) { st.Partition.Type = cgroup.RootPartition }), false},
		"a cgroup of crun":  {read(func(st *cgroup.State) { st.Inner = &cgroup.State{} }), false},
		"without a cpu.max": {read(func(st *cgroup.State) { st.HasCPU = false }), false},
	} {
		if got, _ := tr.NoteReading(c.st); got != c.want {
			t.Errorf("%s: %t; want %t", name, got, c.want)
		}
	}
	tr.NoteSubmitted(cgroup.Write{Path: p, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "1"})
	if expected, _ := tr.NoteReading(other); !expected {
		t.Error("the CPUs of an own write in progress are unexpected")
	}
	runsOn := func(cpu int) func(*cgroup.State) { return func(st *cgroup.State) { st.Effective = cpuset.Of(cpu) } }
	_, same := tr.NoteReading(read(runsOn(0)))
	if _, moved := tr.NoteReading(read(runsOn(1))); same || !moved || tr.Current(p).Effective.String() != "1" {
		t.Errorf("runs on %s", tr.Current(p).Effective)
	}
	if _, moved := tr.NoteReading(cgroup.State{Path: "unknown", Effective: cpuset.Of(1)}); moved || tr.Has("unknown") {
		t.Error("an unknown cgroup is recorded")
	}
}

// TestWithoutProcesses checks that a running container is fetched again if no process has been
// in its cgroup.
func TestWithoutProcesses(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Running, CgroupsPath: "kubepods-podu.slice:cri-containerd:c"}})
	all := []cgroup.Target{{Path: m.Objects().Container("c").Path, Container: "c", CPUs: cpuset.Of(0)}}
	for i, c := range []struct{ populated, gone bool }{{false, true}, {true, false}, {false, false}} { // the last one ends
		k := newKernel()
		k.state.Populated = c.populated
		if gone, errs := newCache(k).Refresh(all, m.Objects()); len(errs) > 0 || (len(gone) == 1) != c.gone {
			t.Errorf("reading %d: gone %v, errors %v", i, gone, errs)
		}
	}
}

// TestRunsOutside checks which cgroups run on CPUs outside their target.
func TestRunsOutside(t *testing.T) {
	k := newKernel()
	k.state = cgroup.State{CPUs: cpuset.Range(0, 3), Effective: cpuset.Range(0, 3)}
	c, want := newCache(k), targets(1)
	c.Refresh(want, noObjects)
	for cpus, outside := range map[string]bool{"0-3": false, "0-7": false, "0-2": true, "4": true, "": false} {
		set, err := cpuset.Parse(cpus)
		if err != nil {
			t.Fatal(err)
		}
		want[0].CPUs = set
		if got := c.RunsOutside(want)(want[0].Path); got != outside {
			t.Errorf("a cgroup on CPUs 0-3 with target %q: outside %t; want %t", cpus, got, outside)
		}
	}
	if c.RunsOutside(want)("other") {
		t.Error("a cgroup without a target runs outside")
	}
}

// TestInvalidateUnreachable checks that a cgroup is read again before it gets CPUs that its parent
// lacked at the last reading.
func TestInvalidateUnreachable(t *testing.T) {
	k := newKernel()
	k.state = cgroup.State{CPUs: cpuset.Range(2, 3), Effective: cpuset.Range(2, 3), ParentEffective: cpuset.Range(0, 3)}
	c, want := newCache(k), targets(1)
	c.InvalidateUnreachable(want)
	if c.HasStale() {
		t.Error("an unknown cgroup is stale")
	}
	for _, tc := range []struct {
		name string
		cpus cpuset.Set
		read bool
	}{
		{"the same CPUs", cpuset.Range(2, 3), false},
		{"other CPUs of the parent", cpuset.Range(0, 1), false},
		{"a CPU that the parent lacks", cpuset.Range(3, 4), true},
		{"no CPUs", cpuset.Set{}, false},
	} {
		c.Refresh(want, noObjects)
		want[0].CPUs = tc.cpus
		if c.InvalidateUnreachable(want); c.IsStale(want[0].Path) != tc.read {
			t.Errorf("%s: read again: %t; want %t", tc.name, !tc.read, tc.read)
		}
	}
	// A cgroup that has its CPUs is not read in each pass, although the parent lacks some of them.
	k.state.CPUs, want[0].CPUs = cpuset.Range(3, 4), cpuset.Range(3, 4)
	c.Invalidate(want[0].Path)
	c.Refresh(want, noObjects)
	if c.InvalidateUnreachable(want); c.HasStale() {
		t.Error("a cgroup with its CPUs is read again")
	}
}
