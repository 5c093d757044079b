package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxFile is the maximum number of bytes that are read of one file. The largest that matter are CPU
// lists: 8192 CPUs without two neighbours take less than 20 KiB.
const maxFile = 1 << 20

// Tree is the access to files that FS needs. Names are slash-separated and
// relative to the cgroup2 mount; "." is its root. Errors wrap the kernel's errno
// for errors.Is.
type Tree interface {
	// ReadFile returns the whole file, or an error if it has more than limit
	// bytes.
	ReadFile(name string, limit int) ([]byte, error)
	// WriteFile writes value to an existing file with a single write(2). It never
	// creates or truncates one.
	WriteFile(name, value string) error
	// ReadDir returns the names of the directories in a directory, in any order.
	ReadDir(name string) ([]string, error)
	// Mkdir makes a directory in one that exists, Rmdir removes one without
	// children and processes.
	Mkdir(name string) error
	Rmdir(name string) error
}

// FS reads and writes the cgroups below one cgroup2 mount. It holds no state
// but the open root directory, and can be used by several goroutines.
type FS struct {
	tree     Tree
	readOnly bool // writes return ErrReadOnly
}

// New makes an FS of a tree that is known to be cgroup v2. Open is for the
// kernel's.
func New(tree Tree) *FS { return &FS{tree: tree} }

// ReadOnly returns an FS of the same cgroups without write access: writes return ErrReadOnly,
// and Gather moves no threads.
func (f *FS) ReadOnly() *FS { return &FS{tree: f.tree, readOnly: true} }

// Children returns the cgroups in p, sorted; ErrGone if p does not exist.
func (f *FS) Children(p Path) ([]Path, error) {
	if err := p.validate(); err != nil {
		return nil, &Error{Op: opList, Path: string(p), Err: err}
	}
	names, err := f.tree.ReadDir(p.name())
	if err != nil {
		return nil, &Error{Op: opList, Path: string(p), Err: goneOr(err)}
	}
	return p.children(names), nil
}

// children are the cgroups in p with the given names, sorted.
func (p Path) children(names []string) []Path {
	slices.Sort(names)
	children := make([]Path, len(names))
	for i, name := range names {
		children[i] = p.Join(name)
	}
	return children
}

// ReadFile returns the content of one file of a cgroup.
func (f *FS) ReadFile(p Path, file string) ([]byte, error) {
	name, err := p.file(file)
	if err != nil {
		return nil, &Error{Op: opRead, Path: name, Err: err}
	}
	data, err := f.tree.ReadFile(name, maxFile)
	if err != nil {
		return nil, &Error{Op: opRead, Path: name, Err: f.cause(p, err)}
	}
	return data, nil
}

// Write writes value to a file of a cgroup, in one write(2). The empty value is
// refused: the kernel takes a write of no bytes for success and does nothing.
func (f *FS) Write(p Path, file, value string) error {
	name, err := p.file(file)
	if err != nil {
		return &Error{Op: opWrite, Path: name, Value: value, Err: err}
	}
	if value == "" {
		return &Error{Op: opWrite, Path: name, Err: errors.New("empty value would be ignored by the kernel")}
	}
	if f.readOnly {
		return &Error{Op: opWrite, Path: name, Value: value, Err: ErrReadOnly}
	}
	if err := f.tree.WriteFile(name, value); err != nil {
		return &Error{Op: opWrite, Path: name, Value: value, Err: f.cause(p, err)}
	}
	return nil
}

// Apply carries out a write that goes Via File; others return an error. For the cgroup of an
// ended container it returns ErrGone.
func (f *FS) Apply(w Write) error {
	if w.Via != File {
		return fmt.Errorf("apply %s: not a write to a file", w)
	}
	return f.Write(w.Path, w.Property, w.Value)
}

// cause maps the errno of an operation on a file of p to the errors of this package. A
// missing file has two possible causes, and only the directory distinguishes them.
func (f *FS) cause(p Path, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return goneOr(err)
	}
	if _, e := f.tree.ReadFile(path.Join(p.name(), "cgroup.controllers"), maxFile); e != nil {
		return goneOr(e)
	}
	return ErrNoController
}

func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return ErrGone
	}
	return err
}

var (
	// ErrGone means that the cgroup does not exist, or is being destroyed. For a
	// container that is no error: it has ended.
	ErrGone = errors.New("cgroup is gone")
	// ErrNoController means that the cgroup exists but has no such file, because
	// its parent does not enable the controller (cgroup.subtree_control).
	ErrNoController = errors.New("controller is not enabled for this cgroup")
	// ErrReadOnly means that the FS has no write access: see [FS.ReadOnly].
	ErrReadOnly = errors.New("opened to read only")
	// ErrNotCgroup2 means that the directory is no cgroup v2 mount.
	ErrNotCgroup2 = errors.New("not a cgroup v2 file system")
)

// Error is a failed operation on a cgroup file.
type Error struct {
	Op    string // read, write, list, make or remove
	Path  string // below the cgroup2 mount, with the file's name
	Value string // what was to be written
	Err   error
}

// Error names the operation, the file, the value and the cause. A hint explains the
// errno for that file if necessary.
func (e *Error) Error() string {
	s := e.Op + " " + shorten(e.Path)
	if e.Op == opWrite {
		s += fmt.Sprintf(" %q", e.Value)
	}
	s += ": " + e.Err.Error()
	if hint := e.hint(); hint != "" {
		s += " (" + hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

const (
	opRead  = "read"
	opWrite = "write"
	opList  = "list"

	opMake   = "make"
	opRemove = "remove"
)

// hint explains what the kernel means by an errno
// (kernel/cgroup/cpuset.c, kernel/sched/core.c).
func (e *Error) hint() string {
	file := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
	switch {
	case errors.Is(e.Err, ErrNoController):
		controller, _, _ := strings.Cut(file, ".")
		return "write +" + controller + " to cgroup.subtree_control of the parent, or have systemd do it"
	case errors.Is(e.Err, syscall.EROFS):
		return "the cgroup file system is mounted read-only: mount it read-write"
	case errors.Is(e.Err, fs.ErrPermission):
		return "cgroups of pods can only be written by root of the host's user namespace"
	case e.Op != opWrite:
		return ""
	}
	for _, h := range []struct {
		file  string
		errno syscall.Errno
		hint  string
	}{
		{FileCPUs, syscall.ERANGE, "a CPU number is beyond what this kernel was built or booted for"},
		{FileCPUs, syscall.EINVAL, "a CPU is not possible on this machine, or an exclusive set of a sibling cgroup is in the way"},
		{FileCPUs, syscall.EBUSY, "a task with SCHED_DEADLINE would lose its bandwidth, or the parent is no partition root"},
		{FileCPUs, syscall.ENOSPC, "kernels before 7.0 do not clear the cpuset of a cgroup with tasks: write all possible CPUs"},
		{FileMems, syscall.EINVAL, "there is no such NUMA node"},
		{FileMems, syscall.ERANGE, "there is no such NUMA node"},
		{FileMems, syscall.ENOSPC, "kernels before 7.0 do not clear the memory nodes of a cgroup with tasks: write all nodes"},
		{FileWeight, syscall.ERANGE, "weights go from 1 to 10000"},
		{FileWeight, syscall.EINVAL, "the kernel takes no weight while cpu.idle is 1"},
		{FileMax, syscall.EINVAL, "a quota is at least 1000 us and not below cpu.max.burst, a period 1 ms to 1 s"},
	} {
		if file == h.file && errors.Is(e.Err, h.errno) {
			return h.hint
		}
	}
	return ""
}

// Usage is the CPU time that the tasks of a cgroup, and of those below it, have used
// since it was made (usage_usec of cpu.stat, which needs no controller).
func (f *FS) Usage(p Path) (time.Duration, error) {
	return readOne(f, p, "cpu.stat", parseUsage)
}

func parseUsage(data []byte) (time.Duration, error) {
	value, ok := valueOf(data, "usage_usec")
	if !ok {
		return 0, fmt.Errorf("%.100q has no usage_usec", data)
	}
	us, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
	if err != nil || us < 0 || us > int64((1<<63-1)/time.Microsecond) {
		return 0, fmt.Errorf("usage_usec %.40q is not a number of microseconds", value)
	}
	return time.Duration(us) * time.Microsecond, nil
}
