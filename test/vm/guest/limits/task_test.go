//go:build guest

package limits_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// taskEnv makes this test binary a process that has so many threads and waits with all of them.
const taskEnv = "LIMITS_THREADS"

func TestMain(m *testing.M) {
	threads, err := strconv.Atoi(os.Getenv(taskEnv))
	if err != nil {
		os.Exit(m.Run())
	}
	var begun sync.WaitGroup
	for range threads {
		begun.Add(1)
		go func() {
			runtime.LockOSThread()
			begun.Done()
			select {}
		}()
	}
	begun.Wait()
	os.Stdout.Write([]byte("\n"))  //nolint:errcheck // the test waits for it
	os.Stdin.Read(make([]byte, 1)) //nolint:errcheck // wait for the end of the input
	os.Exit(0)
}

// process starts one of a single thread in a cgroup, that waits until the end of the test.
func (m *meter) process(in cgroup.Path) {
	m.Helper()
	cmd := exec.Command("sleep", "infinity")
	m.within(cmd, in)
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no other end
		_ = cmd.Wait()
	})
}

// manyThreads starts a process of so many threads, at least, which all wait.
func (m *meter) manyThreads(in cgroup.Path, threads int) {
	m.Helper()
	cmd := exec.Command("/proc/self/exe")
	m.within(cmd, in)
	cmd.Env = append(os.Environ(), taskEnv+"="+strconv.Itoa(threads), "GOMAXPROCS=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		m.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // it has its threads
		m.Fatal(err)
	}
	got := m.threads(cmd.Process.Pid)
	if m.Logf("%d threads", got); got < threads {
		m.Fatalf("%d threads; want %d", got, threads)
	}
}

func (m *meter) within(cmd *exec.Cmd, p cgroup.Path) {
	m.Helper()
	dir, err := os.Open(filepath.Join(mount, string(p)))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = dir.Close() })
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
}
