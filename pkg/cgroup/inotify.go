package cgroup

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Notifier is what a [Tree] has beyond reading and writing when it can tell of
// changes.
type Notifier interface {
	// Notify begins to tell; of nothing, before the first Add.
	Notify() (Notices, error)
}

// Notices tell of what happens in directories, each by itself: what is below its
// children is not told of. Its methods can be called by several goroutines.
type Notices interface {
	// Add begins to tell of a directory. Without one it is fs.ErrNotExist.
	Add(dir string) error
	// Remove ends that. It also has to be called for directories that are gone: up
	// to kernel 7.0 their watches stay.
	Remove(dir string)
	// Next waits for a notice. An error is the end: there will be no more.
	Next() (Notice, error)
	// Close ends it all; a Next that waits returns an error.
	Close() error
}

// Notice is one thing that has happened in a directory.
type Notice struct {
	Kind ChangeKind
	Dir  string // below the mount, "." for its root; empty for Overflow
	Name string // of the file or of the directory in it
}

// Inotify tells of changes below the cgroup2 mount at dir, with one inotify
// instance. The kernel tells of writes of user space, not of what it changes by
// itself, such as cpuset.cpus.effective.
func Inotify(dir string) (Notices, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		if errors.Is(err, syscall.EMFILE) {
			return nil, fmt.Errorf("watch cgroups: %w (raise the sysctl fs.inotify.max_user_instances, which all services of root share)", err)
		}
		return nil, fmt.Errorf("watch cgroups: %w", err)
	}
	return &inotify{dir: filepath.Clean(dir), watcher: w}, nil
}

type inotify struct {
	dir     string
	watcher *fsnotify.Watcher
}

// Notify implements [Notifier].
func (t rootTree) Notify() (Notices, error) { return Inotify(t.root.Name()) }

func (n *inotify) Add(dir string) error {
	name := filepath.Join(n.dir, dir)
	// fsnotify would leave a watch of a former directory of that name to the kernel.
	_ = n.watcher.Remove(name) // it is rarely there
	err := n.watcher.Add(name)
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("watch %s: %w (raise the sysctl fs.inotify.max_user_watches, which all services of root share)", name, err)
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", name, err)
	}
	return nil
}

func (n *inotify) Remove(dir string) {
	// From kernel 7.1 on it may be gone already, which is all that can go wrong.
	_ = n.watcher.Remove(filepath.Join(n.dir, dir))
}

func (n *inotify) Next() (Notice, error) {
	for {
		select {
		case e, ok := <-n.watcher.Events:
			if !ok {
				return Notice{}, errors.New("watch cgroups: inotify is closed")
			}
			if notice, ok := n.notice(e); ok {
				return notice, nil
			}
		case err, ok := <-n.watcher.Errors:
			switch {
			case !ok:
				return Notice{}, errors.New("watch cgroups: inotify is closed")
			case errors.Is(err, fsnotify.ErrEventOverflow):
				return Notice{Kind: Overflow}, nil
			}
			return Notice{}, fmt.Errorf("watch cgroups: %w", err)
		}
	}
}

// notice translates an event. Files of cgroups come and go without any, so what is
// created or removed is a directory.
func (n *inotify) notice(e fsnotify.Event) (Notice, bool) {
	name, err := filepath.Rel(n.dir, e.Name)
	if err != nil || name == "." {
		return Notice{}, false
	}
	notice := Notice{Dir: path.Dir(name), Name: path.Base(name)}
	switch {
	case e.Has(fsnotify.Create):
		notice.Kind = Appeared
	case e.Has(fsnotify.Remove):
		notice.Kind = Gone
	case e.Has(fsnotify.Write):
		notice.Kind = Written
	default:
		return Notice{}, false
	}
	return notice, true
}

func (n *inotify) Close() error { return n.watcher.Close() }
