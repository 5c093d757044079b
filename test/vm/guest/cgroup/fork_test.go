//go:build guest

package cgroup_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

const (
	// forkers is the number of processes that fork without pause, each in its own cgroup: one write to the cgroup above gives as many
	// chances.
	forkers = 2
	// forkWrites are enough for a result: of 1,200 writes two left a thread behind, and of 7,000 with one forker ten (kernel
	// 6.12).
	forkWrites = 10_000
	forkTime   = 3 * time.Minute
)

// TestForkedMeanwhile checks that Gather moves threads that the kernel leaves behind. A thread that is forked during a write of cpuset.cpus may
// keep its old CPUs. The test ends with the first such thread, and fails if none appears: then Gather is not needed, or the test no longer
// proves it. On a machine that is too busy for enough writes the test is skipped. An idle one makes more than a hundred writes a second, and
// one with ten other guests on its two CPUs makes seven.
func TestForkedMeanwhile(t *testing.T) {
	newKernel(t)
	fs, err := cgroup.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	const p = "forks"
	top := filepath.Join(mount, p)
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // its cpuset is in the way of partitions
		for i := range forkers {
			removed(t, filepath.Join(top, strconv.Itoa(i)))
		}
		removed(t, top)
	})
	if err := os.WriteFile(top+"/cgroup.subtree_control", []byte("+cpuset"), 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := fs.Write(p, "cgroup.kill", "1"); err != nil {
			t.Error(err)
		}
	}()
	var lists []*os.File
	for i := range forkers {
		name := filepath.Join(p, strconv.Itoa(i))
		if err := os.Mkdir(filepath.Join(mount, name), 0o755); err != nil {
			t.Fatal(err)
		}
		forker := taskIn(t, name, taskForks)
		if err := forker.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { forker.Wait() }) //nolint:errcheck // it was killed
		lists = append(lists, open(t, filepath.Join(mount, name, "cgroup.threads"), os.O_RDONLY))
	}
	// The test keeps files open and runs on another CPU, because it needs hundreds of writes in a short time.
	cpus := open(t, filepath.Join(top, cgroup.FileCPUs), os.O_WRONLY)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	bind(t, 0)

	writes, behind := 0, 0
	for deadline := time.Now().Add(forkTime); behind == 0 && time.Now().Before(deadline); writes++ {
		first := 1 + 2*(writes%3) // no thread may stay on its former CPUs
		if _, err := cpus.WriteAt([]byte(strconv.Itoa(first)+"-"+strconv.Itoa(first+1)), 0); err != nil {
			t.Fatal(err)
		}
		if outside(t, lists, first) == 0 {
			continue
		}
		behind++
		found, err := fs.Gather(p)
		if err != nil || len(found.Stuck) > 0 {
			t.Fatalf("Gather = %+v, %v", found, err)
		}
		if tid := outside(t, lists, first); tid != 0 {
			t.Fatalf("write %d: thread %d may run elsewhere than on CPUs %d and %d after Gather", writes, tid, first, first+1)
		}
	}
	t.Logf("%d of %d writes left a thread behind", behind, writes)
	switch {
	case behind > 0:
	case writes < forkWrites:
		t.Skipf("no thread was left behind in %d writes, which are too few for a result", writes)
	default:
		t.Errorf("threads left behind in %d writes = 0; want at least one", writes)
	}
}

// removed removes a cgroup whose processes have been killed, as soon as they have ended.
func removed(t *testing.T, dir string) {
	t.Helper()
	err := unix.Rmdir(dir)
	for deadline := time.Now().Add(time.Minute); err == unix.EBUSY && time.Now().Before(deadline); { //nolint:errorlint // a bare errno
		err = unix.Rmdir(dir)
	}
	if err != nil && err != unix.ENOENT { //nolint:errorlint // likewise
		t.Errorf("rmdir %s: %v", dir, err)
	}
}

func open(t *testing.T, name string, flag int) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, flag, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// bind keeps the calling thread on a CPU until the end of the test.
func bind(t *testing.T, cpu int) {
	t.Helper()
	var before, only unix.CPUSet
	only.Set(cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			t.Error(err)
		}
	})
}

// outside returns a thread of the cgroups that may run on more than a CPU and the next, or 0.
func outside(t *testing.T, lists []*os.File, first int) int {
	t.Helper()
	var buffer [4096]byte
	for _, list := range lists {
		// Read once: if the list changes between two reads, the second one begins in the middle of a number.
		n, err := unix.Pread(int(list.Fd()), buffer[:], 0)
		if n <= 0 {
			t.Fatal(err)
		}
		for field := range strings.FieldsSeq(string(buffer[:n])) {
			tid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			var allowed unix.CPUSet
			if tid == 0 || unix.SchedGetaffinity(tid, &allowed) != nil {
				continue // it is ending, or has ended
			}
			if allowed.Count() != 2 || !allowed.IsSet(first) || !allowed.IsSet(first+1) {
				return tid
			}
		}
	}
	return 0
}

// forkForEver forks a child, ends it at once, and forks the next. It does so in a process that has one thread, the last of its cgroup: that
// is where the kernel's list of tasks ends. The runtimes' init is such a process. A child that may run elsewhere than its parent lives on for
// a while, so that the test finds it.
func forkForEver() {
	for fork() != 0 {
		nap(&syscall.Timespec{Sec: 3600})
	}
	while := syscall.Timespec{Nsec: 50_000_000}
	for {
		child := fork()
		if child == 0 {
			for {
				nap(&syscall.Timespec{Sec: 3600})
			}
		}
		for look := 0; affinity(child) != affinity(0); look++ {
			if look == 3 { // and not just because the kernel has come to one of the two and not to the other yet
				nap(&while)
				break
			}
		}
		syscall.RawSyscall(syscall.SYS_KILL, child, uintptr(syscall.SIGKILL), 0) //nolint:errcheck // it waits for that
		syscall.RawSyscall6(syscall.SYS_WAIT4, child, 0, 0, 0, 0, 0)             //nolint:errcheck // so it is there
	}
}

// fork, affinity and nap are system calls alone: the child of a fork has no Go runtime.
func fork() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid
}

// affinity returns the CPUs that a process may run on, as bits: the guest has fewer than fit.
func affinity(pid uintptr) (mask uint64) {
	syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, pid, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask))) //nolint:errcheck // both are there
	return mask
}

func nap(d *syscall.Timespec) {
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(d)), 0, 0) //nolint:errcheck // woken early is as good
}
