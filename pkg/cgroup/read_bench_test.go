package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkRead reads a container's cgroup with the calls that it takes on the
// kernel's tree, from plain files: what is missing is the kernel's price for
// printing the values. It counts CPU time, because that is what it is held to.
func BenchmarkRead(b *testing.B) {
	const scope = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-1.scope"
	dir := b.TempDir()
	err := os.MkdirAll(filepath.Join(dir, scope), 0o700)
	for name, content := range map[string]string{
		scope + "/cgroup.events":            "populated 1\nfrozen 0\n",
		scope + "/cpuset.cpus":              "4-5\n",
		scope + "/cpuset.cpus.effective":    "4-5\n",
		scope + "/cpuset.mems":              "\n",
		scope + "/../cpuset.cpus.effective": "0-7\n",
		scope + "/cpuset.cpus.partition":    "member\n",
		scope + "/cgroup.controllers":       "cpuset cpu\n",
		scope + "/cpu.weight":               "79\n",
		scope + "/cpu.idle":                 "0\n",
		scope + "/cpu.max":                  "max 100000\n",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	if err != nil {
		b.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	fs := New(rootTree{root})
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		if _, err := fs.Read(scope); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is that of this process so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
