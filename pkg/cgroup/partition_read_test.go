package cgroup_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// sight is a node with pods of one container and one more, whose partition is looked at.
type sight struct {
	*testing.T
	tree   *testnode.Cgroups
	fs     *cgroup.FS
	memory *cgroup.PartitionMemory
	leaf   cgroup.Path
}

const kube = cgroup.Path("kubepods.slice")

func podPath(i int) cgroup.Path { return kube.Join(fmt.Sprintf("kubepods-pod%d.slice", i)) }

func newSight(t *testing.T, pods int) *sight {
	tree := testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7), Partitions: testnode.PartitionsLike(7, 0, 0)})
	tree.MkdirAll("system.slice/cron.service")
	for i := range pods {
		tree.MkdirAll(string(podPath(i).Join("cri-a.scope")))
	}
	s := &sight{T: t, tree: tree, fs: cgroup.New(tree), leaf: podPath(pods).Join("cri-own.scope")}
	tree.MkdirAll(string(s.leaf))
	s.memory = s.fs.PartitionMemory()
	return s
}

// look takes a look, and returns how many files were read for it and how many directories
// listed.
func (s *sight) look() (v cgroup.PartitionView, files, lists int) {
	s.Helper()
	s.tree.OnRead(func(name string) {
		if name[len(name)-1] == '/' {
			lists++
		} else {
			files++
		}
	})
	defer s.tree.OnRead(nil)
	v, err := s.memory.Read([]cgroup.Path{s.leaf})
	if err != nil {
		s.Fatal(err)
	}
	return v, files, lists
}

func (s *sight) write(p cgroup.Path, file, value string) {
	s.Helper()
	if err := s.fs.Write(p, file, value); err != nil {
		s.Fatal(err)
	}
}

// sees compares a read with the read of a new memory.
func (s *sight) sees() {
	s.Helper()
	got, _, _ := s.look()
	want, err := s.fs.ReadPartitions([]cgroup.Path{s.leaf})
	if err != nil {
		s.Fatal(err)
	}
	if a, b := slices.Sorted(maps.Keys(got.Nodes)), slices.Sorted(maps.Keys(want.Nodes)); !slices.Equal(a, b) {
		s.Fatalf("there are %v, want %v", a, b)
	}
	for p, w := range want.Nodes {
		if n := got.Nodes[p]; n.State.String() != w.State.String() || !n.CPUs.Equal(w.CPUs) || !n.Exclusive.Equal(w.Exclusive) || w.State.Valid() && !n.Effective.Equal(w.Effective) {
			s.Errorf("%s is taken for %+v, want %+v", p, n, w)
		}
	}
}

// TestPartitionReads checks the numbers of reads. The first pass reads two files of each
// pod, and all files of requested partitions. Later passes read the files with own writes.
// The number of pods does not change that cost.
func TestPartitionReads(t *testing.T) {
	for _, pods := range []int{16, 125, 500} {
		t.Run(fmt.Sprintf("%dpods", pods), func(t *testing.T) {
			s := newSight(t, pods)
			const (
				root  = 1
				chain = 3 * 4 // the leaf, its pod, and the ancestor of all pods
				host  = 2     // system.slice
			)
			if _, files, lists := s.look(); files != root+chain+host+2*pods || lists != 3 {
				t.Errorf("first read: files = %d, directories = %d; want all once", files, lists)
			}
			if _, files, lists := s.look(); files != root || lists != 0 {
				t.Errorf("second read: files = %d, directories = %d; want the root only", files, lists)
			}
			for _, p := range []cgroup.Path{kube, s.leaf.Parent(), s.leaf} {
				s.write(p, cgroup.FileExclusive, "4-5")
				s.memory.Forget(p)
			}
			if _, files, lists := s.look(); files != root+chain || lists != 0 {
				t.Errorf("read after a step: files = %d, directories = %d; want the chain only", files, lists)
			}
			s.write(s.leaf, cgroup.FilePartition, "root")
			s.memory.ForgetUp(s.leaf)
			if _, files, lists := s.look(); files != root+chain || lists != 0 {
				t.Errorf("read after the last step: files = %d, directories = %d; want the chain only", files, lists)
			}
			s.sees()
		})
	}
}

// TestPartitionMemory checks that reported changes are read, and that a partition that
// the kernel has ended without an event is found, too.
func TestPartitionMemory(t *testing.T) {
	other := podPath(1).Join("cri-a.scope")
	for name, test := range map[string]func(s *sight){
		"nothing": func(*sight) {},
		"a list": func(s *sight) {
			s.write(podPath(0), cgroup.FileExclusive, "6")
			s.memory.Forget(podPath(0))
		},
		"a sibling becomes a partition": func(s *sight) {
			s.write(kube, cgroup.FileExclusive, "4-6")
			s.write(podPath(0), cgroup.FileExclusive, "6")
			s.write(podPath(0), cgroup.FilePartition, "isolated")
			s.memory.ForgetUp(podPath(0))
		},
		"it is ended without an event": func(s *sight) { s.write(s.leaf, cgroup.FilePartition, "member") },
		"it is gone without an event": func(s *sight) {
			if err := s.tree.Rmdir(string(s.leaf)); err != nil {
				s.Fatal(err)
			}
		},
		"a pod comes": func(s *sight) {
			s.tree.MkdirAll(string(podPath(9)))
			s.write(podPath(9), cgroup.FileCPUs, "0-1")
			s.memory.Appeared(podPath(9))
		},
		"a pod goes": func(s *sight) {
			if err := s.tree.Remove(string(podPath(0))); err != nil {
				s.Fatal(err)
			}
			s.memory.Gone(podPath(0))
		},
		"a pod goes and comes": func(s *sight) {
			s.write(podPath(0), cgroup.FileExclusive, "6")
			s.memory.Forget(podPath(0))
			s.look()
			if err := s.tree.Remove(string(podPath(0))); err != nil {
				s.Fatal(err)
			}
			s.tree.MkdirAll(string(podPath(0)))
			s.memory.Appeared(podPath(0))
		},
		"another one is looked at": func(s *sight) { s.leaf = other },
		"one without an event yet": func(s *sight) {
			s.leaf = podPath(8).Join("cri-new.scope")
			s.tree.MkdirAll(string(s.leaf))
			s.write(s.leaf, cgroup.FileCPUs, "3")
			s.memory.ForgetUp(s.leaf)
		},
		"all that is in a pod": func(s *sight) {
			s.tree.MkdirAll(string(s.leaf.Parent().Join("cri-beside.scope")))
			s.write(s.leaf.Parent().Join("cri-beside.scope"), cgroup.FileCPUs, "0-1")
			s.memory.ForgetIn(s.leaf.Parent())
		},
		"everything": func(s *sight) {
			s.write("system.slice", cgroup.FileCPUs, "0-1")
			s.tree.MkdirAll("user.slice")
			s.memory.Keep(func(p cgroup.Path) bool { return p.Parent() != "" }, func(p cgroup.Path) bool { return p != "" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSight(t, 4)
			s.tree.MkdirAll(string(other))
			for _, p := range []cgroup.Path{kube, s.leaf.Parent(), s.leaf} {
				s.write(p, cgroup.FileExclusive, "4-5")
			}
			s.write(s.leaf, cgroup.FilePartition, "root")
			s.sees()
			test(s)
			s.sees()
		})
	}
}

// TestPartitionMemorySame checks that a cgroup in its known state differs from one with
// an external write.
func TestPartitionMemorySame(t *testing.T) {
	s := newSight(t, 2)
	if same, known := s.memory.Same(kube); same || known {
		t.Errorf("before the first read: same = %t, known = %t; want false", same, known)
	}
	s.look()
	for _, test := range []struct {
		p           cgroup.Path
		file, value string
	}{{podPath(0), cgroup.FileCPUs, "1"}, {podPath(0), cgroup.FileExclusive, "6"}, {kube, cgroup.FileExclusive, "6"}, {podPath(0), cgroup.FilePartition, "root"}} {
		if same, known := s.memory.Same(test.p); !same || !known {
			t.Errorf("%s: same = %t, known = %t; want true", test.p, same, known)
		}
		s.write(test.p, test.file, test.value)
		if same, known := s.memory.Same(test.p); same || !known {
			t.Errorf("%s after %s > %s: same = %t, known = %t; want a known difference", test.p, test.value, test.file, same, known)
		}
	}
	if err := s.tree.Remove(string(podPath(1))); err != nil {
		t.Fatal(err)
	}
	if same, known := s.memory.Same(podPath(1)); same || !known {
		t.Errorf("removed cgroup: same = %t, known = %t; want a known difference", same, known)
	}
	s.sees()
}
