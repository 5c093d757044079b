//go:build guest

package cgroup_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const mount = "/sys/fs/cgroup"

// kernel is the real cgroup v2 tree as the conformance suite wants it.
type kernel struct {
	possible            cpuset.Set
	nodes               cpuset.Set
	major, minor, patch int
}

func newKernel(t *testing.T) kernel {
	t.Helper()
	possible, err := cpuset.Parse(read(t, "/sys/devices/system/cpu/possible"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mount+"/cgroup.subtree_control", []byte("+cpuset +cpu"), 0); err != nil {
		t.Fatal(err)
	}
	nodes, err := cpuset.Parse(read(t, "/sys/devices/system/node/has_memory"))
	if err != nil {
		t.Fatal(err)
	}
	k := kernel{possible: possible, nodes: nodes}
	k.major, k.minor, k.patch = release(t)
	return k
}

func release(t *testing.T) (major, minor, patch int) {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	if n, err := fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch); n < 2 { // 7.3-rc7 has no third
		t.Fatal(err)
	}
	t.Logf("kernel %s", release)
	return major, minor, patch
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(data), "\n")
}

func (k kernel) ReadFile(name string, _ int) ([]byte, error) {
	return os.ReadFile(filepath.Join(mount, name))
}

func (k kernel) WriteFile(name, value string) error {
	f, err := os.OpenFile(filepath.Join(mount, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(int(f.Fd()), []byte(value)) // one write(2), also of no bytes
	return errors.Join(err, f.Close())
}

func (k kernel) ReadDir(name string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(mount, name))
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (k kernel) Mkdir(name string) error { return os.Mkdir(filepath.Join(mount, name), 0o755) }

func (k kernel) Rmdir(name string) error {
	if err := unix.Rmdir(filepath.Join(mount, name)); err != nil {
		return &fs.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

func (k kernel) Task(t testing.TB, name string) (stop func()) {
	return startTask(t, name).stop
}

func (k kernel) SetOnline(t testing.TB, cpu int, online bool) {
	t.Helper()
	value := "0"
	if online {
		value = "1"
	}
	file := filepath.Join("/sys/devices/system/cpu", "cpu"+strconv.Itoa(cpu), "online")
	if err := os.WriteFile(file, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

func (k kernel) Notify() (cgroup.Notices, error) { return cgroup.Inotify(mount) }

// Watches counts the lines of the process's inotify instances (proc_pid_fdinfo(5)).
func (k kernel) Watches(t testing.TB) int {
	t.Helper()
	const dir = "/proc/self/fdinfo"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, e := range entries {
		info, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // that of ReadDir
			t.Fatal(err)
		}
		count += strings.Count(string(info), "inotify wd:")
	}
	return count
}

func (k kernel) Possible() cpuset.Set  { return k.possible }
func (k kernel) Nodes() cpuset.Set     { return k.nodes }
func (k kernel) ClearsPopulated() bool { return k.major >= 7 }
func (k kernel) Nice() bool            { return true }

// Partitions returns the rules of the version. A property counts only if a test has
// shown it.
func (k kernel) Partitions() testnode.PartitionRules {
	return testnode.PartitionsLike(k.major, k.minor, k.patch)
}

func (k kernel) Online(t testing.TB) cpuset.Set {
	t.Helper()
	online, err := cpuset.Parse(read(t, "/sys/devices/system/cpu/online"))
	if err != nil {
		t.Fatal(err)
	}
	return online
}

func (k kernel) IdleWeight() uint64 {
	if k.major > 6 || k.major == 6 && k.minor >= 12 {
		return 1
	}
	return 0
}

// task is a process that has taskMemory and waits until its standard input is
// closed: this test binary again, see TestMain.
type task struct {
	pid  int
	stop func()
}

const (
	taskEnv   = "CGROUP_TEST_TASK"
	taskWaits = "wait"
	taskForks = "fork"

	taskThreads = "threads" // waits with manyThreads
	manyThreads = 100
)

func TestMain(m *testing.M) {
	switch os.Getenv(taskEnv) {
	case taskForks:
		forkForEver()
	case taskThreads:
		for range manyThreads {
			go func() {
				runtime.LockOSThread()
				os.Stdout.Write([]byte{1}) //nolint:errcheck // the test counts
				select {}
			}()
		}
		os.Stdin.Read(make([]byte, 1)) //nolint:errcheck // wait for the end of the input
		os.Exit(0)
	case taskWaits:
		memory := make([]byte, taskMemory)
		for i := range memory {
			memory[i] = 1
		}
		os.Stdout.Write(memory[:1])    //nolint:errcheck // the test waits for it
		os.Stdin.Read(make([]byte, 1)) //nolint:errcheck // wait for the end of the input
		runtime.KeepAlive(memory)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func startTask(t testing.TB, name string) task {
	t.Helper()
	return startTaskOf(t, name, taskWaits, 1)
}

// startTaskOf starts a task and waits until it has written so many bytes.
func startTaskOf(t testing.TB, name, kind string, ready int) task {
	t.Helper()
	cmd := taskIn(t, name, kind)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, ready)); err != nil { // it has its memory, or threads
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return task{cmd.Process.Pid, stop}
}

// allowed returns the CPUs in the status of a process.
func (p task) allowed(t testing.TB) string {
	t.Helper()
	status := read(t, filepath.Join("/proc", strconv.Itoa(p.pid), "status"))
	for line := range strings.Lines(status) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	t.Fatalf("no Cpus_allowed_list in the status of %d", p.pid)
	return ""
}

// taskIn is this test binary again, in a cgroup and not started yet.
func taskIn(t testing.TB, name, task string) *exec.Cmd {
	t.Helper()
	dir, err := os.Open(filepath.Join(mount, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), taskEnv+"="+task, "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	return cmd
}
