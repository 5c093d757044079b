//go:build guest

package cgroup_test

import (
	"errors"
	"os"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/conformance"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, newKernel(t))
}

// TestOpen checks that Open accepts cgroup v2 only.
func TestOpen(t *testing.T) {
	if _, err := cgroup.Open(mount); err != nil {
		t.Error(err)
	}
	if _, err := cgroup.Open("/tmp"); !errors.Is(err, cgroup.ErrNotCgroup2) {
		t.Errorf("Open(/tmp) = %v; want ErrNotCgroup2", err)
	}
}

// TestRealTree reads and writes through the file access that the daemon uses,
// and asks the process where it may run.
func TestRealTree(t *testing.T) {
	k := newKernel(t)
	fs, err := cgroup.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"real.slice", "real.slice/a.scope", "real.slice/a.scope/container"} {
		if err := k.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := k.Rmdir(dir); err != nil {
				t.Error(err)
			}
		})
		if err := fs.Write(cgroup.Path(dir), "cgroup.subtree_control", "+cpuset +cpu"); err != nil {
			t.Fatal(err)
		}
	}
	p := startTask(t, "real.slice/a.scope/container")
	t.Cleanup(p.stop)
	if err := fs.Write("real.slice/a.scope/container", cgroup.FileCPUs, "0-2"); err != nil {
		t.Fatal(err)
	}
	target := cgroup.Target{Path: "real.slice/a.scope", CPUs: cpuset.Of(1, 2), Exclusive: true, Weight: 59, Unlimited: true}
	state, err := fs.Read(target.Path)
	if err != nil {
		t.Fatal(err)
	}
	if state.Inner == nil || state.Inner.CPUs.String() != "0-2" {
		t.Fatalf("inner cgroup = %+v; want CPUs 0-2", state)
	}
	current := map[cgroup.Path]cgroup.Current{target.Path: {State: state, Exists: true}}
	options := cgroup.Options{Driver: cgroup.DriverCgroupfs, Possible: k.possible}
	writes, deferred := cgroup.Diff([]cgroup.Target{target}, current, options)
	if len(deferred) > 0 {
		t.Errorf("deferred = %v; want none", deferred)
	}
	for _, w := range writes {
		if err := fs.Apply(w); err != nil {
			t.Error(err)
		}
	}
	if got := p.allowed(t); got != "1-2" {
		t.Errorf("the process may run on %s, want 1-2", got)
	}
	if state, err = fs.Read(target.Path); err != nil {
		t.Fatal(err)
	}
	if err := cgroup.Verify(target, state); err != nil {
		t.Error(err)
	}
}

// TestConfined shows that names cannot lead out of the mount, and that nothing
// is created in it.
func TestConfined(t *testing.T) {
	newKernel(t)
	fs, err := cgroup.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir() + "/file"
	if err := os.WriteFile(outside, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []cgroup.Path{"../../..", "../../../tmp", "/tmp", "a/../../.."} {
		if err := fs.Write(p, "file", "changed"); err == nil {
			t.Errorf("Write(%q) left the mount; want an error", p)
		}
	}
	if err := fs.Write("", "no.such.file", "1"); !errors.Is(err, cgroup.ErrNoController) {
		t.Errorf("write to a file that does not exist = %v; want ErrNoController", err)
	}
	if got := read(t, outside); got != "as it was" {
		t.Errorf("file outside = %q; want no change", got)
	}
}
