//go:build guest

package isolation_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// config takes exclusive CPUs out of those that the shared pods have been running on.
const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-1, namespaces: [kube-system]}
shared: {cpus: 2-7}
guaranteed: {from: shared, floor: 2}
resyncPeriod: 1h
podResourcesSocket: none
`

// spun is the CPU time that the exclusive container uses during the trace, in microseconds.
const spun = 2_000_000

type node struct{ *guestnode.Node }

// partitions asks for these, too: each of their types takes as long again.
var partitions = flag.Bool("partitions", false, "show what partitions keep off, too, where the kernel has them")

// means is a mechanism that excludes other tasks from exclusive CPUs.
type means struct {
	name        string
	config      string
	annotations map[string]string // of the pod that has them
	typ         cgroup.PartitionType
}

// allMeans returns both mechanisms: the cpusets of all containers and host services,
// and partitions alone.
func allMeans() []means {
	partition := strings.Replace(config, "floor: 2", "floor: 2, isolation: partition", 1)
	return []means{
		{"cpuset", config + "hostSlices: {enabled: true}\n", nil, cgroup.MemberPartition},
		{"root", partition, nil, cgroup.RootPartition},
		{"isolated", partition, map[string]string{"cpu-load-balancing.crio.io": "disable"}, cgroup.IsolatedPartition},
	}
}

// host is the cgroup of the process of the host's that spins.
const host = cgroup.Path("system.slice/spinner.service")

// TestNoForeignTask watches the CPUs of an exclusive container with busy threads. Busy threads outside set their affinity to these
// CPUs, first with a running daemon and then after its kill.
func TestNoForeignTask(t *testing.T) {
	n := &node{guestnode.New(t)}
	n.Run("systemd-run", "--unit=spinner", "--property=CPUWeight=1", "sh", "-c", "while :; do :; done")
	t.Cleanup(func() { n.Run("systemctl", "stop", "spinner") })
	spinner := n.threads(host)

	// Check first that the trace would show the spinner. It comes from another CPU, because the kernel records no
	// switch for a task that keeps running.
	n.allow(spinner, cpuset.Range(7, 7))
	tr := startTrace(t, cpuset.Range(6, 6))
	n.allow(spinner, cpuset.Range(6, 6))
	n.spins(host, spun/10)
	if r := tr.end(); len(r.among(spinner)) == 0 {
		t.Fatalf("trace without an owner = %v; want the spinner in it", r)
	}
	n.allow(spinner, cpuset.Range(0, 7))
	n.signal(host, unix.SIGSTOP) // while the emulated node has work to do; they spin while they are watched

	for _, by := range allMeans() {
		t.Run(by.name, func(t *testing.T) {
			n := &node{guestnode.New(t)}
			switch {
			case by.typ == cgroup.MemberPartition:
			case !*partitions:
				t.Skip("some minutes: -partitions")
			case !n.hasPartitions():
				t.Skip("the kernel is older than 6.11: no partitions below cgroups that are none")
			}
			n.keepsOff(by)
		})
	}
}

// hasPartitions reports whether the kernel's version has partitions.
func (n *node) hasPartitions() bool {
	n.Helper()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		n.Fatal(err)
	}
	kernel, err := cgroup.ParsePartitionKernel(string(release))
	if err != nil {
		n.Fatal(err)
	}
	return kernel.Remote
}

// keepsOff starts an exclusive container next to an older one.
func (n *node) keepsOff(by means) {
	n.Helper()
	n.StartDaemon(by.config)
	n.Cleanup(func() {
		n.StopDaemon()
		n.Run("cpupoold", "restore")
	})
	n.Apply(manifest.Pod{Name: "old", Namespace: "default", Containers: []manifest.Container{
		{Name: "app", CPU: "500m", Memory: "32Mi", Args: []string{"spin", "2"}}}})
	old := n.running("old", func(c guestnode.Container) bool { return c.Effective.Len() == 6 })
	n.signal(n.path(old), unix.SIGSTOP)
	n.Apply(manifest.Pod{Name: "owner", Namespace: "default", Annotations: by.annotations, Containers: []manifest.Container{
		{Name: "app", CPU: "2", Memory: "32Mi", Limited: true, Args: []string{"spin", "2"}}}})
	owner := n.running("owner", func(c guestnode.Container) bool { return c.Effective.Len() == 2 && c.Partition.Is(by.typ) })
	n.Settled()
	n.watched("daemon alive", old, owner)
	n.Run("systemctl", "kill", "--signal=KILL", "cpupoold")
	n.Run("systemctl", "stop", "cpupoold") // before systemd starts it again
	n.watched("daemon dead", old, owner)
}

// watched checks that only the owner runs on its CPUs.
func (n *node) watched(when string, old, owner guestnode.Container) {
	n.Helper()
	tr := startTrace(n.T, owner.Effective)
	mine := n.threads(n.path(owner))
	n.signal(n.path(old), unix.SIGCONT)
	n.signal(host, unix.SIGCONT)
	n.lure(slices.Concat(n.threads(n.path(old)), n.threads(host), []int{os.Getpid()}), owner.Effective)
	n.spins(n.path(owner), spun)
	n.signal(n.path(old), unix.SIGSTOP)
	n.signal(host, unix.SIGSTOP)
	r := tr.end()
	mine = append(mine, n.threads(n.path(owner))...)
	if foreign := r.others(mine); len(foreign) > 0 {
		n.Errorf("%s: other tasks on the exclusive CPUs %s = %v; want none\n%s", when, owner.Effective, foreign, n.Evidence())
	}
	if len(r.among(mine)) == 0 {
		n.Errorf("%s: trace lacks the exclusive container: %v", when, r)
	}
	n.Logf("%s: switches on CPUs %s: to the container %v, to kernel threads %v", when, owner.Effective, r.among(mine), r.kernels)
}

// running waits for a pod's container.
func (n *node) running(pod string, when func(guestnode.Container) bool) (c guestnode.Container) {
	n.Helper()
	n.Eventually(pod, func() (err error) {
		if c, err = n.Find(pod, "app"); err == nil && !when(c) {
			err = fmt.Errorf("on CPUs %s, %s", c.Effective, c.Partition)
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

// threads returns the threads of a cgroup and of the cgroups below it: crun puts a
// container into an inner cgroup.
func (n *node) threads(p cgroup.Path) []int {
	n.Helper()
	return n.members(p, "cgroup.threads")
}

// signal sends one to the processes of a cgroup.
func (n *node) signal(p cgroup.Path, signal unix.Signal) {
	n.Helper()
	for _, pid := range n.members(p, "cgroup.procs") {
		if err := unix.Kill(pid, signal); err != nil {
			n.Fatalf("signal %v to process %d of %s: %v", signal, pid, p, err)
		}
	}
}

func (n *node) members(p cgroup.Path, file string) (ids []int) {
	n.Helper()
	err := walk.Cgroups(n.FS, p, func(p cgroup.Path) error {
		text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", string(p), file))
		for field := range strings.FieldsSeq(string(text)) {
			id, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return err
	})
	if err != nil || len(ids) == 0 {
		n.Fatalf("%s of %s: %v, %v", file, p, ids, err)
	}
	return ids
}

// spins waits until a cgroup has used that many more microseconds of CPU time.
func (n *node) spins(p cgroup.Path, usec int64) {
	n.Helper()
	used := func() int64 {
		text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", string(p), "cpu.stat"))
		if err != nil {
			n.Fatal(err)
		}
		var usage int64
		if _, err := fmt.Sscanf(string(text), "usage_usec %d", &usage); err != nil {
			n.Fatalf("cpu.stat of %s: %v: %s", p, err, text)
		}
		return usage
	}
	begin := used()
	n.Eventually(fmt.Sprintf("%s spins", p), func() error {
		if now := used() - begin; now < usec {
			return fmt.Errorf("%d of %d µs", now, usec)
		}
		return nil
	})
}

// lure sets the affinity of threads twice. The kernel refuses the exclusive CPUs alone. Of all CPUs, it grants the CPUs of the thread's
// cpuset.
func (n *node) lure(tids []int, cpus cpuset.Set) {
	n.Helper()
	for _, tid := range tids {
		if err := allow(tid, cpus); !errors.Is(err, unix.EINVAL) {
			n.Errorf("set affinity of thread %d to %s: %v; want an error", tid, cpus, err)
		}
		if err := allow(tid, cpuset.Range(0, 7)); err != nil {
			n.Errorf("set affinity of thread %d to all CPUs: %v", tid, err)
		}
	}
}

// allow sets the affinity of threads.
func (n *node) allow(tids []int, cpus cpuset.Set) {
	n.Helper()
	for _, tid := range tids {
		if err := allow(tid, cpus); err != nil {
			n.Fatalf("set affinity of thread %d to %s: %v", tid, cpus, err)
		}
	}
}

// allow sets an affinity, as taskset does.
func allow(tid int, cpus cpuset.Set) error {
	var mask unix.CPUSet
	for cpu := range cpus.All() {
		mask.Set(cpu)
	}
	return unix.SchedSetaffinity(tid, &mask)
}
