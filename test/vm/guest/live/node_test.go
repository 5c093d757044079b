//go:build guest

package live_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	mount = "/sys/fs/cgroup"
	cpus  = 4
)

// home has the CPUs of all tasks that are not in a test.
var home = cpuset.Of(0)

// node is the guest: a cgroup "home" with the test and process 1, and a cgroup "stray" with all CPUs.
type node struct{ *testing.T }

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t}
	n.group("stray", cpuset.Set{}) // while its cpuset.cpus is empty, a partition of a sibling is valid
	n.group("home", home)
	for _, pid := range []int{1, os.Getpid()} {
		n.write("home/cgroup.procs", strconv.Itoa(pid))
		t.Cleanup(func() { n.write("cgroup.procs", strconv.Itoa(pid)) }) // before the cgroups go
	}
	return n
}

// group makes a cgroup for the test.
func (n *node) group(name string, cpus cpuset.Set) {
	n.Helper()
	dir := filepath.Join(mount, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		n.until("removal of "+name, func() error { return os.Remove(dir) }) // killed processes leave it late
	})
	if !cpus.IsEmpty() {
		n.write(name+"/cpuset.cpus", cpus.String())
	}
}

func (n *node) write(file, value string) {
	n.Helper()
	if err := os.WriteFile(filepath.Join(mount, file), []byte(value), 0); err != nil {
		n.Fatal(err)
	}
}

// until waits for a condition of the kernel, which reports no event.
func (n *node) until(what string, cond func() error) {
	n.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			n.Fatalf("wait for %s: %v", what, err)
		}
		<-tick.C
	}
}

// process is a child with a workload.
type process struct {
	*node

	name string
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Scanner
}

// start starts a workload in a cgroup, and waits until it is ready.
func (n *node) start(name, group string) *process {
	n.Helper()
	dir, err := os.Open(filepath.Join(mount, group))
	if err != nil {
		n.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), workload+"="+name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	in, err := cmd.StdinPipe()
	if err != nil {
		n.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	p := &process{n, name, cmd, in, bufio.NewScanner(out)}
	n.Cleanup(p.kill)
	if answer := p.read(); answer != "ready" {
		n.Fatalf("%s in %s: %s", name, group, answer)
	}
	return p
}

func (p *process) read() string {
	p.Helper()
	if !p.out.Scan() {
		p.Fatalf("%s has ended: %v", p.name, p.out.Err())
	}
	return p.out.Text()
}

// do sends a command and returns the answer.
func (p *process) do(args ...any) string {
	p.Helper()
	if _, err := fmt.Fprintln(p.in, args...); err != nil {
		p.Fatal(err)
	}
	return p.read()
}

// kill ends the process at once. A second call has no effect.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// now is the clock of the kernel's records.
func (n *node) now() time.Duration {
	n.Helper()
	now, err := clock(unix.CLOCK_MONOTONIC)
	if err != nil {
		n.Fatal(err)
	}
	return now
}

// open loads the program.
func (n *node) open() *schedwatch.Program {
	n.Helper()
	p, err := schedwatch.Open(mount, cpus)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		if err := p.Close(); err != nil {
			n.Error(err)
		}
	})
	return p
}

// own sets owners; all CPUs must be watched.
func (n *node) own(p *schedwatch.Program, owners ...schedwatch.Owner) {
	n.Helper()
	var want cpuset.Set
	for _, o := range owners {
		want = want.Union(o.CPUs)
	}
	if watched, err := p.Own(owners); err != nil || !watched.Equal(want) {
		n.Fatalf("Own = %s, %v; want %s", watched, err, want)
	}
}

// reading returns the counts of the program by CPU.
func (n *node) reading(p *schedwatch.Program) (schedwatch.Reading, map[int]schedwatch.CPU) {
	n.Helper()
	r, err := p.Read()
	if err != nil {
		n.Fatal(err)
	}
	if r.BTF != *btf {
		n.Errorf("Reading.BTF = %t; want %t", r.BTF, *btf)
	}
	if r.Lost > 0 {
		n.Errorf("%d switches have no row", r.Lost)
	}
	byCPU := make(map[int]schedwatch.CPU)
	for _, c := range r.CPUs {
		byCPU[c.CPU] = c
	}
	return r, byCPU
}

// users returns the foreign tasks of processes as text, without those in the cgroup except.
func users(r schedwatch.Reading, except string) (all []string) {
	for _, t := range append(r.Tasks, r.Running...) {
		if t.Kind != schedwatch.BoundKernel && t.Kind != schedwatch.OtherKernel && t.Cgroup != except {
			all = append(all, fmt.Sprintf("%+v", t))
		}
	}
	return all
}

// fields returns the values of a file with a name in front of each, such as /proc/PID/status.
func fields(text []byte) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		all[name] = strings.TrimSpace(value)
	}
	return all
}
