package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkRead reads a container's cgroup with the calls that it takes on the
// kernel's tree, from plain files: what is missing is the kernel's price for
// printing the values.
func BenchmarkRead(b *testing.B) {
	const scope = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-1.scope"
	dir := b.TempDir()
	err := os.MkdirAll(filepath.Join(dir, scope), 0o700)
	for name, content := range map[string]string{
		scope + "/cgroup.events":            "populated 1\nfrozen 0\n",
		scope + "/cpuset.cpus":              "4-5\n",
		scope + "/cpuset.cpus.effective":    "4-5\n",
		scope + "/../cpuset.cpus.effective": "0-7\n",
		scope + "/cpu.weight":               "79\n",
		scope + "/cpu.idle":                 "0\n",
		scope + "/cpu.max":                  "max 100000\n",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	if err != nil {
		b.Fatal(err)
	}
	root, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	fs := New(rootTree{root})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fs.Read(scope); err != nil {
			b.Fatal(err)
		}
	}
}
