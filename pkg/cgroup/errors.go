package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

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
