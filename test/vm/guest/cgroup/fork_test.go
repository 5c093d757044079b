//go:build guest

package cgroup_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
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
	// It takes thousands of writes; where the kernel does not do it there is nothing to
	// bring back.
	writes, behind := 0, 0
	for deadline := time.Now().Add(30 * time.Second); behind < 3 && time.Now().Before(deadline); writes++ {
		cpu := 1 + writes%6
		if err := fs.Write(p, cgroup.FileCPUs, strconv.Itoa(cpu)); err != nil {
			t.Fatal(err)
		}
		if outside(t, p, cpu) == 0 {
			continue
		}
		behind++
		if found, err := fs.Gather(p); err != nil || len(found.Stuck) > 0 {
			t.Fatalf("Gather = %+v, %v", found, err)
		}
		if tid := outside(t, p, cpu); tid != 0 {
			t.Fatalf("write %d: thread %d may run elsewhere than on CPU %d after Gather", writes, tid, cpu)
		}
	}
	t.Logf("%d of %d writes left somebody behind", behind, writes)
}

// outside returns a thread of the cgroup that may run on other CPUs, 0 if there is none.
func outside(t *testing.T, p string, cpu int) int {
	t.Helper()
	for field := range strings.FieldsSeq(read(t, filepath.Join(mount, p, "cgroup.threads"))) {
		tid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		var allowed unix.CPUSet
		if tid == 0 || unix.SchedGetaffinity(tid, &allowed) != nil {
			continue // it is ending, or has ended
		}
		if allowed.Count() != 1 || !allowed.IsSet(cpu) {
			return tid
		}
	}
	return 0
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
