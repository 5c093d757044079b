package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

const (
	noisy = cgroup.Path("p.slice/noisy.scope")
	calm  = cgroup.Path("p.slice/calm.scope")

	// limit is the number of notices of a cgroup in a second before the Watcher mutes it.
	limit = 1000
	// longest is the longest pause between two reports of an overflow.
	longest = 30 * time.Second
)

// watched is a Watcher of the fake tree, with a clock that the test sets.
type watched struct {
	*testing.T
	*cgroup.Watcher
	tree *testnode.Cgroups
	now  time.Time
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	tree, fs := newTree(string(noisy), string(calm))
	h := &watched{T: t, tree: tree, now: time.Now()}
	var err error
	if h.Watcher, err = fs.Watch(func() {}, func() time.Time { return h.now }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	h.set()
	h.take()
	return h
}

func (h *watched) set() {
	h.Helper()
	if err := h.Set([]cgroup.Path{noisy, calm}, []cgroup.Path{"p.slice"}); err != nil {
		h.Fatal(err)
	}
}

// take returns the changes, without their times.
func (h *watched) take() []cgroup.Change {
	h.Helper()
	h.tree.AwaitReaders()
	changes, err := h.Take(longest)
	if err != nil {
		h.Fatal(err)
	}
	for i := range changes {
		changes[i].At = time.Time{}
	}
	return changes
}

// after moves the clock and returns the changes.
func (h *watched) after(d time.Duration) []cgroup.Change {
	h.Helper()
	h.now = h.now.Add(d)
	return h.take()
}

func (h *watched) check(what string, got []cgroup.Change, want ...cgroup.Change) {
	h.Helper()
	if d := cmp.Diff(want, got); d != "" {
		h.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// write writes two files of a cgroup in turn, count writes in all.
func (h *watched) write(p cgroup.Path, count int) {
	h.Helper()
	h.tree.AwaitReaders() // the reader uses the clock
	for i := range count {
		file, value := cgroup.FileCPUs, "0-1"
		if i%2 == 1 {
			file, value = cgroup.FileWeight, "100"
		}
		if err := h.tree.Write(string(p)+"/"+file, value); err != nil {
			h.Fatal(err)
		}
	}
}

// TestFloodMutes checks that a cgroup with too many notices loses only its own watch, is reported
// as written once a second, and gets its watch back.
func TestFloodMutes(t *testing.T) {
	h := newWatched(t)
	written := func(p cgroup.Path, name string) cgroup.Change {
		return cgroup.Change{Kind: cgroup.Written, Path: p, Name: name}
	}
	h.write(noisy, limit)
	h.check("as many notices as allowed", h.take(), written(noisy, cgroup.FileCPUs), written(noisy, cgroup.FileWeight))
	h.check("a second later", h.after(time.Second))
	h.write(noisy, 3*limit)
	h.check("too many notices", h.take(), written(noisy, cgroup.FileCPUs), written(noisy, cgroup.FileWeight),
		written(noisy, ""), cgroup.Change{Kind: cgroup.Flooded, Path: noisy})
	if files, _ := h.Reports(noisy); files {
		t.Error("the flooded cgroup still has a watch; want none")
	}
	h.set()
	h.write(noisy, 10)
	h.write(calm, 1)
	h.check("another cgroup", h.take(), written(calm, cgroup.FileCPUs))
	if due := h.Due(); !due.Equal(h.now.Add(time.Second)) {
		t.Errorf("due in %v; want one second", due.Sub(h.now))
	}
	h.check("too early", h.after(time.Second-1))
	h.check("due", h.after(1), written(noisy, ""))
	h.check("due again", h.after(time.Second), written(noisy, ""))
	if !h.Settled() {
		t.Error("Set would watch the flooded cgroup; want it to wait")
	}
	h.check("the end of the mute", h.after(28*time.Second), written(noisy, ""))
	if h.Settled() || !h.Due().IsZero() {
		t.Errorf("settled, due after the mute = %v, %v; want false and no time", h.Settled(), h.Due())
	}
	h.set()
	h.check("with a new watch", h.take(), written(noisy, ""))
	h.write(noisy, 1)
	h.check("a write", h.take(), written(noisy, cgroup.FileCPUs))
	if got := h.Flooding(); !slices.Equal(got, []cgroup.Path{noisy}) {
		t.Errorf("Flooding = %v; want the cgroup for a minute of calm", got)
	}
	h.after(time.Minute)
	if got := h.Flooding(); got != nil {
		t.Errorf("Flooding = %v; want none", got)
	}
}

// TestFloodEndsWithCgroup checks that a new cgroup of the same name is watched at once, and that
// a cgroup whose children are reported is never muted.
func TestFloodEndsWithCgroup(t *testing.T) {
	h := newWatched(t)
	h.write(noisy, 3*limit)
	h.take()
	if err := h.tree.Remove(string(noisy)); err != nil {
		t.Fatal(err)
	}
	h.tree.MkdirAll(string(noisy))
	h.take()
	h.set()
	if files, _ := h.Reports(noisy); !files {
		t.Error("the new cgroup has no watch; want one")
	}
	for range limit {
		child := "p.slice/child.scope"
		h.tree.MkdirAll(child)
		if err := h.tree.Remove(child); err != nil {
			t.Fatal(err)
		}
	}
	h.take()
	if _, children := h.Reports("p.slice"); !children || h.Flooding() != nil {
		t.Errorf("Flooding of the pod's slice = %v; want none", h.Flooding())
	}
}

// TestOverflowPauses checks that the first overflow is reported at once, that the next reports
// follow after growing pauses, and that notices arrive in a pause.
func TestOverflowPauses(t *testing.T) {
	h := newWatched(t)
	overflow := cgroup.Change{Kind: cgroup.Overflow}
	lose := func() { h.tree.LoseNotices(func() {}) }
	lose()
	h.check("the first overflow", h.take(), overflow)
	h.set()
	h.take()
	lose()
	h.write(calm, 1)
	h.check("in the pause", h.take(), cgroup.Change{Kind: cgroup.Written, Path: calm, Name: cgroup.FileCPUs})
	if due := h.Due(); !due.Equal(h.now.Add(time.Second)) {
		t.Errorf("due in %v; want one second", due.Sub(h.now))
	}
	h.check("after the pause", h.after(time.Second), overflow)

	began := h.now
	var at []time.Duration
	for h.now.Sub(began) < 2*time.Minute {
		lose()
		if slices.Contains(h.after(100*time.Millisecond), overflow) {
			at = append(at, h.now.Sub(began))
		}
	}
	if d := cmp.Diff([]time.Duration{2 * time.Second, 6 * time.Second, 14 * time.Second, 30 * time.Second, 60 * time.Second, 90 * time.Second, 120 * time.Second}, at); d != "" {
		t.Errorf("overflows are reported at (-want +got):\n%s", d)
	}
	h.after(2*longest + 1) // no overflow for so long
	lose()
	h.check("first overflow after a long time", h.take(), overflow)
	lose()
	h.check("after the first pause", h.after(time.Second), overflow)
}

// onDisk is a tree with the notices of a real directory.
type onDisk struct {
	*testnode.Cgroups
	dir string
}

func (d onDisk) Notify() (cgroup.Notices, error) { return cgroup.Inotify(d.dir) }

// TestFloodOfKernel writes two files in a loop, which overflows the kernel's queue if the reader
// is slower. It checks that the work is bounded, and that notices of another directory arrive.
func TestFloodOfKernel(t *testing.T) {
	dir := t.TempDir()
	open := func(p cgroup.Path, name string) *os.File {
		file := filepath.Join(dir, string(p), name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	files := []*os.File{open(noisy, cgroup.FileCPUs), open(noisy, cgroup.FileWeight)}
	other := open(calm, cgroup.FileCPUs)
	tree, _ := newTree(string(noisy), string(calm))
	woken, wakes := make(chan struct{}, 1), atomic.Int64{}
	w, err := cgroup.New(onDisk{tree, dir}).Watch(func() {
		wakes.Add(1)
		select {
		case woken <- struct{}{}:
		default:
		}
	}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	both := []cgroup.Path{noisy, calm}
	if err := w.Set(both, nil); err != nil {
		t.Fatal(err)
	}
	end, ended, writes := make(chan struct{}), make(chan struct{}), atomic.Int64{}
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
				if _, err := files[i%2].WriteAt([]byte("1"), 0); err != nil {
					t.Error(err)
					return
				}
				writes.Add(1)
			}
		}
	}()
	defer func() { close(end); <-ended }()

	overflows, began := 0, time.Now()
	until := func(what string, done func(cgroup.Change) bool) {
		t.Helper()
		deadline := time.After(time.Minute)
		for {
			changes, err := w.Take(time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, c := range changes {
				if c.Kind == cgroup.Overflow {
					overflows++
				}
				found = found || done(c)
			}
			if err := w.Set(both, nil); err != nil {
				t.Fatal(err)
			}
			if found {
				return
			}
			select {
			case <-woken:
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				t.Fatalf("no %s after %d writes", what, writes.Load())
			}
		}
	}
	until("report of the flood", func(c cgroup.Change) bool { return c.Kind == cgroup.Flooded && c.Path == noisy })
	before := wakes.Load()
	const more = 100_000
	for flooded := writes.Load(); writes.Load() < flooded+more; time.Sleep(time.Millisecond) {
	}
	if _, err := other.WriteAt([]byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	until("notice of another cgroup", func(c cgroup.Change) bool {
		return c.Kind == cgroup.Written && c.Path == calm && c.Name == cgroup.FileCPUs
	})
	took := time.Since(began)
	// The watch returns every 30 s, with the same number of wakes. Each report of an overflow
	// doubles the pause from one second, and Set watches again after it.
	again := int64(took/(30*time.Second)) + 1
	if n := wakes.Load() - before; n > again*(limit+10) {
		t.Errorf("wakes = %d for %d writes in %v; want fewer", n, writes.Load(), took)
	}
	if overflows > 2+int(took/(10*time.Second)) {
		t.Errorf("reported overflows = %d in %v; want fewer", overflows, took)
	}
	t.Logf("%d writes in %v: %d wakes, %d overflows", writes.Load(), took, wakes.Load(), overflows)
}

// TestInotify checks the notices of a real directory.
func TestInotify(t *testing.T) {
	dir := t.TempDir()
	n, err := cgroup.Inotify(dir)
	if err != nil {
		t.Fatal(err)
	}
	next := func(kind cgroup.ChangeKind, dir, name string) {
		t.Helper()
		got, err := n.Next()
		if want := (cgroup.Notice{Kind: kind, Dir: dir, Name: name}); err != nil || got != want {
			t.Fatalf("Next = %+v, %v; want %+v", got, err, want)
		}
	}
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	a := filepath.Join(dir, "a")
	file := filepath.Join(a, "f")
	write := func() error { return os.WriteFile(file, []byte("x"), 0o600) }
	if err := n.Add("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Add of a missing directory = %v; want fs.ErrNotExist", err)
	}
	do(n.Add("."), os.Mkdir(a, 0o755))
	next(cgroup.Appeared, ".", "a")
	do(write(), n.Add("a"), os.Chmod(file, 0o644), os.Chmod(a, 0o700)) // attributes are not reported
	do(os.Truncate(file, 0))
	next(cgroup.Written, "a", "f")

	// The events of a removed watch, and of a former directory of the same name, do not count.
	do(os.Truncate(file, 1))
	n.Remove("a")
	do(os.Truncate(file, 2), n.Add("a"), os.Truncate(file, 3))
	next(cgroup.Written, "a", "f")
	n.Remove("a")
	do(os.RemoveAll(a), os.Mkdir(a, 0o755))
	next(cgroup.Gone, ".", "a")
	next(cgroup.Appeared, ".", "a")

	ended := make(chan error)
	go func() {
		_, err := n.Next()
		ended <- err
	}()
	do(n.Close())
	if err := <-ended; err == nil {
		t.Error("Next after Close = nil; want an error")
	}
	if err := n.Add("a"); err == nil {
		t.Error("Add after Close = nil; want an error")
	}
	n.Remove("a")
}
