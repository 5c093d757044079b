//go:build guest

package bench_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	latencySamples = 30
	// resolution is how often the kernel is asked for a container's CPUs. One question takes an emulated CPU half a millisecond.
	resolution = 2 * time.Millisecond
)

// TestPlacement measures how long a container with a CPU of its own is elsewhere. Samples:
//
//   - mkdir-ns: from the creation of its cgroup, as inotify tells it, until the kernel says that it is effective on guaranteed CPUs;
//   - started-ns: until then from the moment that the runtime records as its start, when its entrypoint runs already. It is negative
//     for a container that was placed before.
func TestPlacement(t *testing.T) {
	startDaemon(t)
	m := newMaker(t)
	for range latencySamples {
		m.births(t, kind{namespace: "default", cpus: 1}, guaranteed(), 1, func(b birth) {
			sample(t, "Placement", b.mkdir.Nanoseconds(), "mkdir-ns", b.started.Nanoseconds(), "started-ns")
		})
	}
}

// birth is how a container came to its CPUs.
type birth struct {
	create  time.Duration // the runtime's answer to CreateContainer, in which it asks the daemon
	mkdir   time.Duration // from the creation of its cgroup to verified
	started time.Duration // from its start to verified
}

// births makes a pod whose container ends and begins again, n times, and sees it come to its pool each time.
func (m *maker) births(t *testing.T, k kind, pool cpuset.Set, n int, each func(birth)) {
	t.Helper()
	p, err := m.sandbox(t.Context(), k, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		each(m.birth(t, p, pool, i))
	}
	if err := m.remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func (m *maker) birth(t *testing.T, p pod, pool cpuset.Set, attempt int) (b birth) {
	t.Helper()
	fs := openCgroups(t)
	began := time.Now()
	container, err := m.create(t.Context(), p, "app", attempt)
	if err != nil {
		t.Fatal(err)
	}
	b.create = time.Since(began)
	path := p.scope(container)
	made := awaitMkdir(t, filepath.Join(cgroupMount, string(path)))
	started := make(chan error, 1)
	go func() { started <- m.start(t.Context(), container) }()
	var created time.Time
	select {
	case created = <-made:
	case err := <-started:
		t.Fatalf("start container: %v, and no cgroup was seen", err)
	}
	var verified time.Time
	eventually(t, resolution, func() error {
		st, err := fs.Read(path)
		if err == nil && (st.CPUs.IsEmpty() || !st.Effective.IsSubsetOf(pool)) {
			err = fmt.Errorf("%s runs on %s", path, st.Effective)
		}
		verified = time.Now()
		return err
	})
	if err := <-started; err != nil {
		t.Fatalf("start container: %v", err)
	}
	status, err := m.rpc.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: container})
	if err != nil {
		t.Fatal(err)
	}
	b.mkdir = verified.Sub(created)
	b.started = verified.Sub(time.Unix(0, status.GetStatus().GetStartedAt()))
	if err := m.end(t.Context(), container); err != nil {
		t.Fatal(err)
	}
	return b
}

func openCgroups(t *testing.T) *cgroup.FS {
	t.Helper()
	fs, err := cgroup.Open(cgroupMount)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// awaitMkdir sends the time at which a directory is made; the directory above must exist.
func awaitMkdir(t *testing.T, dir string) <-chan time.Time {
	t.Helper()
	watch := watchDir(t, filepath.Dir(dir))
	made := make(chan time.Time, 1)
	go func() {
		for e := range watch.Events {
			if e.Has(fsnotify.Create) && e.Name == dir {
				made <- time.Now()
				_ = watch.Close()
				return
			}
		}
	}()
	return made
}

// repair has somebody else write to the CPUs of a container, and returns how long it takes until the kernel says that they are as before.
// The kernel tells of each write, so that nothing is asked in between, which would take CPU time from the daemon.
func repair(t *testing.T, path cgroup.Path, foreign string) time.Duration {
	t.Helper()
	fs := openCgroups(t)
	before, err := fs.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	watch := watchDir(t, filepath.Join(cgroupMount, string(path)))
	defer watch.Close() //nolint:errcheck // nothing was written
	began := time.Now()
	if err := fs.Write(path, cgroup.FileCPUs, foreign); err != nil {
		t.Fatal(err)
	}
	limit := time.After(patience)
	for {
		select {
		case <-watch.Events:
			st, err := fs.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if st.CPUs.Equal(before.CPUs) && st.Effective.Equal(before.Effective) {
				return time.Since(began)
			}
		case err := <-watch.Errors:
			t.Fatal(err)
		case <-limit:
			t.Fatal(errors.New("nobody has repaired " + string(path)))
		}
	}
}

func watchDir(t *testing.T, dir string) *fsnotify.Watcher {
	t.Helper()
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close() })
	if err := watch.Add(dir); err != nil {
		t.Fatal(err)
	}
	return watch
}
