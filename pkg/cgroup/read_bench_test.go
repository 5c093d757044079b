package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/cputime"
)

// BenchmarkRead reads one cgroup of 500, for 250 containers in 125 pods of two, with their
// pause containers. It reads as a start does, with the system calls of the kernel's tree,
// from plain files. Only the kernel's cost of printing the values is missing. It counts CPU
// time, because its limit is in CPU time.
func BenchmarkRead(b *testing.B) {
	fs, _, all := plainNode(b)
	r := fs.Reader()
	b.ReportAllocs()
	before := cputime.Of(b)
	for i := 0; b.Loop(); i++ {
		if i%len(all) == 0 {
			r.Rest()
		}
		if _, err := r.Read(all[i%len(all)]); err != nil {
			b.Fatal(err)
		}
	}
	cputime.Report(b, before)
	r.Rest()
}

// BenchmarkSweep measures the work of a resync for the cgroups of 250 idle containers in 125 pods: the containers,
// their pause containers, and one in five pods, whose weight the daemon sets. One in eight is read (the daemon's
// maxTurns), the others are checked. The affinity of each thread of the containers is read.
func BenchmarkSweep(b *testing.B) {
	fs, dir, all := plainNode(b)
	all = slices.DeleteFunc(all, func(p Path) bool { return strings.HasSuffix(string(p), ".slice") && p[len(p)-len("0.slice")]%5 != 0 })
	for _, threads := range []int{1, 10} {
		b.Run(fmt.Sprintf("%dthreads", threads), func(b *testing.B) {
			known := make([]State, len(all))
			r := fs.Reader()
			for i, p := range all {
				list := strings.Repeat(fmt.Sprintln(os.Getpid()), threads)
				if err := os.WriteFile(filepath.Join(dir, string(p), "cgroup.threads"), []byte(list), 0o600); err != nil {
					b.Fatal(err)
				}
				var err error
				if known[i], err = r.Read(p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			before := cputime.Of(b)
			for round := 0; b.Loop(); round++ {
				for i, p := range all {
					var err error
					if (i+round)%8 == 0 {
						known[i], err = r.Read(p)
					} else {
						known[i], err = r.Check(known[i])
					}
					if err == nil && strings.HasSuffix(string(p), ".scope") {
						var g Gathered
						if g, err = r.Gather(p); g.Back > 0 {
							b.Fatal(g)
						}
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				r.Rest()
			}
			cputime.Report(b, before)
		})
	}
}

// plainNode are the cgroups of 250 containers in plain files below dir.
func plainNode(b *testing.B) (fs *FS, dir string, all []Path) {
	dir = b.TempDir()
	for pod := range 125 {
		slice := Path(fmt.Sprintf("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0c7b8d5e_3a64_4f0e_9d0f_%012d.slice", pod))
		all = append(all, slice)
		for c := range 3 {
			all = append(all, slice.Join(fmt.Sprintf("cri-containerd-%063d%d.scope", pod, c)))
		}
	}
	const on = "0-1023\n" // on any machine
	above := filepath.Join(dir, "kubepods.slice/kubepods-burstable.slice")
	if err := errors.Join(os.MkdirAll(above, 0o700), os.WriteFile(filepath.Join(above, fileEffective), []byte(on), 0o600)); err != nil {
		b.Fatal(err)
	}
	for _, p := range all {
		at := filepath.Join(dir, string(p))
		err := os.MkdirAll(at, 0o700)
		for name, content := range map[string]string{
			"cgroup.controllers":    "cpuset cpu\n",
			"cgroup.events":         "populated 1\nfrozen 0\n",
			"cpuset.cpus":           "4-5\n",
			"cpuset.cpus.effective": on,
			"cpuset.mems":           "\n",
			"cpuset.cpus.partition": "member\n",
			"cpu.weight":            "79\n",
			"cpu.idle":              "0\n",
			"cpu.max":               "max 100000\n",
			"cgroup.threads":        fmt.Sprintln(os.Getpid()),
		} {
			err = errors.Join(err, os.WriteFile(filepath.Join(at, name), []byte(content), 0o600))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { root.Close() }) //nolint:errcheck // test
	tree, err := newRootTree(root)
	if err != nil {
		b.Fatal(err)
	}
	return New(tree), dir, all
}

// BenchmarkGather measures the part of a container that Gather reads, which the event loop waits for. small has ten
// threads. crowded reaches both bounds, with a list of 131,073 threads and 1,000 cgroups in one directory. More cgroups
// would make no difference, because Gather reads 256 entries of the directory at most.
func BenchmarkGather(b *testing.B) {
	for _, container := range []struct {
		name             string
		threads, cgroups int
	}{{"small", 10, 0}, {"crowded", 131_073, 1000}} {
		b.Run(container.name, func(b *testing.B) {
			fs, dir, all := plainNode(b)
			at := all[1]
			list := strings.Repeat(fmt.Sprintln(os.Getpid()), container.threads)
			err := os.WriteFile(filepath.Join(dir, string(at), "cgroup.threads"), []byte(list), 0o600)
			for i := range container.cgroups {
				err = errors.Join(err, os.Mkdir(filepath.Join(dir, string(at), fmt.Sprint(i)), 0o700))
			}
			if err != nil {
				b.Fatal(err)
			}
			r := fs.Reader()
			b.ReportAllocs()
			before := cputime.Of(b)
			for b.Loop() {
				if g, err := r.Gather(at); err != nil || g.More != (container.cgroups > 0) {
					b.Fatal(g, err)
				}
				r.Rest()
			}
			cputime.Report(b, before)
		})
	}
}
