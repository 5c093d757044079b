package config_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
)

// waitTimeout bounds the wait for an expected event on a busy machine.
const waitTimeout = 30 * time.Second

// watched is a running Watch.
type watched struct {
	t     *testing.T
	wakes chan struct{}
	done  chan error
	stop  context.CancelFunc
}

// watch starts Watch and waits until it stands.
func watch(t *testing.T, path string) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watched{t, make(chan struct{}, 100), make(chan error, 1), cancel}
	go func() { w.done <- config.Watch(ctx, path, func() { w.wakes <- struct{}{} }) }()
	w.wait()
	return w
}

func (w *watched) wait() {
	w.t.Helper()
	select {
	case <-w.wakes:
	case err := <-w.done:
		w.t.Fatalf("Watch returned %v", err)
	case <-time.After(waitTimeout):
		w.t.Fatal("Watch reports no change")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name string
		// setup makes the file and returns the steps; after each the watch must
		// wake.
		setup func(t *testing.T, path string) []func()
	}{
		{"write", func(t *testing.T, path string) []func() {
			write(t, path, "1")
			return []func(){func() { write(t, path, "2") }, func() { write(t, path, "3") }}
		}},
		{"editor renames", func(t *testing.T, path string) []func() {
			write(t, path, "1")
			return []func(){func() {
				must(t, os.Rename(path, path+"~"))
				write(t, path+".new", "2")
				must(t, os.Rename(path+".new", path))
			}}
		}},
		{"remove and create", func(t *testing.T, path string) []func() {
			write(t, path, "1")
			return []func(){func() { must(t, os.Remove(path)) }, func() { write(t, path, "1") }}
		}},
		{"ConfigMap", func(t *testing.T, path string) []func() {
			dir := filepath.Dir(path)
			swap := func(version, text string) {
				write(t, filepath.Join(dir, version, filepath.Base(path)), text)
				must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
				must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
			}
			swap("..1", "1")
			must(t, os.Symlink("..data/"+filepath.Base(path), path))
			return []func(){
				func() { swap("..2", "2"); must(t, os.RemoveAll(filepath.Join(dir, "..1"))) },
				func() { swap("..3", "3"); must(t, os.RemoveAll(filepath.Join(dir, "..2"))) },
			}
		}},
		{"link into another directory", func(t *testing.T, path string) []func() {
			one, two := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
			write(t, one, "1")
			write(t, two, "2")
			must(t, os.Symlink(one, path))
			return []func(){
				func() { write(t, one, "1 again") },
				func() { must(t, os.Remove(path)); must(t, os.Symlink(two, path)) },
				func() { write(t, two, "2 again") },
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "config.yaml")
			steps := c.setup(t, path)
			w := watch(t, path)
			for _, step := range steps {
				step()
				w.wait()
			}
			w.stop()
			if err := <-w.done; err != nil {
				t.Errorf("Watch = %v; want nil when its context is done", err)
			}
		})
	}
}

func TestWatchLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc")
	path := filepath.Join(dir, "config.yaml")
	write(t, path, "1")
	w := watch(t, path)
	must(t, os.RemoveAll(dir))
	select {
	case err := <-w.done:
		if err == nil {
			t.Error("Watch = nil; want an error when the directory is gone")
		}
	case <-time.After(waitTimeout):
		t.Fatal("Watch does not report the missing directory")
	}
}

func TestWatchNothing(t *testing.T) {
	err := config.Watch(t.Context(), filepath.Join(t.TempDir(), "no", "config.yaml"), func() { t.Error("woken") })
	if err == nil {
		t.Error("Watch = nil; want an error when there is no directory")
	}
}
