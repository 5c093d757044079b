//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// counted are the files by which CPUs change hands. The kernel's own changes of a partition count, too: what matters is that the number varies.
var counted = []string{cgroup.FileCPUs, cgroup.FileExclusive, cgroup.FilePartition}

// death kills the daemon after so many writes to cpusets. What it sees is the kernel's word: each write to a file of a cgroup, of the
// daemon's or of those that it asks.
type death struct {
	pid     int
	after   int
	watcher *fsnotify.Watcher
	ended   chan struct{}

	mu     sync.Mutex
	writes int
	dead   bool
	err    error
}

// arm begins to count. With 0 the daemon dies as soon as anything happens to a cgroup.
func (w *world) arm(after int) (*death, error) {
	pid, err := strconv.Atoi(w.property("MainPID"))
	if err != nil || pid == 0 {
		return nil, fmt.Errorf("the daemon does not run: %w", err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	d := &death{pid: pid, after: after, watcher: watcher, ended: make(chan struct{})}
	for _, root := range []string{"/sys/fs/cgroup/kubepods.slice", "/sys/fs/cgroup/system.slice"} {
		if err := d.watch(root); err != nil {
			return nil, errors.Join(err, watcher.Close())
		}
	}
	go d.run()
	return d, nil
}

// watch adds a directory with those in it.
func (d *death) watch(root string) error {
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = d.watcher.Add(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is gone already
		}
		return err
	})
	return err
}

func (d *death) run() {
	defer close(d.ended)
	for {
		var event fsnotify.Event
		open := true
		select {
		case event, open = <-d.watcher.Events:
		case err := <-d.watcher.Errors:
			d.fail(err)
		}
		switch {
		case !open:
			return
		case event.Has(fsnotify.Create):
			if err := d.watch(event.Name); err != nil {
				d.fail(err)
			}
			if d.after == 0 {
				d.kill()
			}
		case event.Has(fsnotify.Write) && slices.Contains(counted, filepath.Base(event.Name)):
			d.wrote()
		}
	}
}

// wrote counts a write. Those of a dead daemon were on their way.
func (d *death) wrote() {
	d.mu.Lock()
	d.writes++
	last := d.writes >= d.after
	d.mu.Unlock()
	if last {
		d.kill()
	}
}

// kill ends the daemon, once.
func (d *death) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return
	}
	d.dead = true
	if err := syscall.Kill(d.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // the step may have been its restart
		d.err = err
	}
}

func (d *death) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = errors.Join(d.err, err)
}

func (d *death) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

func (d *death) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

// end returns what went wrong.
func (d *death) end() error {
	err := d.watcher.Close()
	<-d.ended
	return errors.Join(err, d.err)
}
