// Package conformance tests the properties of cgroup v2 kernels and of systemd that cpupoold
// depends on. The suites run on the fakes of testnode on any machine, and on real kernels in
// virtual machines. So unit tests may depend on the fakes.
package conformance

import (
	"errors"
	"fmt"
	"path"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Kernel is the subject of the suite: a cgroup v2 tree on a machine with at least four CPUs and
// the NUMA nodes 0 and 1. All CPUs but CPU 0 can be offlined. The root's children have the
// controllers cpuset and cpu.
type Kernel interface {
	cgroup.Tree
	// Task starts a process in the cgroup. stop ends it and waits for its end.
	Task(t testing.TB, name string) (stop func())
	// SetOnline sets a CPU online or offline.
	SetOnline(t testing.TB, cpu int, online bool)
	Online(t testing.TB) cpuset.Set
	Possible() cpuset.Set
	// Nodes returns the NUMA nodes with memory.
	Nodes() cpuset.Set
	// ClearsPopulated reports whether the kernel is 7.0 or later. IdleWeight returns the value of
	// cpu.weight while cpu.idle is set.
	ClearsPopulated() bool
	IdleWeight() uint64
	// Nice reports whether cpu.weight.nice exists. It does not in the fake tree.
	Nice() bool
	Partitions() testnode.PartitionRules
	cgroup.Notifier
	// Watches returns the number of inotify watches of the process.
	Watches(t testing.TB) int
}

// Run runs the suite. It removes all cgroups that it creates.
func Run(t *testing.T, k Kernel) {
	tests := []struct {
		name string
		run  func(*bench)
	}{
		{"files of a controller", (*bench).controllers},
		{"cgroup that is gone", (*bench).removedCgroup},
		{"effective is request and parent", (*bench).effective},
		{"effective follows the ancestors", (*bench).inheritance},
		{"syntax of cpuset.cpus", (*bench).syntax},
		{"errors of cpuset.cpus", (*bench).cpusetErrors},
		{"clearing cpuset.cpus", (*bench).clearing},
		{"disabling a controller", (*bench).disabling},
		{"hotplug", (*bench).hotplug},
		{"cpuset.mems", (*bench).mems},
		{"errors of cpuset.mems", (*bench).memsErrors},
		{"clearing cpuset.mems", (*bench).clearingMems},
		{"populated", (*bench).populated},
		{"cpu.weight", (*bench).weight},
		{"cpu.idle", (*bench).idle},
		{"cpu.max", (*bench).max},
		{"plans", (*bench).plans},
		{"writes are reported", (*bench).writesReported},
		{"many writes are reported once", (*bench).writesMerged},
		{"own writes are reported", (*bench).ownWritesReported},
		{"children are reported", (*bench).childrenReported},
		{"a later branch is reported", (*bench).branchReported},
		{"watches are released", (*bench).watchesReleased},
		{"remote partition", (*bench).remotePartition},
		{"lists of exclusive CPUs", (*bench).partitionLists},
		{"sibling of a partition", (*bench).partitionSibling},
		{"cut above a partition", (*bench).partitionCut},
		{"cleared lists above a partition", (*bench).partitionCleared},
		{"hotplug of a partition", (*bench).partitionHotplug},
		{"root partition without CPUs", (*bench).partitionStranded},
		{"removal of a partition", (*bench).partitionRemoval},
		{"broken partitions are reported", (*bench).partitionReported},
		{"plans of partitions", (*bench).partitionPlans},
		{"parked CPUs", (*bench).parking},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := &bench{T: t, k: k, fs: cgroup.New(k), top: cgroup.Path(fmt.Sprint("conformance", i))}
			b.mkdir(b.top)
			test.run(b)
		})
	}
}

// bench is the part of the tree for one test.
type bench struct {
	*testing.T
	k   Kernel
	fs  *cgroup.FS
	top cgroup.Path
}

func (b *bench) mkdir(p cgroup.Path) cgroup.Path {
	b.Helper()
	if err := b.k.Mkdir(string(p)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := b.k.Rmdir(string(p)); err != nil && !errors.Is(err, syscall.ENOENT) {
			b.Error(err)
		}
	})
	return p
}

// child creates a cgroup with both controllers below p.
func (b *bench) child(p cgroup.Path, name string) cgroup.Path {
	b.Helper()
	b.write(p, "cgroup.subtree_control", "+cpuset +cpu")
	return b.mkdir(p.Join(name))
}

func (b *bench) rmdir(p cgroup.Path) {
	b.Helper()
	if err := b.k.Rmdir(string(p)); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) task(p cgroup.Path) (stop func()) {
	b.Helper()
	stop = b.k.Task(b, string(p))
	b.Cleanup(stop)
	return stop
}

func (b *bench) write(p cgroup.Path, file, value string) {
	b.Helper()
	if err := b.fs.Write(p, file, value); err != nil {
		b.Fatal(err)
	}
}

// refused checks that a write fails with an error.
func (b *bench) refused(p cgroup.Path, file, value string, want error) {
	b.Helper()
	if err := b.fs.Write(p, file, value); !errors.Is(err, want) {
		b.Errorf("Write(%s, %s, %q) = %v; want %v", p, file, value, err, want)
	}
}

func (b *bench) state(p cgroup.Path) cgroup.State {
	b.Helper()
	s, err := b.fs.Read(p)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// checkCPUs checks the requested and the effective CPUs.
func (b *bench) checkCPUs(p cgroup.Path, request, effective string) {
	b.Helper()
	s := b.state(p)
	if s.CPUs.String() != request || s.Effective.String() != effective {
		b.Errorf("%s: request %q, effective %q; want %q, %q", p, s.CPUs, s.Effective, request, effective)
	}
}

func (b *bench) online() string {
	b.Helper()
	return b.state("").Effective.String()
}

// writeRaw writes without the checks of FS.
func (b *bench) writeRaw(p cgroup.Path, file, value string) {
	b.Helper()
	if err := b.k.WriteFile(path.Join(string(p), file), value); err != nil {
		b.Error(err)
	}
}
