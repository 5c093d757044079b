//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// faults is a node with containers of each pool. Every part that the daemon relies on fails in turn, and one daemon runs during all
// faults.
type faults struct {
	*runtimeNode
	pid        string
	management pod
	shared     pod
	exclusive  pod
	own        string // CPUs of exclusive
}

// TestFaults checks that the daemon reports each fault exactly while it lasts, moves no container, and keeps running. Other tests cover
// other faults: TestShortLived containers that end between read and write, TestRuntimeDown a stopped runtime, and TestLock a second daemon.
func TestFaults(t *testing.T) {
	f := newFaults(t)
	f.nriStops()
	f.runtimeDies()
	f.runtimeHangs()
	f.noticesOverflow()
	f.systemdIsGone()
	f.diskIsFull()
	f.clockIsSet()
}

func newFaults(t *testing.T) *faults {
	t.Helper()
	n := newNode(t)
	f := &faults{runtimeNode: n.withoutKubelet()}
	f.smallDisk()
	restore := f.shortQueue()
	f.management = f.mustStart(100, "kube-system", manifest.Management(map[string]string{"app": "512"}))
	f.shared = f.mustStart(500, "default", nil)
	f.exclusive = f.mustStart(2000, "default", nil)
	f.startDaemon(hourly)
	f.own = f.onCPUs(f.exclusive, 2)
	f.pid = f.property("MainPID")
	f.over("the start")
	restore()
	return f
}

// over waits until a fault has passed: the daemon is not degraded, every container is in the right pool, and no work is
// left.
func (f *faults) over(fault string) {
	f.Helper()
	for _, source := range []string{"cri_events", "nri", "inotify", "systemd_units"} {
		f.source(source, "ok")
	}
	f.eventually("end of all problems after "+fault, func() error {
		for series, n := range f.metrics("cpupoold_problems{") {
			if n > 0 {
				return fmt.Errorf("%s %v", series, n)
			}
		}
		return nil
	})
	f.quiet()
	f.stand("after " + fault)
	f.invariants()
	if pid := f.property("MainPID"); pid != f.pid {
		f.Fatalf("process after %s = %s; want %s\n%s", fault, pid, f.pid, f.evidence())
	}
	f.Logf("%s is over", fault)
}

// stand checks that the containers of the start are still in their places.
func (f *faults) stand(when string) {
	f.Helper()
	err := errors.Join(f.runsOn(f.management, "0-1", 59), f.runsOn(f.shared, "2-3", 0), f.runsOn(f.exclusive, f.own, 0))
	if err != nil {
		f.Fatalf("%s: %v\n%s", when, err, f.evidence())
	}
}

// source waits until a source is in a state.
func (n *node) source(name, state string) {
	n.Helper()
	n.eventually(name+" "+state, func() error {
		series := fmt.Sprintf("cpupoold_source_state{source=%q,state=%q}", name, state)
		if is := n.metrics(series); is[series] != 1 {
			return fmt.Errorf("%v", n.metrics(fmt.Sprintf("cpupoold_source_state{source=%q", name)))
		}
		return nil
	})
}

// signal sends one to a process by its number in text.
func (f *faults) signal(pid string, s syscall.Signal) {
	f.Helper()
	f.run("kill", fmt.Sprintf("-%d", s), pid)
}

// repaired writes other CPUs to the shared container and waits until the daemon has repaired them. More than five calls in a minute would
// be a write conflict.
func (f *faults) repaired() {
	f.Helper()
	f.intrude()
	f.eventually("repair", func() error { return f.runsOn(f.shared, "2-3", 0) })
}

func (f *faults) intrude() {
	f.Helper()
	if err := f.fs.Write(f.shared.path, cgroup.FileCPUs, "1"); err != nil {
		f.Fatal(err)
	}
}

// comes makes an exclusive container and one of the shared pool and removes them when they are where they belong.
func (f *faults) comes() {
	f.Helper()
	f.settles(f.mustStart(1000, "default", nil), f.mustStart(500, "default", nil))
}

func (f *faults) settles(exclusive, shared pod) {
	f.Helper()
	f.onCPUs(exclusive, 1)
	f.eventually("place of "+shared.name, func() error { return f.runsOn(shared, "2-3", 0) })
	f.invariants()
	f.removePod(exclusive)
	f.removePod(shared)
}

// queueLength is the queue length that shortQueue sets.
const queueLength = 64

// shortQueue makes the kernel's queue for the next daemon's notices short, until the function is called that it returns.
func (n *node) shortQueue() (restore func()) {
	n.Helper()
	const file = "/proc/sys/fs/inotify/max_queued_events"
	before, err := os.ReadFile(file)
	if err != nil {
		n.Fatal(err)
	}
	set := func(value string) {
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			n.Error(err)
		}
	}
	set(strconv.Itoa(queueLength))
	n.Cleanup(func() { set(string(before)) })
	return func() { set(string(before)) }
}

// noticesOverflow checks that the daemon finds unreported writes and new cgroups by a full read.
func (f *faults) noticesOverflow() {
	f.Helper()
	st, err := f.fs.Read(f.shared.path)
	if err != nil {
		f.Fatal(err)
	}
	before := len(f.records("notices about cgroups are lost; reading all of them again"))
	other := f.shared.path.Parent().Join("cri-containerd-" + strings.Repeat("ab", 32) + ".scope")
	dir := filepath.Join("/sys/fs/cgroup", string(other))
	f.signal(f.pid, syscall.SIGSTOP)
	for i := range 200 { // alternate: the kernel merges equal events
		err = errors.Join(err, f.fs.Write(f.shared.path, cgroup.FileWeight, fmt.Sprint(st.Weight)))
		if i%10 == 0 {
			err = errors.Join(err, os.Mkdir(dir+"-more", 0o755), os.Remove(dir+"-more"))
		}
		f.intrude()
	}
	err = errors.Join(err, os.Mkdir(dir, 0o755))
	f.signal(f.pid, syscall.SIGCONT)
	if err != nil {
		f.Fatal(err)
	}
	f.eventually("loss in the log", func() error {
		if len(f.records("notices about cgroups are lost; reading all of them again")) == before {
			return errors.New("no record")
		}
		return nil
	})
	f.eventually("repair", func() error { return f.runsOn(f.shared, "2-3", 0) })
	f.eventually("place of the container", func() error {
		st, err := f.fs.Read(other)
		if err == nil && st.CPUs.String() != "2-3" {
			err = fmt.Errorf("cpuset.cpus is %q", st.CPUs)
		}
		return err
	})
	if err := os.Remove(dir); err != nil {
		f.Error(err)
	}
	f.over("an overflow")
}

// systemdIsGone checks that the daemon writes to the files while D-Bus is gone.
func (f *faults) systemdIsGone() {
	f.Helper()
	in := func(script string) { f.Helper(); f.run("nsenter", "-m", "-t", f.pid, "sh", "-ec", script) }
	// The daemon's notification that it is alive still succeeds.
	in(`touch /run/cpupoold/notify
		mount --bind /run/systemd/notify /run/cpupoold/notify
		mount -t tmpfs none /run/systemd
		touch /run/systemd/notify
		mount --bind /run/cpupoold/notify /run/systemd/notify
		mount -t tmpfs none /run/dbus`)
	f.run("systemctl", "daemon-reexec") // which ends all connections
	f.source("systemd_units", "lost")
	f.repaired()
	f.comes()
	f.stand("without systemd")
	in(`umount /run/dbus /run/systemd/notify /run/systemd /run/cpupoold/notify
		rm /run/cpupoold/notify`)
	f.over("the loss of D-Bus")
}
