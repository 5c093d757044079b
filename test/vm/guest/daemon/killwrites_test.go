//go:build guest

package daemon_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// exactKill kills the daemon after a number of its own writes to cgroups, before it opens a file for the next one. fanotify(7) reports each
// write. A process that opens a file waits until that report is read. Writes by other processes for the daemon do not count. With 0 the daemon
// ends after the first write of any process.
type exactKill struct {
	after int
	pid   int // of the daemon, if it may die of others' writes
	group *os.File
	ended chan struct{}

	mu     sync.Mutex
	writes []string // files
	dead   bool
	err    error
}

// diesAfter begins to count. The daemon may be started later, unless writes of others end it.
func (n *node) diesAfter(writes int) *exactKill {
	n.Helper()
	pid, err := strconv.Atoi(n.property("MainPID"))
	if err != nil || pid == 0 && writes == 0 {
		n.Fatalf("the daemon does not run: %v", err)
	}
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY)
	if err != nil {
		n.Fatalf("fanotify: %v", err)
	}
	d := &exactKill{after: writes, pid: pid, group: os.NewFile(uintptr(fd), "fanotify"), ended: make(chan struct{})}
	// All mounts of it: the daemon's unit has a separate one.
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, unix.FAN_OPEN_PERM|unix.FAN_MODIFY, unix.AT_FDCWD, "/sys/fs/cgroup"); err != nil {
		_ = d.group.Close()
		n.Fatalf("watch /sys/fs/cgroup: %v", err)
	}
	go d.run()
	return d
}

// end returns the files that the daemon has written, whether it was killed, and the error.
func (d *exactKill) end() (writes []string, dead bool, err error) {
	err = d.group.Close() // waiting processes go on
	<-d.ended
	return d.writes, d.dead, errors.Join(err, d.err)
}

func (d *exactKill) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

func (d *exactKill) run() {
	defer close(d.ended)
	buf := make([]byte, 64<<10)
	for {
		n, err := d.group.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		// The cgroup of the event is removed. The kernel cannot open the file for the reader, and drops the event
		// (copy_event_to_user, fs/notify/fanotify/fanotify_user.c). A write of the daemon is then not counted.
		if errors.Is(err, syscall.ENODEV) {
			continue
		}
		d.mu.Lock()
		if err != nil { // the next read would fail, too
			d.err = errors.Join(d.err, err)
			d.mu.Unlock()
			return
		}
		for rest := buf[:n]; len(rest) > 0; {
			var event unix.FanotifyEventMetadata
			if _, err := binary.Decode(rest, binary.NativeEndian, &event); err != nil {
				d.err = errors.Join(d.err, err)
				break
			}
			rest = rest[event.Event_len:]
			d.err = errors.Join(d.err, d.handle(event))
		}
		d.mu.Unlock()
	}
}

// handle handles one event.
func (d *exactKill) handle(event unix.FanotifyEventMetadata) error {
	if event.Mask&unix.FAN_Q_OVERFLOW != 0 {
		return errors.New("fanotify has lost events")
	}
	file := os.NewFile(uintptr(event.Fd), "event")
	defer file.Close()
	if event.Mask&unix.FAN_MODIFY != 0 {
		return d.wrote(file, int(event.Pid))
	}
	answer, err := binary.Append(nil, binary.NativeEndian, unix.FanotifyResponse{Fd: event.Fd, Response: unix.FAN_ALLOW})
	if err == nil {
		_, err = d.group.Write(answer)
	}
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, os.ErrClosed) { // the waiting process was killed, or goes on without an answer
		return nil
	}
	return err
}

// wrote counts a write by the daemon, and kills the daemon after the last one.
func (d *exactKill) wrote(file *os.File, pid int) error {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || strings.TrimSpace(string(comm)) != "cpupoold" {
		if d.after > 0 || d.dead {
			return nil //nolint:nilerr // the process has ended
		}
		d.dead = true
		return kill(d.pid)
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return err
	}
	d.writes = append(d.writes, strings.TrimPrefix(name, "/sys/fs/cgroup/"))
	if len(d.writes) < d.after || d.dead {
		return nil
	}
	d.dead = true
	return kill(pid)
}

// kill ends a daemon, which may have ended: it is restarted, too.
func kill(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
