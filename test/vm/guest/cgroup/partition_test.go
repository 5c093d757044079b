//go:build guest

package cgroup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestPartitionPushesOff checks that a busy process leaves a CPU at the moment when a
// partition gets it. The process cannot return until the partition ends. A resize of
// the partition has the same effect.
func TestPartitionPushesOff(t *testing.T) {
	k := newKernel(t)
	if !k.Partitions().Remote {
		if k.major > 6 || k.major == 6 && k.minor >= 11 {
			t.Fatal("a kernel from 6.11 on has no partitions; want them")
		}
		t.Skipf("kernel %d.%d has no remote partitions", k.major, k.minor)
	}
	fs, err := cgroup.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	const owner, outside = "kubepods.slice/pod.slice/owner.scope", "system.slice/spinner.service"
	for _, dir := range []string{"kubepods.slice", "kubepods.slice/pod.slice", owner, "system.slice", outside} {
		if err := k.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := k.Rmdir(dir); err != nil {
				t.Error(err)
			}
		})
		if dir != owner && dir != outside {
			write(t, dir, "cgroup.subtree_control", "+cpuset +cpu")
		}
	}
	inside, spinner := startTask(t, owner), startSpinner(t, outside)
	t.Cleanup(inside.stop)
	all := k.Online(t)
	settle := func(phase cgroup.PartitionPhase, cpus ...int) {
		t.Helper()
		var desired []cgroup.DesiredPartition
		if len(cpus) > 0 {
			desired = []cgroup.DesiredPartition{{Path: owner, Type: cgroup.RootPartition, CPUs: cpuset.Of(cpus...)}}
		}
		for range 50 {
			view, err := fs.ReadPartitions([]cgroup.Path{owner})
			if err != nil {
				t.Fatal(err)
			}
			step := cgroup.PlanPartitions(cgroup.PartitionInput{Kernel: cgroup.PartitionsOf(k.major, k.minor), Desired: desired,
				Former: []cgroup.Path{owner}, View: view, Online: all, Housekeeping: cpuset.Of(0)})
			for _, w := range step.Writes {
				if err := fs.Apply(w.Write); err != nil {
					t.Fatal(err)
				}
			}
			if len(step.Writes) == 0 {
				if out := step.Outcomes[owner]; out.Phase != phase {
					t.Fatalf("outcome for %v = %+v, want %s", cpus, out, phase)
				}
				return
			}
		}
		t.Fatal("steps do not end")
	}
	spinsOn := func(want cpuset.Set) {
		t.Helper()
		if got := spinner.allowed(t); got != want.String() {
			t.Errorf("the process outside may run on %s, want %s", got, want)
		}
		spinner.burn(t)
		if cpu := spinner.last(t); !want.Contains(cpu) {
			t.Errorf("the process outside has run on CPU %d, want one of %s", cpu, want)
		}
	}
	pin := func(cpus ...int) error {
		var set unix.CPUSet
		for _, c := range cpus {
			set.Set(c)
		}
		return unix.SchedSetaffinity(spinner.pid, &set)
	}
	if err := pin(2); err != nil {
		t.Fatal(err)
	}
	spinsOn(cpuset.Of(2))
	settle(cgroup.PartitionInForce, 2, 3)
	spinsOn(all.Difference(cpuset.Of(2, 3)))
	if err := pin(3); err != syscall.EINVAL { //nolint:errorlint // a bare errno
		t.Errorf("the process outside asks for CPU 3 of the owner: %v, want EINVAL", err)
	}
	if got := inside.allowed(t); got != "2-3" {
		t.Errorf("the owner may run on %s, want 2-3", got)
	}
	settle(cgroup.PartitionInForce, 3, 4, 5) // grows there, shrinks here
	if got := inside.allowed(t); got != "3-5" {
		t.Errorf("the resized owner may run on %s, want 3-5", got)
	}
	if err := pin(4); err != syscall.EINVAL { //nolint:errorlint // likewise
		t.Errorf("the process outside asks for CPU 4 of the owner: %v, want EINVAL", err)
	}
	settle("")
	if err := pin(4); err != nil {
		t.Errorf("the process outside asks for CPU 4 that is free again: %v", err)
	}
	spinsOn(cpuset.Of(4))
}

func write(t testing.TB, dir, file, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(mount, dir, file), []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// spinner is a process that never sleeps.
type spinner struct{ task }

const spinEnv = "CGROUP_TEST_SPIN"

func startSpinner(t testing.TB, name string) spinner {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), spinEnv+"=1", "GOMAXPROCS=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no other end
		_ = cmd.Wait()
	})
	write(t, name, "cgroup.procs", strconv.Itoa(cmd.Process.Pid))
	return spinner{task{pid: cmd.Process.Pid}}
}

// init locks the main thread: its affinity and CPU are the process's affinity and CPU.
func init() { //nolint:gochecknoinits // nowhere else is the main thread certain
	for os.Getenv(spinEnv) != "" {
		spin()
	}
}

// spin passes a second without the kernel.
func spin() {
	for start := time.Now(); time.Since(start) < time.Second; {
	}
}

// burn waits until the process has used some more CPU time.
func (s spinner) burn(t testing.TB) {
	t.Helper()
	const ticks = 5
	for start, deadline := s.stat(t, 11), time.Now().Add(time.Minute); s.stat(t, 11) < start+ticks; {
		if time.Now().After(deadline) {
			t.Fatal("the process outside does not run")
		}
	}
}

// last is the CPU on which the process ran last.
func (s spinner) last(t testing.TB) int {
	t.Helper()
	return s.stat(t, 36)
}

// stat is a field of proc_pid_stat(5), counted from 0 behind the name of the program:
// 11 is utime, 36 processor.
func (s spinner) stat(t testing.TB, field int) int {
	t.Helper()
	text := read(t, filepath.Join("/proc", strconv.Itoa(s.pid), "stat"))
	n, err := strconv.Atoi(strings.Fields(text[strings.LastIndexByte(text, ')')+1:])[field])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
