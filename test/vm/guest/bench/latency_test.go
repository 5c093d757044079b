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
	// rows times podsInRow pods are 100 pods with the daemon and 100 without it.
	rows, podsInRow = 4, 25
	// resolution is the interval of reads of a container's CPUs. One read takes an emulated CPU half a millisecond.
	resolution = 2 * time.Millisecond
)

// TestPlacement measures how long a container with exclusive CPUs runs on other CPUs. Samples:
//
//   - mkdir-ns: from the inotify event of its new cgroup until its effective CPUs are guaranteed ones;
//   - started-ns: from the runtime's start time, when its entrypoint runs already, until the same moment. It is negative for a
//     container that was placed before.
func TestPlacement(t *testing.T) {
	startDaemon(t)
	m := newMaker(t)
	for range latencySamples {
		m.placements(t, kind{namespace: "default", cpus: 1}, guaranteed(), 1, func(b placement) {
			sample(t, "Placement", b.mkdir.Nanoseconds(), "mkdir-ns", b.started.Nanoseconds(), "started-ns")
		})
	}
}

// TestRow makes pods with exclusive CPUs one after another, with the daemon and without it. A sample is for 25 pods of each:
//
//   - reply-ns: the sum of the daemon's replies to the runtime;
//   - create-ns, and bare-create-ns without the daemon: the sum of the runtime's answers to CreateContainer;
//   - row-ns: the time of the runtime for these pods with the daemon.
//
// The daemon's replies take reply-ns / row-ns of the runtime's time. The work of daemon and runtime around the
// replies makes creations slower, too: they take create-ns - bare-create-ns longer.
func TestRow(t *testing.T) {
	startDaemon(t)
	m := newMaker(t)
	for range rows {
		quiet(t)
		m.placements(t, kind{namespace: "default", cpus: 1}, guaranteed(), 1, func(placement) {}) // the daemon is connected
		before := metric(t, "cpupoold_reply_seconds_sum{")
		create, all := m.row(t)
		reply := time.Duration((metric(t, "cpupoold_reply_seconds_sum{") - before) * float64(time.Second))
		run(t, "systemctl", "stop", "cpupoold")
		bare, _ := m.row(t)
		run(t, "systemctl", "start", "cpupoold")
		sample(t, "Row", reply.Nanoseconds(), "reply-ns", create.Nanoseconds(), "create-ns", bare.Nanoseconds(), "bare-create-ns", all.Nanoseconds(), "row-ns")
	}
}

// row makes podsInRow pods, each with a container that starts and ends. It returns the sum of the creations and the time of all.
func (m *maker) row(t *testing.T) (create, all time.Duration) {
	t.Helper()
	began := time.Now()
	for range podsInRow {
		p, err := m.sandbox(t.Context(), kind{namespace: "default", cpus: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		container, err := m.create(t.Context(), p, "app", 0)
		create += time.Since(asked)
		for _, step := range []func() error{
			func() error { return err },
			func() error { return m.start(t.Context(), container) },
			func() error { return m.end(t.Context(), container) },
			func() error { return m.remove(t.Context(), p) },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return create, time.Since(began)
}

// placement holds the times of one placement.
type placement struct {
	create  time.Duration // the runtime's answer to CreateContainer, in which it asks the daemon
	mkdir   time.Duration // from the creation of its cgroup to verified
	started time.Duration // from its start to verified
}

// placements makes a pod whose container ends and starts n times, and measures each placement.
func (m *maker) placements(t *testing.T, k kind, pool cpuset.Set, n int, each func(placement)) {
	t.Helper()
	p, err := m.sandbox(t.Context(), k, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		each(m.placement(t, p, pool, i))
	}
	if err := m.remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func (m *maker) placement(t *testing.T, p pod, pool cpuset.Set, attempt int) (b placement) {
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

// repair writes to the CPUs of a container as another process, and returns the time until the kernel has the earlier value. Inotify
// reports each write, so the wait takes no CPU time from the daemon.
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
	limit := time.After(nodeTimeout)
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
			t.Fatal(errors.New("no repair of " + string(path)))
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
