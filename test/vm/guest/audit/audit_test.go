//go:build guest

package audit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// config places containers only. With partitions, or with confined host slices, the kernel would refuse most offenders of this test.
const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-1, namespaces: [kube-system]}
shared: {cpus: 2-3}
guaranteed: {cpus: 4-7}
resyncPeriod: 1h
podResourcesSocket: none
`

// workqueues is the mask of unbound workqueues.
const workqueues = "/sys/devices/virtual/workqueue/cpumask"

type node struct{ *guestnode.Node }

// finding holds the compared fields of a finding.
type finding struct {
	Who, Name string
	Ran       bool
}

// TestTenOffenders checks that a node in order has no findings, and that audit finds each of ten offenders with its origin, and no
// other task.
func TestTenOffenders(t *testing.T) {
	n := &node{guestnode.New(t)}
	n.StartDaemon(config)
	n.Apply(
		manifest.Pod{Name: "owner", Namespace: "default", Containers: []manifest.Container{
			{Name: "app", CPU: "2", Memory: "32Mi", Limited: true, Args: []string{"spin", "1"}}}},
		manifest.Pod{Name: "wide", Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: "100m", Memory: "32Mi"}}},
		manifest.Pod{Name: "moved", Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: "100m", Memory: "32Mi"}}},
	)
	owner := n.running("owner", func(c guestnode.Container) bool { return c.Effective.Len() == 2 })
	wide := n.running("wide", func(c guestnode.Container) bool { return c.Effective.Equal(cpuset.Range(2, 3)) })
	moved := n.running("moved", func(c guestnode.Container) bool { return c.Effective.Equal(cpuset.Range(2, 3)) })
	n.Settled()
	n.StopDaemon() // it would repair the offenders
	n.clear(cpuset.Range(0, 3))
	n.Eventually("a node in order has no findings", func() error {
		n.clear(cpuset.Range(0, 3)) // a process that was not bound yet may have forked since
		r, code := n.audit("--duration", "10s")
		if len(r.Findings) > 0 || code != 0 {
			return fmt.Errorf("exit code %d, findings %s", code, texts(r.Findings))
		}
		for _, s := range r.Scores {
			if s.Score == nil || *s.Score != 100 || s.ExposedTasks > 0 {
				return fmt.Errorf("score %+v; want 100", s)
			}
		}
		n.Logf("a node in order: %d looks at %d tasks in %.1f s took %.2f s of CPU time; not seen on the owner's CPUs: %.2f s",
			r.Scans, r.Tasks, r.Seconds, r.Cost, r.Scores[0].Unseen)
		return nil
	})

	cpu := strconv.Itoa(owner.Effective.First())
	thread := n.name(os.Getpid())
	n.service("pinned", "taskset", "-c", cpu, "sh", "-c", "while :; do :; done")
	n.service("sleeper", "taskset", "-c", "0-7", "sleep", "infinity")
	n.service("realtime", "chrt", "-f", "5", "taskset", "-c", cpu, "sh", "-c", "while :; do sleep 0.1; done")
	n.service("forker", "sh", "-c", "while :; do taskset -c "+cpu+" expr 1 + 1; done")
	n.scope("session", "taskset", "-c", cpu, "sh", "-c", "while :; do :; done")
	n.widen(wide, owner.Effective)
	n.move(moved)
	kthread := n.kthread(cpuset.Range(0, 7))
	n.interrupt(cpu)
	n.spinThread(owner.Effective)

	want := []finding{
		{"pinned.service", "sh", true},
		{"sleeper.service", "sleep", false},
		{"realtime.service", "sh", true},
		{"forker.service", "expr", true},
		{"session.scope", "sh", true},
		{"default/" + n.FullName("wide") + "/app", n.name(n.processes(n.path(wide))[0]), false},
		{"byhand", n.name(n.processes("byhand")[0]), false},
		{"kernel-thread", kthread, false},
		{"interrupt", "ttyS0", true},
		{"", thread, true}, // the test runs in a separate unit
	}
	r, code := n.audit("--duration", "20s")
	if code != 3 {
		t.Errorf("exit code %d; want 3", code)
	}
	n.compare(want, r)
	for _, f := range r.Findings {
		if name := n.ShortName(strings.TrimPrefix(f.Owner.Pod, "default/")); name != "owner" || f.Owner.Name != "app" || !f.Owner.CPUs.IsSubsetOf(owner.Effective) {
			t.Errorf("%s is on CPUs of %+v; want CPUs of the owner, %s", text(f), f.Owner, owner.Effective)
		}
		if f.Unit == "realtime.service" && !slices.ContainsFunc(f.Tasks, func(t audit.TaskFinding) bool { return t.Policy == "fifo 5" }) {
			t.Errorf("realtime task: %+v; want fifo 5", f.Tasks)
		}
		if f.Name == thread && (f.TaskCount != 1 || f.Tasks[0].TID == f.Tasks[0].PID) {
			t.Errorf("thread: %+v; want one that leads no process", f.Tasks)
		}
	}
	n.Logf("%d looks at %d tasks in %.1f s took %.2f s of CPU time; scores %+v", r.Scans, r.Tasks, r.Seconds, r.Cost, r.Scores)
	out, _ := n.Try("cpupoold", "audit", "--duration", "5s", "--ran")
	n.Logf("the table:\n%s", out)
}

// compare compares findings with the planted tasks.
func (n *node) compare(want []finding, r audit.Report) {
	n.Helper()
	var got []finding
	for _, f := range r.Findings {
		x := finding{Who: f.Unit, Name: f.Name, Ran: !f.Ran.IsEmpty()}
		switch {
		case f.Pod != "":
			x.Who = f.Pod + "/" + f.Container
		case f.Kind == audit.Interrupt:
			x.Who, x.Name = "interrupt", f.Name[strings.LastIndexByte(f.Name, ' ')+1:]
		case f.Kind != audit.Process:
			x.Who = string(f.Kind)
		case f.Name == n.name(os.Getpid()):
			x.Who = ""
		case f.Cgroup == "byhand":
			x.Who = "byhand"
		}
		// A forker has children that are caught before they have become another program.
		if x.Who == "forker.service" && (x.Name == "taskset" || x.Name == "sh") {
			continue
		}
		// A shell that sleeps forks, too.
		if x.Who == "realtime.service" && x.Name == "sleep" {
			continue
		}
		got = append(got, x)
	}
	byName := func(a, b finding) int { return strings.Compare(a.Who+a.Name, b.Who+b.Name) }
	slices.SortFunc(want, byName)
	slices.SortFunc(got, byName)
	if d := cmp.Diff(want, got); d != "" {
		n.Errorf("findings (-want +got):\n%s\n%s", d, texts(r.Findings))
	}
}

// audit runs the command and returns its report and exit code.
func (n *node) audit(args ...string) (r audit.Report, code int) {
	n.Helper()
	cmd := exec.CommandContext(n.Context(), "cpupoold", append([]string{"audit", "-o", "json"}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		code = 3
	} else if err != nil {
		n.Fatalf("cpupoold audit: %v: %s", err, out)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		n.Fatalf("cpupoold audit: %v: %s", err, out)
	}
	return r, code
}

// clear binds all tasks outside of containers to some CPUs, if the kernel allows it.
func (n *node) clear(cpus cpuset.Set) {
	n.Helper()
	for range 2 { // the second round binds children of processes that were not bound yet
		tasks, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
		if err != nil {
			n.Fatal(err)
		}
		for _, dir := range tasks {
			place, err := os.ReadFile(filepath.Join(dir, "cgroup"))
			if err != nil || strings.Contains(string(place), "kubepods") {
				continue
			}
			if tid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				_ = allow(tid, cpus) // kernel threads of one CPU refuse
			}
		}
	}
	irqs, err := filepath.Glob("/proc/irq/[0-9]*/smp_affinity_list")
	if err != nil {
		n.Fatal(err)
	}
	for _, irq := range irqs {
		_ = os.WriteFile(irq, []byte(cpus.String()), 0o644) // managed ones refuse
	}
	n.writeKernel(workqueues, cpus.Mask(8))
}

// writeKernel writes to a file of the kernel.
func (n *node) writeKernel(name, value string) {
	n.Helper()
	if err := os.WriteFile(name, []byte(value), 0o644); err != nil {
		n.Fatal(err)
	}
}

func (n *node) service(unit string, command ...string) {
	n.Helper()
	n.Run("systemd-run", append([]string{"--unit=" + unit}, command...)...)
	n.Cleanup(func() { _, _ = n.Try("systemctl", "stop", unit) })
}

// scope starts a command in a scope of user.slice, as a session does.
func (n *node) scope(unit string, command ...string) {
	n.Helper()
	cmd := exec.CommandContext(n.Context(), "systemd-run", append([]string{"--scope", "--slice=user.slice", "--unit=" + unit}, command...)...)
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		_, _ = n.Try("systemctl", "stop", unit+".scope")
		_ = cmd.Wait()
	})
	n.Eventually("scope", func() error {
		_, err := n.FS.Read(cgroup.Path("user.slice/" + unit + ".scope"))
		return err
	})
}

// widen gives a container more CPUs by a direct write.
func (n *node) widen(c guestnode.Container, more cpuset.Set) {
	n.Helper()
	if err := n.FS.Write(n.path(c), cgroup.FileCPUs, c.Effective.Union(more).String()); err != nil {
		n.Fatal(err)
	}
}

// move takes a container's processes into another cgroup.
func (n *node) move(c guestnode.Container) {
	n.Helper()
	const to = "/sys/fs/cgroup/byhand"
	if err := os.Mkdir(to, 0o755); err != nil {
		n.Fatal(err)
	}
	pids := n.processes(n.path(c))
	for _, pid := range pids {
		n.writeKernel(to+"/cgroup.procs", strconv.Itoa(pid))
		for _, tid := range n.threads(pid) { // its masks do not change
			if err := allow(tid, cpuset.Range(0, 7)); err != nil {
				n.Fatal(err)
			}
		}
	}
	n.Cleanup(func() {
		n.WithdrawAll()
		n.Eventually("the container has ended", func() error { return os.Remove(to) })
	})
}

func (n *node) threads(pid int) (tids []int) {
	n.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		n.Fatal(err)
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			n.Fatal(err)
		}
		tids = append(tids, tid)
	}
	return tids
}

// kthread lets a kernel thread run anywhere, and returns its name.
func (n *node) kthread(cpus cpuset.Set) string {
	n.Helper()
	const name = "khugepaged"
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		n.Fatal(err)
	}
	for _, file := range comms {
		comm, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			err = allow(pid, cpus)
		}
		if err != nil {
			n.Fatal(err)
		}
		return name
	}
	n.Fatalf("no kernel thread %s", name)
	return ""
}

// interrupt routes the interrupt of the serial line to a CPU, and keeps the line busy.
func (n *node) interrupt(cpu string) {
	n.Helper()
	text, err := os.ReadFile("/proc/interrupts")
	if err != nil {
		n.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.HasSuffix(strings.TrimSpace(rest), "ttyS0") {
			n.writeKernel("/proc/irq/"+number+"/smp_affinity_list", cpu)
			n.service("serial", "sh", "-c", "while :; do echo audit > /dev/ttyS0; sleep 0.2; done")
			return
		}
	}
	n.Fatalf("no interrupt of ttyS0:\n%s", text)
}

// spinThread has a thread of this process, which leads none, run on some CPUs.
func (n *node) spinThread(cpus cpuset.Set) {
	n.Helper()
	var stop atomic.Bool
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and ends with the goroutine
		if unix.Gettid() == os.Getpid() {
			started <- errors.New("this thread leads the process")
			return
		}
		started <- allow(0, cpus)
		for !stop.Load() { //nolint:revive // it is there to run
		}
	}()
	if err := <-started; err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { stop.Store(true); <-ended })
}

// running waits for a pod's container.
func (n *node) running(pod string, when func(guestnode.Container) bool) (c guestnode.Container) {
	n.Helper()
	n.Eventually(pod, func() (err error) {
		if c, err = n.Find(pod, "app"); err == nil && !when(c) {
			err = fmt.Errorf("on CPUs %s", c.Effective)
		}
		return err
	})
	return c
}

func (n *node) path(c guestnode.Container) cgroup.Path {
	n.Helper()
	p, err := cgroup.ContainerPath(c.CgroupsPath, n.Runtime.Driver)
	if err != nil {
		n.Fatal(err)
	}
	return p
}

// processes of a cgroup.
func (n *node) processes(p cgroup.Path) (pids []int) {
	n.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", string(p), "cgroup.procs"))
	for field := range strings.FieldsSeq(string(text)) {
		if pid, parseErr := strconv.Atoi(field); parseErr == nil {
			pids = append(pids, pid)
		}
	}
	if err != nil || len(pids) == 0 {
		n.Fatalf("processes of %s: %v, %v", p, pids, err)
	}
	return pids
}

// name returns the name of a process.
func (n *node) name(pid int) string {
	n.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		n.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func text(f audit.Finding) string {
	return fmt.Sprintf("%s %q in %q: %d tasks, allowed on %s, ran on %s for %.3f s, %d times", f.Kind, f.Name, f.Cgroup, f.TaskCount, f.Allowed, f.Ran, f.RanSeconds, f.Count)
}

func texts(found []audit.Finding) string {
	var lines []string
	for _, f := range found {
		lines = append(lines, text(f))
	}
	return strings.Join(lines, "\n")
}

// allow sets an affinity, as taskset does.
func allow(tid int, cpus cpuset.Set) error {
	var mask unix.CPUSet
	for cpu := range cpus.All() {
		mask.Set(cpu)
	}
	return unix.SchedSetaffinity(tid, &mask)
}
