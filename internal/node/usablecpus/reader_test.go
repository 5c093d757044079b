package usablecpus_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machine is a machine with eight CPUs, a tree of cgroups, and no event of CPUs.
type machine struct {
	tree *testnode.Cgroups
	top  *topology.Topology
}

// failing is a tree in which the root's CPUs cannot be read while err is set.
type failing struct {
	cgroup.Tree
	err error
}

func (f *failing) ReadFile(name string, limit int) ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Tree.ReadFile(name, limit)
}

// switched is a tree whose files cannot be read while it is on. Goroutines share it.
type switched struct {
	cgroup.Tree
	on atomic.Bool
}

func (s *switched) ReadFile(name string, limit int) ([]byte, error) {
	if s.on.Load() {
		return nil, syscall.EIO
	}
	return s.Tree.ReadFile(name, limit)
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	top, err := topology.Read(nodefixture.Sysfs(8))
	if err != nil {
		t.Fatal(err)
	}
	return &machine{testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7), Partitions: testnode.PartitionsLike(7, 0, 0)}), top}
}

func (m *machine) Watch(ctx context.Context, changed func() error) error {
	err := changed()
	if err == nil {
		<-ctx.Done()
	}
	return err
}

func (m *machine) Read(*topology.Topology) (*topology.Topology, error) { return m.top, nil }

// TestReader checks that each change is reported once, also of a CPU that is offline and
// withheld, and that an error keeps the withheld CPUs.
func TestReader(t *testing.T) {
	m := newMachine(t)
	tree := &failing{Tree: m.tree}
	m.tree.SetLimit(cpuset.Range(0, 5))
	r, first := usablecpus.NewReader(m, cgroup.New(tree), m.top, slog.New(slog.DiscardHandler))
	if got := first.Topology.Online.String(); got != "0-5" {
		t.Fatalf("first machine has CPUs %s; want 0-5", got)
	}
	read := func(want string) {
		t.Helper()
		got := "no change"
		if err := r.Read(func(m usablecpus.Machine) { got = m.Topology.Online.String() }); !errors.Is(err, tree.err) {
			t.Errorf("Read: %v; want %v", err, tree.err)
		}
		if got != want {
			t.Errorf("Read reports %s; want %s", got, want)
		}
	}
	read("no change")
	m.tree.SetLimit(cpuset.Range(0, 3))
	read("0-3")
	read("no change")
	tree.err = syscall.EIO
	m.top = m.top.Without(cpuset.Of(0))
	read("1-3")
	tree.err = nil
	m.tree.SetLimit(cpuset.Set{})
	read("1-7")
	m.tree.SetLimit(cpuset.Of(0)) // of a CPU that is offline: no CPU would be left
	read("1-7")
}

// TestUnreadRoot checks that all CPUs count if the root cannot be read, and that the log shows it.
func TestUnreadRoot(t *testing.T) {
	m := newMachine(t)
	m.tree.SetLimit(cpuset.Range(0, 5))
	var log strings.Builder
	got := usablecpus.CutOrLog(m.top, cgroup.New(&failing{m.tree, syscall.EIO}), slog.New(slog.NewTextHandler(&log, nil)))
	if got.Topology != m.top || len(got.Withheld) > 0 || !strings.Contains(log.String(), syscall.EIO.Error()) {
		t.Errorf("machine %v, log %q; want all CPUs, and the error", got, &log)
	}
}

// TestLogLost checks that an error is logged once, and again after a success.
func TestLogLost(t *testing.T) {
	m := newMachine(t)
	var log strings.Builder
	r, _ := usablecpus.NewReader(m, cgroup.New(m.tree), m.top, slog.New(slog.NewTextHandler(&log, nil)))
	r.LogLost(errors.New("no socket"))
	r.LogLost(errors.New("no socket"))
	if got := strings.Count(log.String(), "no socket"); got != 1 {
		t.Errorf("logged %d times; want 1", got)
	}
	if err := r.Read(func(usablecpus.Machine) {}); err != nil {
		t.Fatal(err)
	}
	r.LogLost(errors.New("no socket"))
	if got := strings.Count(log.String(), "no socket"); got != 2 {
		t.Errorf("logged %d times after a success; want 2", got)
	}
}

// TestWatchPolls checks that Watch finds a change without an event of a CPU, and that an error of
// the poll ends it.
func TestWatchPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		tree := &switched{Tree: m.tree}
		r, _ := usablecpus.NewReader(m, cgroup.New(tree), m.top, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		listens := 0
		var ended error
		done := make(chan struct{})
		watch := func() {
			ended = r.Watch(ctx, func() { listens++ }, func(m usablecpus.Machine) { got = append(got, m.Topology.Online.String()) })
			done <- struct{}{}
		}
		go watch()
		time.Sleep(time.Minute)
		m.tree.SetLimit(cpuset.Range(0, 5))
		time.Sleep(time.Minute)
		synctest.Wait()
		if listens != 1 || len(got) != 1 || got[0] != "0-5" {
			t.Errorf("listens %d times, changes %v; want 1 and 0-5", listens, got)
		}
		tree.on.Store(true)
		<-done
		if !errors.Is(ended, syscall.EIO) {
			t.Errorf("Watch: %v; want %v", ended, syscall.EIO)
		}
		tree.on.Store(false)
		go watch()
		synctest.Wait()
		cancel()
		if <-done; ended != nil {
			t.Errorf("Watch: %v; want nil after its context has ended", ended)
		}
	})
}

// ending is a tree in which a partition ends after the root's CPUs have been read.
type ending struct {
	cgroup.Tree
	end func()
}

func (e *ending) ReadFile(name string, limit int) ([]byte, error) {
	b, err := e.Tree.ReadFile(name, limit)
	if name == "cpuset.cpus.effective" && e.end != nil {
		e.end()
		e.end = nil
	}
	return b, err
}

// TestReaderPartitionEnds checks that the CPUs of a partition which ends during the reading do not
// count as a limit of the container.
func TestReaderPartitionEnds(t *testing.T) {
	m := newMachine(t)
	m.tree.SetLimit(cpuset.Range(0, 5))
	tree := &ending{Tree: m.tree, end: func() { m.tree.SetLimit(cpuset.Range(0, 6)) }}
	got, err := usablecpus.Cut(m.top, cgroup.New(tree))
	if err != nil || got.Topology.Online.String() != "0-6" {
		t.Errorf("Cut: CPUs %s, %v; want 0-6", got.Topology.Online, err)
	}
}
