package cgroup_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// faulty is a tree in which one cgroup cannot be read.
type faulty struct {
	*testnode.Cgroups
	bad string
}

func (f faulty) ReadFile(name string, limit int) ([]byte, error) {
	if path.Dir(name) == f.bad {
		return nil, syscall.EIO
	}
	return f.Cgroups.ReadFile(name, limit)
}

// TestNestedCgroupsAreBounded checks which cgroups below a container or a service Listed and Partitioned read. They read a
// bounded number, and only where one of them can be a partition. They skip an error there.
func TestNestedCgroupsAreBounded(t *testing.T) {
	const (
		own    = kube + "/kubepods-pod1.slice/cri-own.scope"
		shared = kube + "/kubepods-pod2.slice/cri-shared.scope"
		user   = cgroup.Path("user.slice/user@1000.service")
		nested = 500
	)
	for name, test := range map[string]struct {
		bad    string
		failed bool
	}{
		"":                    {},
		"nested":              {bad: string(own) + "/0"},
		"nested in a service": {bad: string(user) + "/0"},
		"container":           {bad: string(own), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			tree := testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7), Partitions: testnode.PartitionsLike(7, 0, 0)})
			for _, top := range []cgroup.Path{own, shared, user} {
				for i := range nested {
					tree.MkdirAll(fmt.Sprintf("%s/%d", top, i))
				}
			}
			fs := cgroup.New(faulty{tree, test.bad})
			for _, w := range [][2]string{
				{string(kube), "4-5"}, {string(own.Parent()), "4-5"}, {string(own), "4-5"},
			} {
				if err := tree.Write(w[0]+"/"+cgroup.FileExclusive, w[1]); err != nil {
					t.Fatal(err)
				}
			}
			if err := tree.Write(string(own)+"/"+cgroup.FilePartition, "root"); err != nil {
				t.Fatal(err)
			}
			reads := map[string]int{}
			tree.OnRead(func(name string) {
				for _, top := range []cgroup.Path{own, shared, user} {
					if strings.HasPrefix(name, string(top)+"/") && path.Base(name) == cgroup.FileCPUs && path.Dir(name) != string(top) {
						reads[string(top)]++
					}
				}
			})
			listed, err := fs.Listed()
			if (err != nil) != test.failed {
				t.Fatalf("Listed: %v", err)
			}
			if err != nil {
				return
			}
			if want := []cgroup.Path{kube, own.Parent(), own}; !slices.Equal(listed, want) {
				t.Errorf("Listed = %q; want %q", listed, want)
			}
			if n := reads[string(own)]; n < 60 || n > 64 {
				t.Errorf("%d cgroups are read in a partition; want 64", n)
			}
			if reads[string(shared)]+reads[string(user)] > 0 {
				t.Errorf("reads of cgroups without partitions = %v; want none", reads)
			}
			if cpus, err := fs.Partitioned(); err != nil || cpus.String() != "4-5" {
				t.Errorf("Partitioned = %s, %v; want 4-5", cpus, err)
			}
		})
	}
}
