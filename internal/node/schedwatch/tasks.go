package schedwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
)

const (
	kernelThread = 0x00200000 // PF_KTHREAD of include/linux/sched.h
	rootCgroup   = 1          // the id of the root of cgroup v2
	// kernfsHandle is the type of a file handle that holds the id of a cgroup
	// (FILEID_KERNFS of include/linux/exportfs.h).
	kernfsHandle = 0xfe
	// longestProc bounds the read of a file of a task. The longest is status, with a line of allowed CPUs and nodes.
	longestProc = 16384
	// mostPaths bounds the known paths of cgroups.
	mostPaths = 4096
	// removed ends the path of a removed file (d_path of the kernel).
	removed = " (deleted)"
)

// tasks finds out about cgroups and tasks. Several goroutines may use it.
type tasks struct {
	path string // of the cgroup root, without symbolic links

	mu    sync.Mutex
	root  *os.File
	paths map[uint64]string
}

// newTasks opens the cgroup root. Without the right to open cgroups by their ids, no path would be known.
// Then the daemon could not recognize the tasks of a unit that has started again, and would report them.
func newTasks(root string) (*tasks, error) {
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, fmt.Errorf("open the cgroup root: %w", err)
	}
	f, err := os.Open(resolved)
	if err != nil {
		return nil, fmt.Errorf("open the cgroup root: %w", err)
	}
	t := &tasks{path: resolved, root: f, paths: map[uint64]string{}}
	fd, err := t.open(rootCgroup)
	switch {
	case err == nil:
		err = unix.Close(fd)
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOSYS):
		err = nil // the kernel allows the call
	}
	if err != nil {
		return nil, errors.Join(unavailable(fmt.Errorf("open a cgroup by its id: %w", err)), f.Close())
	}
	return t, nil
}

func (t *tasks) open(id uint64) (fd int, err error) {
	handle := unix.NewFileHandle(kernfsHandle, binary.NativeEndian.AppendUint64(nil, id))
	return unix.OpenByHandleAt(int(t.root.Fd()), handle, unix.O_PATH|unix.O_CLOEXEC)
}

func (t *tasks) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.root.Close()
}

// id returns the id of a cgroup. On 64-bit machines it is the number of the inode.
func (t *tasks) id(cgroup string) (uint64, error) {
	var stat unix.Stat_t
	name := filepath.Join(t.path, cgroup)
	if err := unix.Stat(name, &stat); err != nil {
		return 0, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return stat.Ino, nil
}

// cgroup returns the path of a cgroup below the root. It is empty for the root, and if the cgroup was
// removed before its first call.
func (t *tasks) cgroup(id uint64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, known := t.paths[id]; known || id == rootCgroup {
		return p
	}
	fd, err := t.open(id)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return ""
	}
	p, below := strings.CutPrefix(name, t.path+"/")
	if !below {
		return ""
	}
	if strings.HasSuffix(p, removed) { // the kernel's mark of a removed cgroup, unless a cgroup has this name
		if now, err := t.id(p); err != nil || now != id {
			return ""
		}
	}
	if len(t.paths) >= mostPaths {
		clear(t.paths)
	}
	t.paths[id] = p
	return p
}

// ids returns the ids of a cgroup and of the cgroups above it without the root.
func (t *tasks) ids(cgroup string) (ids []uint64, err error) {
	for ; cgroup != "." && cgroup != ""; cgroup = path.Dir(cgroup) {
		id, err := t.id(cgroup)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// read returns the description of a thread that runs on a CPU, from /proc. ids holds the ids of its
// cgroup and of the cgroups above it.
func (t *tasks) read(cpu, tid int) (task Task, ids []uint64, err error) {
	own, err := readProc(tid, "cgroup", audit.ParseCgroup)
	if err != nil {
		return Task{}, nil, err
	}
	ids, err = t.ids(own)
	if err != nil {
		return Task{}, nil, err
	}
	stat, err := readProc(tid, "stat", audit.ParseStat)
	if err != nil {
		return Task{}, nil, err
	}
	kind, err := kindOf(tid, stat.Flags)
	if err != nil {
		return Task{}, nil, err
	}
	tgid, err := readProc(tid, "status", parseTGID)
	if err != nil {
		return Task{}, nil, err
	}
	id := uint64(rootCgroup)
	if len(ids) > 0 {
		id = ids[0]
	}
	return Task{CPU: cpu, Kind: kind, PID: tid, TGID: tgid, Command: stat.Comm, CgroupID: id, Cgroup: own}, ids, nil
}

// kind returns the kind of a task in the root cgroup, which had this name. It is Unknown if the task has ended.
func (t *tasks) kind(tid int, command string) Kind {
	stat, err := readProc(tid, "stat", audit.ParseStat)
	if err != nil || !isNameOf(stat, command) {
		return Unknown
	}
	kind, err := kindOf(tid, stat.Flags)
	if err != nil {
		return Unknown
	}
	return kind
}

// isNameOf reports whether a task of /proc has the kernel's name of it. For a worker of a workqueue,
// /proc appends its present work.
func isNameOf(stat audit.Reading, command string) bool {
	return stat.Comm == command || stat.Flags&kernelThread != 0 && strings.HasPrefix(stat.Comm, command)
}

func kindOf(tid int, flags uint64) (Kind, error) {
	if flags&kernelThread == 0 {
		return User, nil
	}
	allowed, err := readProc(tid, "status", audit.ParseAllowed)
	if err != nil {
		return 0, err
	}
	if allowed.Len() == 1 {
		return BoundKernel, nil
	}
	return OtherKernel, nil
}

func readProc[T any](tid int, name string, parse func([]byte) (T, error)) (v T, err error) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(tid), name))
	if err != nil {
		return v, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, longestProc))
	if err != nil {
		return v, err
	}
	return parse(b)
}

// parseTGID returns the number of the process in /proc/TID/status.
func parseTGID(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if n, found := bytes.CutPrefix(line, []byte("Tgid:")); found {
			return strconv.Atoi(string(bytes.TrimSpace(n)))
		}
	}
	return 0, errors.New("status: no Tgid")
}

func (t *tasks) task(key watchKey, row account.Row) Task {
	command := make([]byte, 0, len(key.Comm))
	for _, c := range key.Comm {
		if c == 0 {
			break
		}
		command = append(command, byte(c)) //nolint:gosec // a char
	}
	task := Task{
		CPU: int(key.Cpu), Kind: Kind(key.Kind), PID: int(row.PID), TGID: int(row.TGID), Command: string(command), //nolint:gosec // a kind
		CgroupID: key.Cgroup, Cgroup: t.cgroup(key.Cgroup), Time: time.Duration(row.Time), Switches: row.Switches, //nolint:gosec // less than the time since the boot
	}
	if task.Kind == Unknown {
		task.Kind = t.kind(task.PID, task.Command)
	}
	return task
}
