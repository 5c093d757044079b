//go:build guest

package schedwatch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// The workers run on CPUs 2 and 3. This process, and all that it does, runs on CPUs 0 and 1.
const (
	watched = 2
	second  = 3
)

// TestProgram checks the program with the kernel's type information, and without.
func TestProgram(t *testing.T) {
	newCgroup(t, "runner", "0-1")
	for _, pid := range []int{1, os.Getpid()} {
		write(t, mount+"/runner/cgroup.procs", strconv.Itoa(pid))
	}
	t.Run("btf", func(t *testing.T) { check(t, true) })
	if err := unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	if err := unix.Mount("none", "/sys/kernel/btf", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount("/sys/kernel/btf", 0) //nolint:errcheck // the machine ends with the test
	t.Run("tracepoint", func(t *testing.T) { check(t, false) })
}

// check runs all checks with one of the two programs.
func check(t *testing.T, btf bool) {
	before := programs(t)
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	begin := time.Now()
	p, err := schedwatch.Open(mount, runtime.NumCPU())
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&is)
	t.Cleanup(func() { p.Close() }) //nolint:errcheck // closed below if the test has passed
	t.Logf("loaded in %v with %d KiB in %d allocations, heap %d KiB after %d KiB; programs: %v before, %v with it", time.Since(begin).Round(time.Millisecond),
		(is.TotalAlloc-was.TotalAlloc)/1024, is.Mallocs-was.Mallocs, is.HeapSys/1024, was.HeapSys/1024, before, programs(t))
	if r := read(t, p); r.BTF != btf {
		t.Fatalf("with type information: %t; want %t", r.BTF, btf)
	}
	if err := p.EnableStatistics(); err != nil {
		t.Fatal(err)
	}
	t.Run("counts", func(t *testing.T) { counts(t, p) })
	t.Run("owner", func(t *testing.T) { owner(t, p) })
	t.Run("kernel threads", func(t *testing.T) { kernelThreads(t, p) })
	t.Run("without switches", func(t *testing.T) { running(t, p) })
	t.Run("handovers", func(t *testing.T) { handovers(t, p) })
	t.Run("no cgroup", func(t *testing.T) { noCgroup(t, p) })
	r := read(t, p)
	t.Logf("%d runs of the program took %v: %v each", r.Runs, r.RunTime, r.RunTime/time.Duration(max(r.Runs, 1)))
	if r.Runs == 0 || r.Lost > 0 {
		t.Errorf("%d runs, %d lost rows", r.Runs, r.Lost)
	}

	ended := make(chan error)
	go func() {
		for {
			if _, err := p.Next(); err != nil {
				ended <- err
				return
			}
		}
	}()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Next after Close: %v; want os.ErrClosed", err)
	}
	eventually(t, "no program stays", func() error {
		if after := programs(t); !slices.Equal(after, before) {
			return fmt.Errorf("programs %v; want %v", after, before)
		}
		return nil
	})
}

// programs returns the numbers of the kernel's eBPF programs.
func programs(t *testing.T) (ids []ebpf.ProgramID) {
	t.Helper()
	for id := ebpf.ProgramID(0); ; {
		var err error
		id, err = ebpf.ProgramGetNextID(id)
		if errors.Is(err, fs.ErrNotExist) {
			return ids
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
}

func read(t *testing.T, p *schedwatch.Program) schedwatch.Reading {
	t.Helper()
	r, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// on returns the counts of a CPU.
func on(r schedwatch.Reading, cpu int) schedwatch.CPU {
	for _, c := range r.CPUs {
		if c.CPU == cpu {
			return c
		}
	}
	return schedwatch.CPU{}
}

// own makes the cgroup owner the owner of CPU 2, and returns a function that releases it.
func own(t *testing.T, p *schedwatch.Program) {
	t.Helper()
	newCgroup(t, "owner", strconv.Itoa(watched))
	setOwners(t, p, schedwatch.Owner{ID: "owner", CPUs: cpuset.Of(watched), Cgroups: []string{"owner"}})
	t.Cleanup(func() { setOwners(t, p) })
}

func setOwners(t *testing.T, p *schedwatch.Program, owners ...schedwatch.Owner) {
	t.Helper()
	want := cpuset.Set{}
	for _, o := range owners {
		want = want.Union(o.CPUs)
	}
	if got, err := p.Own(owners); err != nil || !got.Equal(want) {
		t.Fatalf("watched CPUs %s, %v; want %s", got, err, want)
	}
}

// counts checks that counts of a foreign process are the kernel's, and that it is reported.
func counts(t *testing.T, p *schedwatch.Program) {
	own(t, p)
	newCgroup(t, "foreign", strconv.Itoa(watched))
	w := newWorker(t, "foreign")
	var (
		rows   schedwatch.Count
		others []schedwatch.Task
		r      schedwatch.Reading
	)
	take := func() {
		r = read(t, p)
		for _, task := range r.Tasks {
			if task.Cgroup == "foreign" {
				if task.Kind != schedwatch.User || task.CPU != watched || task.TGID != w.pid || task.Command == "" {
					t.Errorf("row %+v; want process %d on CPU %d", task, w.pid, watched)
				}
				rows.Time += task.Time
				rows.Switches += task.Switches
			} else if task.Kind == schedwatch.User {
				others = append(others, task)
			}
		}
	}
	for name, c := range map[string]struct{ rounds, spin, sleep int }{"5 ms": {100, 5000, 1000}, "short": {3000, 20, 20}} {
		var began, was, base schedwatch.Count
		eventually(t, "quiet worker", func() error {
			was = w.count()
			take()
			began, base = on(r, watched).Foreign[schedwatch.User], rows
			if is := w.count(); is != was {
				return fmt.Errorf("the worker still runs: %+v after %+v", is, was)
			}
			return nil
		})
		w.run(c.rounds, c.spin, c.sleep)
		eventually(t, name, func() error {
			take()
			is := w.count()
			want := schedwatch.Count{Time: is.Time - was.Time, Switches: is.Switches - was.Switches}
			total := on(r, watched).Foreign[schedwatch.User]
			got := schedwatch.Count{Time: total.Time - began.Time, Switches: total.Switches - began.Switches}
			inRows := schedwatch.Count{Time: rows.Time - base.Time, Switches: rows.Switches - base.Switches}
			if got.Switches != want.Switches || inRows != got {
				return fmt.Errorf("counted %+v, in rows %+v; the kernel counts %+v; other rows %+v", got, inRows, want, others)
			}
			// The kernel's time is without interrupts, and includes the work of the scheduler before the switch.
			if d := got.Time - want.Time; d.Abs() > want.Time/10+time.Millisecond {
				return fmt.Errorf("counted %+v; the kernel counts %+v", got, want)
			}
			t.Logf("%s: counted %+v, the kernel %+v", name, got, want)
			return nil
		})
	}
	// The report names the owner of its time, also after a handover.
	setOwners(t, p, schedwatch.Owner{ID: "next", CPUs: cpuset.Of(watched), Cgroups: []string{"foreign"}})
	for {
		task, err := p.Next()
		if err != nil || task.Kind == schedwatch.BoundKernel || task.CPU != watched {
			t.Fatalf("report %+v, %v", task, err)
		}
		if task.Kind != schedwatch.User { // the kernel's own work
			continue
		}
		if task.TGID != w.pid || task.Cgroup != "foreign" || task.Switches != 1 || task.Time == 0 || task.Owner != "owner" {
			t.Errorf("report %+v; want process %d on the CPU of the former owner", task, w.pid)
		}
		break
	}
	c := on(r, watched)
	if c.Watched < 500*time.Millisecond || c.Switches < c.Foreign[schedwatch.User].Switches {
		t.Errorf("%+v; want the time of the test, and all switches", c)
	}

	// After the release nothing is counted, also not later for this time.
	p.Release(cpuset.Of(watched))
	before := on(read(t, p), watched)
	w.run(20, 1000, 100)
	if after := on(read(t, p), watched); after.Foreign != before.Foreign || after.Watched != before.Watched {
		t.Errorf("%+v after the release; want %+v", after, before)
	}
}

// owner checks that tasks below the owner's cgroup are not foreign.
func owner(t *testing.T, p *schedwatch.Program) {
	own(t, p)
	name := "owner"
	for _, level := range []string{"b", "c", "d"} {
		name += "/" + level
		newCgroup(t, name, "")
	}
	w := newWorker(t, name)
	before, was := on(read(t, p), watched), w.count()
	w.run(20_000, 1, 1)
	after, is := on(read(t, p), watched), w.count()
	if d := is.Switches - was.Switches; d < 20_000 || after.Switches-before.Switches < d {
		t.Errorf("%d switches of the owner, %d seen; want at least 20000", d, after.Switches-before.Switches)
	}
	if after.Foreign[schedwatch.User] != before.Foreign[schedwatch.User] {
		t.Errorf("foreign tasks %+v; want %+v", after.Foreign, before.Foreign)
	}
	t.Logf("%d switches of the owner, %d seen on the CPU, foreign %+v", is.Switches-was.Switches, after.Switches-before.Switches, after.Foreign)
}

// kernelThreads checks the kinds of kernel threads.
func kernelThreads(t *testing.T, p *schedwatch.Program) {
	own(t, p)
	w := newWorker(t, "owner")
	before := on(read(t, p), watched).Foreign
	for _, cpu := range []int{second, watched, second, watched} { // migration/2 moves the running task
		w.begin(1, 200_000, 1000)
		write(t, mount+"/owner/cpuset.cpus", strconv.Itoa(cpu))
		if line, err := w.lines.ReadString('\n'); err != nil || line != "done\n" {
			t.Fatalf("worker: %q, %v", line, err)
		}
	}
	// kthreadd can run on two CPUs. It runs when it makes the thread of a trigger.
	setOwners(t, p, schedwatch.Owner{CPUs: cpuset.Of(watched, second), Cgroups: []string{"owner"}})
	if comm, err := os.ReadFile("/proc/2/comm"); err != nil || string(comm) != "kthreadd\n" {
		t.Fatalf("task 2: %s, %v", comm, err)
	}
	if err := unix.SchedSetaffinity(2, mask(watched, second)); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(2, mask(0, 1, watched, second)) //nolint:errcheck // the machine ends with the test
	var found []schedwatch.Task
	has := func(kind schedwatch.Kind, name string) error {
		if slices.ContainsFunc(found, func(task schedwatch.Task) bool {
			return task.Kind == kind && strings.HasPrefix(task.Command, name) && task.CgroupID == 1 && task.Cgroup == ""
		}) {
			return nil
		}
		return fmt.Errorf("no %s of kind %d in %+v", name, kind, found)
	}
	eventually(t, "kernel threads", func() error {
		trigger, err := os.OpenFile(mount+"/owner/cpu.pressure", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer trigger.Close()
		if _, err := trigger.WriteString("some 150000 1000000"); err != nil {
			t.Fatal(err)
		}
		found = append(found, read(t, p).Tasks...)
		return errors.Join(has(schedwatch.BoundKernel, "migration/"), has(schedwatch.OtherKernel, "kthreadd"))
	})
	after := on(read(t, p), watched).Foreign
	if after[schedwatch.BoundKernel].Switches <= before[schedwatch.BoundKernel].Switches || after[schedwatch.User] != before[schedwatch.User] {
		t.Errorf("foreign %+v; want more bound kernel threads than %+v, and no user task", after, before)
	}
	for _, task := range found {
		t.Logf("%+v", task)
	}
}

func mask(cpus ...int) *unix.CPUSet {
	var m unix.CPUSet
	for _, cpu := range cpus {
		m.Set(cpu)
	}
	return &m
}

// running checks that a foreign task is found that runs without a switch, and that its time is counted once.
func running(t *testing.T, p *schedwatch.Program) {
	own(t, p)
	alone(t, watched)
	newCgroup(t, "foreign", strconv.Itoa(watched))
	w := newWorker(t, "foreign")
	before, was := on(read(t, p), watched).Foreign[schedwatch.User], w.count()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range threads {
		tid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.begin(1, 6_000_000, 1000)
	var open time.Duration
	eventually(t, "running task", func() error {
		r := read(t, p)
		if len(r.Running) != 1 {
			return fmt.Errorf("%+v, CPU %+v; want one", r.Running, on(r, watched))
		}
		task := r.Running[0]
		if task.Cgroup != "foreign" || task.Kind != schedwatch.User || task.TGID != w.pid || task.CPU != watched || task.Switches != 0 {
			t.Errorf("%+v; want process %d", task, w.pid)
		}
		open = on(r, watched).Foreign[schedwatch.User].Time - before.Time
		if open < task.Time {
			t.Errorf("%v in the counts; want at least %v", open, task.Time)
		}
		return nil
	})
	if line, err := w.lines.ReadString('\n'); err != nil || line != "done\n" {
		t.Fatalf("worker: %q, %v", line, err)
	}
	eventually(t, "end of the running task", func() error {
		r := read(t, p)
		got, want := on(r, watched).Foreign[schedwatch.User].Time-before.Time, w.count().Time-was.Time
		if d := got - want; len(r.Running) > 0 || d.Abs() > want/20 {
			return fmt.Errorf("%v counted, the kernel counts %v; running %+v", got, want, r.Running)
		}
		t.Logf("%v while it ran, %v at the end; the kernel counts %v", open, got, want)
		return nil
	})
}

// alone lets a real-time task run without end. Otherwise the kernel stops it for 50 ms in a second for other tasks. Before Linux 6.12
// the limit of all real-time tasks does that, and since then the server for fair tasks.
func alone(t *testing.T, cpu int) {
	t.Helper()
	const limit = "/proc/sys/kernel/sched_rt_runtime_us"
	if b, err := os.ReadFile(limit); err != nil || strings.TrimSpace(string(b)) != "-1" { // otherwise busy, once a server has changed
		write(t, limit, "-1")
	}
	const debug = "/sys/kernel/debug"
	if err := unix.Mount("debugfs", debug, "debugfs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	server := fmt.Sprintf("%s/sched/fair_server/cpu%d/runtime", debug, cpu)
	if _, err := os.Stat(server); err == nil {
		write(t, server, "0")
	}
}

// handovers checks that two owners with much work change their CPUs without a false report and without a gap.
func handovers(t *testing.T, p *schedwatch.Program) {
	const rounds = 50
	names := []string{"a", "b"}
	cpus := []int{watched, second}
	for i, name := range names {
		newCgroup(t, name, strconv.Itoa(cpus[i]))
		for range 2 {
			newWorker(t, name).begin(1<<30, 300, 50)
		}
	}
	set := func() {
		setOwners(t, p, schedwatch.Owner{CPUs: cpuset.Of(cpus[0]), Cgroups: names[:1]}, schedwatch.Owner{CPUs: cpuset.Of(cpus[1]), Cgroups: names[1:]})
	}
	set()
	t.Cleanup(func() { setOwners(t, p) })
	before, begin := read(t, p), time.Now()
	var released time.Duration
	for range rounds {
		was := time.Now()
		p.Release(cpuset.Of(watched, second))
		cpus[0], cpus[1] = cpus[1], cpus[0]
		for i, name := range names {
			write(t, mount+"/"+name+"/cpuset.cpus", strconv.Itoa(cpus[i]))
		}
		set()
		released += time.Since(was)
		set() // nothing changes: no gap
		began := read(t, p)
		eventually(t, "work of both owners", func() error {
			r := read(t, p)
			for _, cpu := range cpus {
				if n := on(r, cpu).Switches - on(began, cpu).Switches; n < 20 {
					return fmt.Errorf("%d switches on CPU %d", n, cpu)
				}
			}
			return nil
		})
	}
	after, took := read(t, p), time.Since(begin)
	for _, cpu := range cpus {
		b, a := on(before, cpu), on(after, cpu)
		if a.Foreign[schedwatch.User] != b.Foreign[schedwatch.User] {
			t.Errorf("CPU %d: foreign %+v after %+v; rows %+v", cpu, a.Foreign, b.Foreign, after.Tasks)
		}
		gap := took - (a.Watched - b.Watched)
		if gap > released+took/100 {
			t.Errorf("CPU %d: %v of %v without watch; the handovers took %v", cpu, gap, took, released)
		}
		t.Logf("CPU %d: %d switches in %v, %v without watch in %d handovers, bound kernel threads %+v", cpu, a.Switches-b.Switches, took, gap, rounds,
			a.Foreign[schedwatch.BoundKernel].Switches-b.Foreign[schedwatch.BoundKernel].Switches)
	}
}

// noCgroup checks that a CPU has no watch while the cgroup of its owner does not exist.
func noCgroup(t *testing.T, p *schedwatch.Program) {
	newCgroup(t, "owner", "")
	t.Cleanup(func() { setOwners(t, p) })
	got, err := p.Own([]schedwatch.Owner{
		{CPUs: cpuset.Of(watched), Cgroups: []string{"owner"}},
		{CPUs: cpuset.Of(second), Cgroups: []string{"owner", "absent"}},
	})
	if !errors.Is(err, fs.ErrNotExist) || !got.Equal(cpuset.Of(watched)) {
		t.Errorf("watched %s, %v; want CPU %d only, and fs.ErrNotExist", got, err, watched)
	}
	t.Log(err)
}

// TestUnprivileged checks the error for a process without capabilities.
func TestUnprivileged(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{workEnv + "=" + taskOpen}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "CAP_BPF") || !strings.Contains(string(out), schedwatch.ErrUnavailable.Error()) {
		t.Errorf("%s; want the missing capabilities", out)
	}
	t.Logf("%s", out)
}
