//go:build guest

package cgroup_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestForkedMeanwhile: who is forked while cpuset.cpus is written may be left behind by
// the kernel, and nobody is after Gather.
func TestForkedMeanwhile(t *testing.T) {
	newKernel(t)
	fs, err := cgroup.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	const p = "forks"
	if err := os.Mkdir(filepath.Join(mount, p), 0o755); err != nil {
		t.Fatal(err)
	}
	forker := taskIn(t, p, taskForks)
	if err := forker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := fs.Write(p, "cgroup.kill", "1"); err != nil {
			t.Error(err)
		}
		forker.Wait() //nolint:errcheck // it was killed
	}()
	var back int
	for round := range 4000 {
		cpus := cpuset.Of(1 + round%6)
		if err := fs.Write(p, cgroup.FileCPUs, cpus.String()); err != nil {
			t.Fatal(err)
		}
		found, err := fs.Gather(p)
		if err != nil || len(found.Stuck) > 0 {
			t.Fatalf("round %d: Gather = %+v, %v", round, found, err)
		}
		back += found.Back
		for field := range strings.FieldsSeq(read(t, filepath.Join(mount, p, "cgroup.threads"))) {
			status, err := os.ReadFile(filepath.Join("/proc", field, "status"))
			if err != nil {
				continue // it has ended
			}
			_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:\t")
			if allowed, _, _ := strings.Cut(rest, "\n"); allowed != cpus.String() {
				t.Fatalf("round %d: thread %s may run on %s, after Gather on %s", round, field, allowed, cpus)
			}
		}
	}
	t.Logf("%d of 4000 writes left somebody behind", back)
}

// forkForEver forks a child that waits, ends it after a moment, and forks the next. It
// does so in a process that has one thread, the last of its cgroup: that is where the
// kernel's list of tasks ends. The runtimes' init is such a process.
func forkForEver() {
	moment := syscall.Timespec{Nsec: 1_000_000}
	for fork() != 0 {
		nap(&syscall.Timespec{Sec: 3600})
	}
	for {
		child := fork()
		if child == 0 {
			for {
				nap(&syscall.Timespec{Sec: 3600})
			}
		}
		nap(&moment)
		syscall.RawSyscall(syscall.SYS_KILL, child, uintptr(syscall.SIGKILL), 0) //nolint:errcheck // it waits for that
		syscall.RawSyscall6(syscall.SYS_WAIT4, child, 0, 0, 0, 0, 0)             //nolint:errcheck // so it is there
	}
}

// fork and nap are system calls alone: the child of a fork has no Go runtime.
func fork() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid
}

func nap(d *syscall.Timespec) {
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(d)), 0, 0) //nolint:errcheck // woken early is as good
}
