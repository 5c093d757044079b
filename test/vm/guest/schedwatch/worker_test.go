//go:build guest

package schedwatch_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
)

// mount is where the guest mounts cgroup v2.
const mount = "/sys/fs/cgroup"

// workEnv makes this test binary a worker, or makes it open the program.
const (
	workEnv  = "SCHEDWATCH_TASK"
	taskWork = "work"
	taskOpen = "open"
)

func TestMain(m *testing.M) {
	switch os.Getenv(workEnv) {
	case taskWork:
		work()
	case taskOpen:
		_, err := schedwatch.Open(mount, runtime.NumCPU())
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// work obeys the lines of the standard input: a number of rounds, and the microseconds of each to spin and to sleep.
// It answers each with a line.
func work() {
	runtime.LockOSThread()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var rounds, spin, sleep int
		if _, err := fmt.Sscan(lines.Text(), &rounds, &spin, &sleep); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		pause := unix.NsecToTimespec(int64(sleep) * 1000)
		for range rounds {
			for begin := time.Now(); time.Since(begin) < time.Duration(spin)*time.Microsecond; {
			}
			if sleep > 0 {
				_ = unix.Nanosleep(&pause, nil) // an interrupted sleep is a switch, too
			}
		}
		fmt.Println("done")
	}
	os.Exit(0)
}

// worker is a process in a cgroup.
type worker struct {
	*testing.T
	pid   int
	stdin io.Writer
	lines *bufio.Reader
}

// newCgroup makes a cgroup with CPUs.
func newCgroup(t *testing.T, name, cpus string) {
	t.Helper()
	dir := filepath.Join(mount, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Rmdir(dir) }) // a process that was moved here keeps it
	write(t, filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"), "+cpuset")
	if cpus != "" {
		write(t, filepath.Join(dir, "cpuset.cpus"), cpus)
	}
}

// write writes to a file of the kernel.
func write(t *testing.T, name, value string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		t.Fatal(err)
	}
}

// newWorker starts a worker in a cgroup.
func newWorker(t *testing.T, cgroup string) *worker {
	t.Helper()
	dir, err := os.Open(filepath.Join(mount, cgroup))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{workEnv + "=" + taskWork, "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	cmd.Stderr = os.Stderr
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
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	w := &worker{T: t, pid: cmd.Process.Pid, stdin: stdin, lines: bufio.NewReader(stdout)}
	w.run(1, 0, 0)
	return w
}

// begin starts work.
func (w *worker) begin(rounds, spin, sleep int) {
	w.Helper()
	if _, err := fmt.Fprintln(w.stdin, rounds, spin, sleep); err != nil {
		w.Fatal(err)
	}
}

// run runs work to its end.
func (w *worker) run(rounds, spin, sleep int) {
	w.Helper()
	w.begin(rounds, spin, sleep)
	if line, err := w.lines.ReadString('\n'); err != nil || line != "done\n" {
		w.Fatalf("worker: %q, %v", line, err)
	}
}

// count returns the kernel's counts of all threads: CPU time and switches.
func (w *worker) count() schedwatch.Count {
	w.Helper()
	var all schedwatch.Count
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", w.pid))
	if err != nil || len(threads) == 0 {
		w.Fatalf("threads of %d: %v, %v", w.pid, threads, err)
	}
	for _, dir := range threads {
		stat, err := os.ReadFile(dir + "/schedstat")
		if err != nil {
			w.Fatal(err)
		}
		ns, err := strconv.Atoi(strings.Fields(string(stat))[0])
		if err != nil {
			w.Fatal(err)
		}
		all.Time += time.Duration(ns)
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			w.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				n, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					w.Fatal(err)
				}
				all.Switches += uint64(n)
			}
		}
	}
	return all
}

// eventually repeats a check until it passes.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	timeout, again := time.After(10*time.Second), time.Tick(50*time.Millisecond)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-timeout:
			t.Fatalf("%s: %v", what, err)
		case <-again:
		}
	}
}
