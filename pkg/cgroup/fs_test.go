package cgroup_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func newTree(dirs ...string) (*testnode.Cgroups, *cgroup.FS) {
	tree := testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7), Nodes: cpuset.Of(0, 1)})
	for _, dir := range dirs {
		tree.MkdirAll(dir)
	}
	return tree, cgroup.New(tree)
}

func TestFSWalk(t *testing.T) {
	tree, fs := newTree("b/y", "a/z", "a/x/w", "a/x-1")
	var seen []string
	err := walk.Cgroups(fs, "", func(p cgroup.Path) error {
		seen = append(seen, string(p))
		if p == "a/x" { // a cgroup that ends during the walk is no error
			return errors.Join(tree.Remove("a/x/w"), tree.Remove("a/z"))
		}
		return nil
	})
	want := []string{"", "a", "a/x", "a/x-1", "b", "b/y"}
	if d := cmp.Diff(want, seen); d != "" || err != nil {
		t.Errorf("Walk: %v (-want +got):\n%s", err, d)
	}
	stop := errors.New("stop")
	if err := walk.Cgroups(fs, "a", func(cgroup.Path) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Walk = %v; want the error of visit", err)
	}
	if err := walk.Cgroups(fs, "c", func(cgroup.Path) error { return nil }); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("Walk of a missing cgroup = %v; want ErrGone", err)
	}
}

func TestFSErrors(t *testing.T) {
	tree, fs := newTree("p.slice/c.scope")
	if err := tree.Mkdir("p.slice/c.scope/bare"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path        cgroup.Path
		file, value string
		fail        error
		want        string
	}{
		{"p.slice/c.scope", "cpuset.cpus", "0-3", syscall.EBUSY,
			`write p.slice/c.scope/cpuset.cpus "0-3": device or resource busy (a task with SCHED_DEADLINE would lose its bandwidth, or the parent is no partition root)`},
		{"p.slice/c.scope", "cpuset.cpus", "0-9", nil,
			`write p.slice/c.scope/cpuset.cpus "0-9": numerical result out of range (a CPU number is beyond what this kernel was built or booted for)`},
		{"p.slice/c.scope", "cpuset.mems", "2", nil,
			`write p.slice/c.scope/cpuset.mems "2": invalid argument (there is no such NUMA node)`},
		{"p.slice/c.scope", "cpu.weight", "0", nil, `write p.slice/c.scope/cpu.weight "0": numerical result out of range (weights go from 1 to 10000)`},
		{"p.slice/c.scope", "cpu.max", "1", nil,
			`write p.slice/c.scope/cpu.max "1": invalid argument (a quota is at least 1000 us and not below cpu.max.burst, a period 1 ms to 1 s)`},
		{"p.slice/c.scope", "cpuset.cpus", "0", syscall.ENODEV, `write p.slice/c.scope/cpuset.cpus "0": cgroup is gone`},
		{"p.slice/c.scope", "cpuset.cpus", "0", syscall.EROFS,
			`write p.slice/c.scope/cpuset.cpus "0": read-only file system (the cgroup file system is mounted read-only: mount it read-write)`},
		{"p.slice/gone.scope", "cpuset.cpus", "0", nil, `write p.slice/gone.scope/cpuset.cpus "0": cgroup is gone`},
		{"p.slice/c.scope/bare", "cpuset.cpus", "0", nil,
			`write p.slice/c.scope/bare/cpuset.cpus "0": controller is not enabled for this cgroup (write +cpuset to cgroup.subtree_control of the parent, or have systemd do it)`},
		{"p.slice/c.scope", "cpuset.cpus", "", nil, `write p.slice/c.scope/cpuset.cpus "": empty value would be ignored by the kernel`},
		{"p.slice/..", "cpuset.cpus", "0", nil, `write cpuset.cpus "0": not a path of a cgroup`},
		{"p.slice", "../cpuset.cpus", "0", nil, `write cpuset.cpus "0": "../cpuset.cpus" is not the name of a control file`},
	} {
		tree.Intercept(func(testnode.CgroupWrite) error { return c.fail })
		err := fs.Write(c.path, c.file, c.value)
		// The kernel's words for an errno are not ours.
		got := ""
		if err != nil {
			got = err.Error()
			if errno, ok := errors.AsType[syscall.Errno](err); ok {
				got = strings.Replace(got, pathError(err), errno.Error(), 1)
			}
		}
		if got != c.want {
			t.Errorf("Write(%q, %q, %q):\n got %s\nwant %s", c.path, c.file, c.value, got, c.want)
		}
	}
}

// pathError is the text of the cause, in which the operation and the name stand
// once more.
func pathError(err error) string {
	if e, ok := errors.AsType[*cgroup.Error](err); ok {
		return e.Err.Error()
	}
	return ""
}

func TestFSRead(t *testing.T) {
	tree, fs := newTree("p.slice/c.scope/container")
	for file, value := range map[string]string{
		"p.slice/cpuset.cpus": "0-5", "p.slice/c.scope/cpuset.cpus": "4-7", "p.slice/c.scope/cpu.weight": "59",
		"p.slice/c.scope/cpu.max": "50000 100000", "p.slice/cpuset.mems": "1", "p.slice/c.scope/cpuset.mems": "0-1",
		"p.slice/c.scope/container/cpuset.cpus": "4", "p.slice/c.scope/container/cgroup.procs": "17",
	} {
		if err := tree.Write(file, value); err != nil {
			t.Fatal(err)
		}
	}
	got, err := fs.Read("p.slice/c.scope")
	if err != nil {
		t.Fatal(err)
	}
	want := cgroup.State{
		Path: "p.slice/c.scope", HasCPUSet: true, CPUs: cpuset.Range(4, 7), Effective: cpuset.Range(4, 5), ParentEffective: cpuset.Range(0, 5),
		Mems: cpuset.Of(0, 1), EffectiveMems: cpuset.Of(1),
		HasCPU: true, Weight: 59, Quota: 50000, Period: 100000, Populated: true,
		Inner: &cgroup.State{
			Path: "p.slice/c.scope/container", HasCPUSet: true, CPUs: cpuset.Of(4), Effective: cpuset.Of(4), ParentEffective: cpuset.Range(4, 5),
			HasCPU: true, Weight: 100, Quota: -1, Period: 100000, Populated: true,
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Read (-want +got):\n%s", d)
	}
	root, err := fs.Read("")
	if err != nil || root.Effective.String() != "0-7" || root.EffectiveMems.String() != "0-1" || !root.Populated || root.Quota != -1 {
		t.Errorf("Read of the root = %+v, %v", root, err)
	}
	if _, err := fs.Read("p.slice/gone.scope"); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("Read of a missing cgroup = %v; want ErrGone", err)
	}
}

func TestFSApply(t *testing.T) {
	tree, fs := newTree("c")
	if err := fs.Apply(cgroup.Write{Path: "c", Via: cgroup.File, Property: cgroup.FileCPUs, Value: "1-2"}); err != nil {
		t.Error(err)
	}
	if err := fs.Apply(cgroup.Write{Path: "c", Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "3"}); err == nil {
		t.Error("a CRI write was applied to a file; want an error")
	}
	want := []testnode.CgroupWrite{{Name: "c/cpuset.cpus", Value: "1-2"}}
	if d := cmp.Diff(want, tree.Writes()); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
}

func TestVerify(t *testing.T) {
	good := cgroup.State{
		Path: "p/c", HasCPUSet: true, CPUs: cpuset.Range(4, 5), Effective: cpuset.Range(4, 5), ParentEffective: cpuset.Range(0, 7),
		Mems: cpuset.Of(1), EffectiveMems: cpuset.Of(1), HasCPU: true, Weight: 59, Quota: -1,
	}
	target := cgroup.Target{Path: "p/c", CPUs: cpuset.Range(4, 5), Mems: cpuset.Of(1), Weight: 59, Unlimited: true}
	for _, c := range []struct {
		name   string
		change func(*cgroup.State)
		want   string
	}{
		{"as it should be", func(*cgroup.State) {}, ""},
		{"somebody else", func(s *cgroup.State) { s.CPUs, s.Effective = cpuset.Of(1), cpuset.Of(1) },
			`p/c runs on CPUs 1, want 4-5: cpuset.cpus is "1", another process wrote it`},
		{"parent without", func(s *cgroup.State) { s.ParentEffective, s.Effective = cpuset.Of(1), cpuset.Of(1) },
			`p/c runs on CPUs 1, want 4-5: "p" has no CPU of them, so the kernel uses its set`},
		{"in part", func(s *cgroup.State) { s.Effective = cpuset.Of(4) },
			`p/c runs on CPUs 4, want 4-5: the rest is offline, in a partition, or not in "p" (0-7)`},
		{"no cpuset", func(s *cgroup.State) { s.HasCPUSet, s.CPUs, s.Effective = false, cpuset.Set{}, cpuset.Range(0, 7) },
			`p/c runs on CPUs 0-7, want 4-5: the parent does not enable the cpuset controller`},
		{"inner", func(s *cgroup.State) {
			s.Inner = &cgroup.State{Path: "p/c/container", CPUs: cpuset.Of(4), Effective: cpuset.Of(4), Quota: -1}
		}, `p/c/container runs on CPUs 4, its scope on 4-5: cpuset.cpus of the former is "4"`},
		{"weight", func(s *cgroup.State) { s.Weight = 100 }, "p/c has cpu.weight 100, want 59"},
		{"idle", func(s *cgroup.State) { s.Weight, s.Idle = 1, true }, "p/c has cpu.idle set, want cpu.weight 59: it is not changed"},
		{"no cpu", func(s *cgroup.State) { s.Weight, s.HasCPU = 0, false },
			"p/c has no cpu.weight, want 59: the parent does not enable the cpu controller"},
		{"quota", func(s *cgroup.State) { s.Quota, s.Period = 50000, 100000 }, "p/c has a quota of 50000 us in 100000 us, want none"},
		{"inner quota", func(s *cgroup.State) {
			s.Inner = &cgroup.State{Path: "p/c/container", Effective: cpuset.Range(4, 5), Quota: 50000, Period: 100000}
		}, "p/c/container has a quota of 50000 us in 100000 us, want none"},
		{"memory elsewhere", func(s *cgroup.State) { s.Mems, s.EffectiveMems = cpuset.Of(0), cpuset.Of(0) },
			`p/c is not bound to the memory nodes 1: cpuset.mems is "0"`},
		{"memory unbound", func(s *cgroup.State) { s.Mems, s.EffectiveMems = cpuset.Set{}, cpuset.Set{} },
			`p/c is not bound to the memory nodes 1: cpuset.mems is ""`},
		{"memory that the parent lacks", func(s *cgroup.State) { s.EffectiveMems = cpuset.Of(0) },
			`p/c has memory of the nodes 0, want 1: the other nodes have no memory, or "p" does not have them`},
	} {
		s := good
		c.change(&s)
		got := ""
		if err := cgroup.Verify(target, s); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

func TestVerifyQuota(t *testing.T) {
	target := cgroup.Target{Path: "p/c", Quota: 50000}
	for _, c := range []struct {
		state cgroup.State
		want  string
	}{
		{cgroup.State{HasCPU: true, Quota: 50000, Period: 100000}, ""},
		{cgroup.State{HasCPU: true, Quota: -1, Period: 100000}, "p/c has no quota, want 50000 us in 100000 us"},
		{cgroup.State{HasCPU: true, Quota: 50000, Period: 50000}, "p/c has a quota of 50000 us in 50000 us, want 50000 us in 100000 us"},
		{cgroup.State{Quota: -1}, "p/c has no cpu.max, want a quota of 50000 us in 100000 us: the parent does not enable the cpu controller"},
	} {
		c.state.Path = target.Path
		got := ""
		if err := cgroup.Verify(target, c.state); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q; want %q", c.state, got, c.want)
		}
	}
}
