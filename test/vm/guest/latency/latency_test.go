//go:build guest

package latency_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/latency"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	tracing = "/sys/kernel/tracing"
	own     = tracing + "/instances/cpupoold-latency"
	busy    = "busy-task"
	// Environment of child processes of the tests.
	spins, measures = "LATENCY_SPINS", "LATENCY_MEASURES"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(spins) != "":
		spin()
	case os.Getenv(measures) != "":
		if _, err := latency.Run(context.Background(), options("osnoise", 3, time.Minute)); err != nil {
			panic(err)
		}
	default:
		if err := unix.Mount("tracefs", tracing, "tracefs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			panic(err)
		}
		os.Exit(m.Run())
	}
}

func options(tracer string, cpu int, duration time.Duration) latency.Options {
	return latency.Options{Tracer: tracer, CPUs: cpuset.Of(cpu), Duration: duration, Threshold: 5 * time.Microsecond, StateDir: "/run/latency", Boot: "this"}
}

// spin is a busy task on CPU 2: 5 ms of work, 15 ms of rest, as an ordinary thread.
func spin() {
	runtime.LockOSThread()
	name := append([]byte(busy), 0)
	var cpus unix.CPUSet
	cpus.Set(2)
	if err := errors.Join(unix.SchedSetaffinity(0, &cpus), unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)); err != nil {
		panic(err)
	}
	fmt.Println(unix.Gettid())
	for {
		for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// child starts this program again with a variable in its environment.
func child(t *testing.T, variable string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), variable+"=1")
	c.Stderr = os.Stderr
	return c
}

func start(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have been killed already
		_ = c.Wait()
	})
}

// settings returns the tracing settings of all instances, and the instances.
func settings(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	names := []string{"current_tracer", "tracing_on", "tracing_thresh", "trace_options", "set_event", "tracing_cpumask", "events/osnoise/enable"}
	files, err := filepath.Glob(tracing + "/osnoise/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no settings of osnoise: %v", err)
	}
	for _, f := range files {
		names = append(names, strings.TrimPrefix(f, tracing+"/"))
	}
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(tracing, name)); err != nil || info.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(tracing, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	entries, err := os.ReadDir(tracing + "/instances")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all["instances/"+e.Name()] = "there"
	}
	return all
}

func checkRestored(t *testing.T, before map[string]string) {
	t.Helper()
	if d := cmp.Diff(before, settings(t)); d != "" {
		t.Errorf("tracing settings (-before +after):\n%s", d)
	}
	for _, pattern := range []string{"osnoise/", "timerlat/"} {
		if tasks := threads(t, pattern); len(tasks) > 0 {
			t.Errorf("threads of the tracer still run: %v", tasks)
		}
	}
}

// threads returns the names of kernel threads with a prefix.
func threads(t *testing.T, prefix string) (names []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), prefix) {
			names = append(names, strings.TrimSpace(string(text)))
		}
	}
	return names
}

// TestBusyTask checks that the longest gaps name a task that is bound to the measured CPU, with both tracers, and that
// all settings are as before.
func TestBusyTask(t *testing.T) {
	c := child(t, spins)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, c)
	var tid int
	if _, err := fmt.Fscan(out, &tid); err != nil {
		t.Fatal(err)
	}
	for _, tracer := range []string{"osnoise", "timerlat"} {
		t.Run(tracer, func(t *testing.T) {
			before := settings(t)
			r, err := latency.Run(t.Context(), options(tracer, 2, 5*time.Second))
			checkRestored(t, before)
			if err != nil || len(r.PerCPU) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			counts := r.PerCPU[0]
			t.Logf("%.1f s: %+v; changed %q", r.Seconds, counts, r.Changed)
			named := 0
			if !slices.ContainsFunc(counts.Causes, func(c latency.Cause) bool { return c.Kind == "thread" && c.Name == busy && c.ID == tid && c.Count > 10 }) {
				t.Errorf("causes with the most time: %+v; want %s[%d]", counts.Causes, busy, tid)
			}
			for _, g := range r.Gaps {
				t.Logf("%+v", g)
				if slices.ContainsFunc(g.Causes, func(c latency.Cause) bool { return c.Kind == "thread" && c.Name == busy && c.ID == tid }) {
					named++
				}
			}
			// The host of the emulated CPU may cause all of timerlat's longest gaps: a realtime thread displaces the task.
			if named == 0 && tracer == "osnoise" || counts.Threads == 0 || counts.IRQs == 0 || counts.Gaps == 0 || counts.Unreadable > 0 || counts.Lost > 0 || counts.Stopped {
				t.Errorf("%d of the longest gaps name %s[%d]; want some, and counts of threads and interrupts", named, busy, tid)
			}
		})
	}
}

// TestSignal checks that the end of the context ends a measurement early, with its findings.
func TestSignal(t *testing.T) {
	before := settings(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := options("osnoise", 3, time.Minute)
	o.Progress = func(time.Duration) { cancel() } // after a second
	r, err := latency.Run(ctx, o)
	checkRestored(t, before)
	if err != nil || r.Ended == "" || r.Seconds > 30 || len(r.PerCPU) != 1 || r.PerCPU[0].Gaps == 0 {
		t.Errorf("%+v, %v; want findings of a second", r, err)
	}
}

// TestKill checks that the next measurement ends the tracer of a killed one, and restores its settings.
func TestKill(t *testing.T) {
	before := settings(t)
	c := child(t, measures)
	start(t, c)
	wait(t, "the tracer runs", func() bool {
		text, err := os.ReadFile(own + "/tracing_on")
		return err == nil && string(text) == "1\n" && len(threads(t, "osnoise/3")) == 1
	})
	_, err := latency.Run(t.Context(), options("osnoise", 3, time.Second))
	if err == nil || !strings.Contains(err.Error(), "another measurement is running") {
		t.Errorf("a second measurement: %v; want a refusal", err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	if now := settings(t); now["osnoise/cpus"] != "3\n" || now["instances/cpupoold-latency"] == "" || len(threads(t, "osnoise/3")) != 1 {
		t.Fatalf("a killed measurement leaves nothing behind, so this test proves nothing: %v", now)
	}
	r, err := latency.Run(t.Context(), options("timerlat", 2, 2*time.Second))
	checkRestored(t, before)
	if err != nil || len(r.Cleaned) < 2 || len(r.PerCPU) != 1 || r.PerCPU[0].Gaps == 0 {
		t.Errorf("%+v, %v; want removed remains, and a measurement", r, err)
	}
	t.Logf("removed: %q", r.Cleaned)
}

// TestInUse checks that a tracer of another program is not disturbed.
func TestInUse(t *testing.T) {
	other := tracing + "/instances/other"
	if err := os.Mkdir(other, 0o750); err != nil {
		t.Fatal(err)
	}
	write(t, other+"/current_tracer", "timerlat")
	before := settings(t)
	_, err := latency.Run(t.Context(), options("osnoise", 3, time.Second))
	if err == nil || !strings.Contains(err.Error(), "timerlat is in use in /sys/kernel/tracing/instances/other") {
		t.Errorf("%v; want a refusal", err)
	}
	if d := cmp.Diff(before, settings(t)); d != "" {
		t.Errorf("settings (-before +after):\n%s", d)
	}
	write(t, other+"/current_tracer", "nop")
	if err := unix.Rmdir(other); err != nil {
		t.Error(err)
	}
}

// TestPartition measures how long the write of a cpuset partition on a measured CPU waits for the thread of the tracer.
func TestPartition(t *testing.T) {
	const group = "/sys/fs/cgroup/partition"
	if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	defer unix.Rmdir(group) //nolint:errcheck // the guest ends
	write(t, group+"/cpuset.cpus", "3")
	var took []time.Duration
	o := options("osnoise", 3, 8*time.Second)
	o.Progress = func(time.Duration) {
		if len(took) < 6 {
			kind := []string{"isolated", "member"}[len(took)%2]
			began := time.Now()
			write(t, group+"/cpuset.cpus.partition", kind)
			took = append(took, time.Since(began))
		}
	}
	before := settings(t)
	r, err := latency.Run(t.Context(), o)
	checkRestored(t, before)
	if err != nil || len(took) == 0 || len(r.PerCPU) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	t.Logf("writes took %v; stopped: %v, %d gaps", took, r.PerCPU[0].Stopped, r.PerCPU[0].Gaps)
	if longest := slices.Max(took); longest > 5*time.Second {
		t.Errorf("the write of a partition waited %v for the tracer", longest)
	}
}

func write(t *testing.T, file, value string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit, tick := time.After(time.Minute), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("after a minute, not yet: %s", what)
		}
	}
}
