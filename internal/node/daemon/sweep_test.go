package daemon

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// mute is a tree that loses notices of writes, without a word about it.
type mute struct {
	*testnode.Cgroups
	loses atomic.Bool
}

func (m *mute) Notify() (cgroup.Notices, error) {
	n, err := m.Cgroups.Notify()
	return muted{n, m}, err
}

type muted struct {
	cgroup.Notices
	by *mute
}

func (n muted) Next() (cgroup.Notice, error) {
	for {
		notice, err := n.Notices.Next()
		if err != nil || notice.Kind != cgroup.Written || !n.by.loses.Load() {
			return notice, err
		}
	}
}

// TestSweep: of cgroups that are watched each resync reads what the kernel changes without a notice, and
// all that is written in turns; of others, all.
func TestSweep(t *testing.T) {
	for name, c := range map[string]struct {
		deaf   bool
		period time.Duration
		turns  int
	}{
		"watched":      {turns: kernelstate.MaxTurns, period: 30 * time.Second},
		"often":        {turns: kernelstate.MaxTurns, period: 20 * time.Second},
		"rarely":       {turns: 2, period: 2 * time.Minute},
		"once an hour": {turns: 1, period: time.Hour},
		"not watched":  {turns: 1, period: 30 * time.Second, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			h, tree := n.Host(), &mute{Cgroups: n.Tree}
			if h.Cgroups = cgroup.New(tree); c.deaf {
				h.Cgroups = cgroup.New(struct {
					cgroup.Tree
					cgroup.Threads
				}{n.Tree, n.Tree})
			}
			r := n.startOn(h)
			var ids []string
			for i := range 12 {
				ids = append(ids, n.RunContainer(n.RunPod(fmt.Sprint("pod-", i), "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512}))
			}
			for _, id := range ids {
				n.AwaitCPUs(id, "2-3")
			}
			weighed := n.RunContainer(n.RunPod("weighed", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 512})
			n.AwaitCPUs(weighed, "0-1")
			r.quiet()
			r.rests()

			read, checked := make(map[cgroup.Path]int), make(map[cgroup.Path]int)
			r.inspect(func(l *Loop) {
				l.settings.Config.ResyncPeriod = c.period
				was := *l.cache
				l.cache.Read = func(p cgroup.Path) (cgroup.State, error) { read[p]++; return was.Read(p) }
				l.cache.Check = func(s cgroup.State) (cgroup.State, error) { checked[s.Path]++; return was.Check(s) }
			})
			sweeps := func(n int) {
				for range n {
					r.inspect(func(l *Loop) { l.status.toSweep = true }) // and the pass that follows is the sweep
					r.inspect(func(*Loop) {})
				}
			}
			sweeps(c.turns)
			r.inspect(func(l *Loop) {
				for p := range l.cache.Current {
					if read[p] != 1 || checked[p] != c.turns-1 {
						t.Errorf("in %d sweeps %s was read %d times and checked %d times", c.turns, p, read[p], checked[p])
					}
				}
				if len(l.cache.Current) < len(ids) {
					t.Errorf("%d cgroups", len(l.cache.Current))
				}
			})

			tree.loses.Store(true)
			write := func(id, file, value string) {
				t.Helper()
				if err := n.Tree.Write(n.Runtime.Cgroup(id)+"/"+file, value); err != nil {
					t.Fatal(err)
				}
			}
			weight := n.State(weighed).Weight
			write(ids[0], cgroup.FileCPUs, "5")
			write(weighed, cgroup.FileWeight, "7")
			sweeps(1)
			n.AwaitCPUs(ids[0], "2-3")
			sweeps(c.turns - 1)
			n.Eventually("its weight", func() bool { return n.State(weighed).Weight == weight })
			r.stop()
		})
	}
}

// TestTurns: each cgroup has one of the turns, and no turn is that of all.
func TestTurns(t *testing.T) {
	var of [kernelstate.MaxTurns]int
	for i := range 400 {
		of[kernelstate.TurnOf(cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-pod%d.slice/cri-containerd-%064x.scope", i/4, i*i)))%kernelstate.MaxTurns]++
	}
	for turn, n := range of {
		if n < 400/kernelstate.MaxTurns/2 || n > 400/kernelstate.MaxTurns*2 {
			t.Errorf("turn %d is that of %d of 400 cgroups: %v", turn, n, of)
		}
	}
}

// TestSweepFails: a cgroup that could not be read is read again without another sweep.
func TestSweepFails(t *testing.T) {
	at := func(p cgroup.Path) cgroup.State { return cgroup.State{Path: p} }
	tr := kernelstate.New(func(p cgroup.Path) (cgroup.State, error) { return at(p), nil })
	fails := true
	tr.Check = func(s cgroup.State) (cgroup.State, error) {
		if fails {
			return cgroup.State{}, fmt.Errorf("read %s: too many open files", s.Path)
		}
		return s, nil
	}
	targets := make([]cgroup.Target, 64)
	for i := range targets {
		targets[i].Path = cgroup.Path(fmt.Sprint("c", i))
		tr.Current[targets[i].Path] = cgroup.Current{State: at(targets[i].Path), Exists: true}
	}
	told := func(s cgroup.State) bool { return s.Path != "c7" }
	tr.Recheck(told, time.Second)
	_, errs := tr.Refresh(targets, inventory.New(cgroup.DriverSystemd))
	if len(errs) == 0 || len(errs) == len(targets) || len(tr.Stale) != len(errs) {
		t.Fatalf("%d errors, %d stale", len(errs), len(tr.Stale))
	}
	if _, errs = tr.Refresh(targets, inventory.New(cgroup.DriverSystemd)); len(errs) > 0 || len(tr.Stale) > 0 {
		t.Errorf("%d errors, %d stale: they are read without another sweep", len(errs), len(tr.Stale))
	}
}

// TestRefreshOfWhatStands takes no memory for a cgroup that nothing is known to have happened to.
func TestRefreshOfWhatStands(t *testing.T) {
	tr := kernelstate.New(func(p cgroup.Path) (cgroup.State, error) {
		t.Errorf("%s is read", p)
		return cgroup.State{Path: p}, nil
	})
	m := inventory.New(cgroup.DriverSystemd)
	targets := make([]cgroup.Target, 100)
	for i := range targets {
		targets[i].Path = cgroup.Path(fmt.Sprint("c", i))
		tr.Current[targets[i].Path] = cgroup.Current{State: cgroup.State{Path: targets[i].Path}, Exists: true}
	}
	if n := testing.AllocsPerRun(10, func() { tr.Refresh(targets, m) }); n > float64(len(targets)/10) {
		t.Errorf("%v allocations for %d cgroups", n, len(targets))
	}
}

// TestSweepInDoubt: whatever may be otherwise than it was told is read as a whole, and threads are asked for also
// where nothing ran when it was read.
func TestSweepInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*kernelstate.Cache)
		reads  bool
	}{
		"nothing":           {func(*kernelstate.Cache) {}, false},
		"a write of ours":   {func(t *kernelstate.Cache) { t.Since("a") }, true},
		"a worker is at it": {func(t *kernelstate.Cache) { t.Pending["a"]++ }, true},
		"stale":             {func(t *kernelstate.Cache) { t.Invalidate("a") }, true},
		"its turn":          {func(t *kernelstate.Cache) { t.Rechecks = t.Turns - 1 - kernelstate.TurnOf("a")%kernelstate.MaxTurns }, true},
		"is not there":      {func(t *kernelstate.Cache) { t.Current["a"] = cgroup.Current{State: cgroup.State{Path: "a"}} }, true},
	} {
		var reads, checks, gathers int
		tr := kernelstate.New(func(p cgroup.Path) (cgroup.State, error) { reads++; return cgroup.State{Path: p}, nil })
		tr.Check = func(s cgroup.State) (cgroup.State, error) { checks++; return s, nil }
		tr.MoveThreads = func(cgroup.Path) error { gathers++; return nil }
		tr.Current["a"] = cgroup.Current{State: cgroup.State{Path: "a"}, Exists: true}
		tr.Turns, tr.Rechecks = kernelstate.MaxTurns, 2*kernelstate.MaxTurns-kernelstate.TurnOf("a")%kernelstate.MaxTurns
		c.change(tr)
		tr.Recheck(func(cgroup.State) bool { return true }, time.Second)
		_, errs := tr.Refresh([]cgroup.Target{{Path: "a", CPUs: cpuset.Of(0)}}, inventory.New(cgroup.DriverSystemd))
		if errs != nil || (reads == 1) != c.reads || reads+checks != 1 || gathers != checks {
			t.Errorf("%s: %d reads, %d checks, %d times gathered, %v", name, reads, checks, gathers, errs)
		}
	}
}

// TestToldOf: what crun has in a container is watched by itself, and where a watch is missing no other is trusted.
func TestToldOf(t *testing.T) {
	n := newNode(t)
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	inner := n.MakeInnerCgroup(id, "0-7", "max 100000")
	r := n.start()
	n.AwaitCPUs(id, "2-3")
	r.quiet()
	r.inspect(func(l *Loop) {
		told := func(what string, s cgroup.State, want bool) {
			if got := l.watch.told(s); got != want {
				t.Errorf("%s: told %t, want %t", what, got, want)
			}
		}
		s := n.State(id)
		told("a container with crun's cgroup", s, true)
		told("crun's", cgroup.State{Path: inner}, true)
		told("its pod", cgroup.State{Path: s.Path.Parent().Parent()}, false)
		s.Inner = &cgroup.State{Path: s.Path.Join("another")}
		told("with one that is not watched", s, false)
		s.Inner, l.watch.err = nil, syscall.ENOSPC
		told("a watch is missing", s, false)
		l.watch.err = nil
		told("it is there again", s, true)
	})
	r.stop()
}
