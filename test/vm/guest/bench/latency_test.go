//go:build guest

package bench_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
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
	fs, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for range latencySamples {
		p := m.sandbox(kind{namespace: "default", cpus: 1}, 1)
		container := m.create(p, "app")
		path := p.slice.Join("cri-containerd-" + container + ".scope")
		made := awaitMkdir(t, filepath.Join("/sys/fs/cgroup", string(path)))
		started := make(chan struct{})
		go func() {
			defer close(started)
			_, err := m.rpc.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: container})
			if err != nil {
				t.Errorf("start container: %v", err)
			}
		}()
		var verified time.Time
		created := <-made
		eventually(t, resolution, func() error {
			st, err := fs.Read(path)
			if err == nil && (st.CPUs.IsEmpty() || !st.Effective.IsSubsetOf(guaranteed())) {
				err = fmt.Errorf("%s runs on %s", path, st.Effective)
			}
			verified = time.Now()
			return err
		})
		<-started
		status, err := m.rpc.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: container})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Unix(0, status.GetStatus().GetStartedAt())
		sample(t, "Placement", verified.Sub(created).Nanoseconds(), "mkdir-ns", verified.Sub(start).Nanoseconds(), "started-ns")
		m.remove(p)
	}
}

// awaitMkdir sends the time at which a directory is made; the directory above must exist.
func awaitMkdir(t *testing.T, dir string) <-chan time.Time {
	t.Helper()
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close() })
	if err := watch.Add(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
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
