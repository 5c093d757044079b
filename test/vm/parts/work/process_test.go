package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asWork makes the test binary be the program itself, so that signals and exit statuses are the real ones.
const asWork = "CPUPOOLD_TEST_AS_WORK"

func TestMain(m *testing.M) {
	if os.Getenv(asWork) != "" {
		main()
	}
	os.Exit(m.Run())
}

func start(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asWork+"=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c, bufio.NewReader(out)
}

// eventually polls, for what the kernel offers no wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestExitStatus(t *testing.T) {
	for args, want := range map[string]int{"exit 0": 0, "exit 42": 42, "exit 3 after 0": 3, "burn": 2} {
		c, _ := start(t, strings.Fields(args)...)
		_ = c.Wait() // the status says all
		if got := c.ProcessState.ExitCode(); got != want {
			t.Errorf("work %s: exit status %d; want %d", args, got, want)
		}
	}
}

func TestReportThenTerminate(t *testing.T) {
	c, out := start(t, "report")
	for _, prefix := range []string{"cpus ", "began-with ", "on ", "cgroup "} {
		line, err := out.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, prefix) {
			t.Errorf("got %q, %v; want a line that starts with %q", line, err, prefix)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v; want status 0", err)
	}
}

func TestSpinBurnsInThatManyThreads(t *testing.T) {
	const threads = 3
	c, _ := start(t, "spin", strconv.Itoa(threads))
	eventually(t, "three threads with CPU time", func() bool {
		return busyThreads(t, c.Process.Pid) >= threads
	})
	if got := busyThreads(t, c.Process.Pid); got > threads {
		t.Errorf("%d threads burn CPU; want %d", got, threads)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v; want status 0", err)
	}
}

// busyThreads counts the threads of pid that have used at least 50 ms in user mode: field 14 of proc_pid_stat(5), in ticks of 10 ms.
func busyThreads(t *testing.T, pid int) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread ended since
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if utime, err := strconv.Atoi(strings.Fields(rest)[11]); err == nil && utime >= 5 {
			n++
		}
	}
	return n
}

func TestPauseReaps(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Not os/exec, which would wait for the child itself. The child lives until its standard input ends.
	pid, err := syscall.ForkExec("/bin/cat", []string{"cat"}, &syscall.ProcAttr{Files: []uintptr{r.Fd()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reap(ctx) }()

	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "child "+strconv.Itoa(pid)+" reaped", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRunWaits(t *testing.T) {
	for _, args := range []string{"pause", "sleep", "spin 1", "report", "exit 9 after 3600"} {
		c, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code, err := c.run(ctx, io.Discard); code != 0 || err != nil {
			t.Errorf("%s, told to stop: %d, %v; want 0", args, code, err)
		}
	}
}
