package cgroup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Notifier is a [Tree] that reports changes.
type Notifier interface {
	// Notify returns a source of notices, without a watch.
	Notify() (Notices, error)
}

// Notices reports changes in directories. A watch of a directory covers its files and its
// children, and nothing below the children. All methods are safe for concurrent use, but only
// one goroutine may call Next.
type Notices interface {
	// Add watches a directory. The error is fs.ErrNotExist if the directory is missing.
	Add(dir string) error
	// Remove ends the watch of a directory. The caller also removes the watches of deleted
	// directories, because kernels up to 7.0 keep these watches.
	Remove(dir string)
	// Next waits for a notice. After an error there are no more notices.
	Next() (Notice, error)
	// Close ends all watches. A waiting Next returns an error.
	Close() error
}

// Notice is one change in a directory.
type Notice struct {
	Kind ChangeKind
	Dir  string // below the mount, "." for its root; empty for Overflow
	Name string // of the file or of the directory in Dir
}

// watchedEvents are the events of a watch. IN_ATTRIB is not among them: the daemon needs no
// mode, owner or extended attribute, and a container could fill the queue by changing them.
const watchedEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ONLYDIR

// readBuffer is the size in bytes of the buffer for events. It must hold one event with the
// longest name. An event of cpuset.cpus has 32 bytes.
const readBuffer = 64 << 10

// Inotify returns the notices of the cgroup2 mount at dir, from one inotify instance. The kernel
// reports writes by processes. It does not report its own changes of most files, such as
// cpuset.cpus.effective.
//
// Inotify reads the events itself and does not use fsnotify. Fsnotify also watches attributes.
// It names a directory and not a watch, so that a late event of a deleted directory counts for
// the next directory of the same name. And each event passes through another goroutine, so that
// the kernel's queue is emptied more slowly.
func Inotify(dir string) (Notices, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		if errors.Is(err, syscall.EMFILE) {
			return nil, fmt.Errorf("watch cgroups: %w (raise the sysctl fs.inotify.max_user_instances, which all services of root share)", err)
		}
		return nil, fmt.Errorf("watch cgroups: %w", err)
	}
	return &inotify{
		dir: filepath.Clean(dir), file: os.NewFile(uintptr(fd), "inotify"), fd: fd, buffer: make([]byte, readBuffer),
		dirs: make(map[int32]string), watches: make(map[string]int32),
	}, nil
}

type inotify struct {
	dir  string
	file *os.File // Close ends a Read that waits
	fd   int      // of file

	// Only Next uses these two.
	buffer []byte
	unread []byte // the events in buffer that Next has not returned

	mu      sync.Mutex // guards the fields below; held from the system call to the change of the maps
	closed  bool
	dirs    map[int32]string // by watch descriptor, which the kernel does not use again soon
	watches map[string]int32 // by directory
}

// Notify implements [Notifier].
func (t rootTree) Notify() (Notices, error) { return Inotify(t.root.Name()) }

func (n *inotify) Add(dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := filepath.Join(n.dir, dir)
	if n.closed {
		return fmt.Errorf("watch %s: %w", name, os.ErrClosed)
	}
	n.remove(dir) // a watch of a deleted directory of the same name would stay
	wd, err := unix.InotifyAddWatch(n.fd, name, watchedEvents)
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("watch %s: %w (raise the sysctl fs.inotify.max_user_watches, which all services of root share)", name, err)
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", name, err)
	}
	n.dirs[int32(wd)], n.watches[dir] = dir, int32(wd)
	return nil
}

func (n *inotify) Remove(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.remove(dir)
	}
}

// remove ends the watch of a directory. The caller holds mu. Next skips the queued events of the
// watch.
func (n *inotify) remove(dir string) {
	wd, ok := n.watches[dir]
	if !ok {
		return
	}
	delete(n.watches, dir)
	delete(n.dirs, wd)
	// The only error is EINVAL: kernels from 7.1 on have removed the watch of a deleted directory.
	_, _ = unix.InotifyRmWatch(n.fd, uint32(wd))
}

func (n *inotify) Next() (Notice, error) {
	for {
		for len(n.unread) >= unix.SizeofInotifyEvent {
			if notice, ok := n.event(); ok {
				return notice, nil
			}
		}
		count, err := n.file.Read(n.buffer)
		if err != nil {
			return Notice{}, fmt.Errorf("watch cgroups: %w", err)
		}
		n.unread = n.buffer[:count]
	}
}

// event takes the first unread event and returns its notice, if it has one. The layout is struct
// inotify_event (inotify(7)). Files of cgroups appear and disappear without an event,
// so a created or deleted name is a directory.
func (n *inotify) event() (notice Notice, ok bool) {
	wd := int32(binary.NativeEndian.Uint32(n.unread))
	mask := binary.NativeEndian.Uint32(n.unread[4:])
	end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(n.unread[12:]))
	name, _, _ := bytes.Cut(n.unread[unix.SizeofInotifyEvent:end], []byte{0})
	n.unread = n.unread[end:]
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return Notice{Kind: Overflow}, true
	}
	n.mu.Lock()
	dir, ok := n.dirs[wd]
	if ok && mask&unix.IN_IGNORED != 0 { // the kernel has ended the watch
		delete(n.dirs, wd)
		delete(n.watches, dir)
	}
	n.mu.Unlock()
	if !ok || len(name) == 0 {
		return Notice{}, false
	}
	notice = Notice{Dir: dir, Name: string(name)}
	switch {
	case mask&unix.IN_CREATE != 0:
		notice.Kind = Appeared
	case mask&unix.IN_DELETE != 0:
		notice.Kind = Gone
	default:
		notice.Kind = Written
	}
	return notice, true
}

func (n *inotify) Close() error {
	n.mu.Lock()
	n.closed = true // no Add uses the descriptor from here on
	n.mu.Unlock()
	return n.file.Close()
}
