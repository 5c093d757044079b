// Package conformance is what cpupoold relies on in a cgroup v2 kernel, as
// tests. They run against the tree in memory on any machine, and against real
// kernels in virtual machines: what both pass, unit tests may believe.
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

// Kernel is what the suite runs against: a cgroup v2 tree of a machine with at
// least four CPUs of which all but CPU 0 can be unplugged, and the NUMA nodes 0
// and 1. The root's children have the controllers cpuset and cpu.
type Kernel interface {
	cgroup.Tree
	// Task starts a process in the cgroup; stop ends it and waits for its end.
	Task(t testing.TB, name string) (stop func())
	// SetOnline plugs a CPU in or out.
	SetOnline(t testing.TB, cpu int, online bool)
	Online(t testing.TB) cpuset.Set
	Possible() cpuset.Set
	// Nodes are the NUMA nodes with memory.
	Nodes() cpuset.Set
	// ClearsPopulated says that the kernel is 7.0 or later, IdleWeight what
	// cpu.weight reads while cpu.idle is set.
	ClearsPopulated() bool
	IdleWeight() uint64
	// Nice says that there is cpu.weight.nice; the tree in memory has none.
	Nice() bool
	Partitions() testnode.PartitionRules
	cgroup.Notifier
	// Watches is the number of inotify watches that the process holds.
	Watches(t testing.TB) int
}

// Run runs the suite. Whatever it makes in the tree it removes again.
func Run(t *testing.T, k Kernel) {
	tests := []struct {
		name string
		run  func(*bench)
	}{
		{"files of a controller", (*bench).controllers},
		{"cgroup that is gone", (*bench).gone},
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
		{"writes are told", (*bench).writesTold},
		{"many writes are told once", (*bench).writesFold},
		{"own writes are told", (*bench).ownWritesTold},
		{"children are told", (*bench).childrenTold},
		{"a branch that comes later is told", (*bench).branchTold},
		{"watches are released", (*bench).watchesReleased},
		{"remote partition", (*bench).remotePartition},
		{"lists of exclusive CPUs", (*bench).partitionLists},
		{"sibling of a partition", (*bench).partitionSibling},
		{"cut above a partition", (*bench).partitionCut},
		{"cleared lists above a partition", (*bench).partitionCleared},
		{"hotplug of a partition", (*bench).partitionHotplug},
		{"root partition without CPUs", (*bench).partitionStranded},
		{"removal of a partition", (*bench).partitionRemoval},
		{"broken partitions are told", (*bench).partitionTold},
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

// bench is one test's part of the tree.
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

// child makes a cgroup with both controllers below p.
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

// refused writes a value that must fail with an error.
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

// runs checks request and effective set.
func (b *bench) runs(p cgroup.Path, request, effective string) {
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

// writeRaw writes past the checks of FS.
func (b *bench) writeRaw(p cgroup.Path, file, value string) {
	b.Helper()
	if err := b.k.WriteFile(path.Join(string(p), file), value); err != nil {
		b.Error(err)
	}
}
