package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// plain is a cgroup in ordinary files, and all that have been asked for.
type plain struct {
	rootTree
	t     *testing.T
	at    string
	open  int
	asked map[string]int // files by name
}

func newPlain(t *testing.T) *plain {
	t.Helper()
	at := t.TempDir()
	root, err := os.OpenRoot(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() }) //nolint:errcheck // test
	tree, err := newRootTree(root)
	if err != nil {
		t.Fatal(err)
	}
	return &plain{rootTree: tree, t: t, at: at, asked: make(map[string]int)}
}

// make makes a cgroup that has the files of all controllers, and those given.
func (p *plain) make(name string, given map[string]string) {
	p.t.Helper()
	files := map[string]string{
		"cgroup.controllers": "cpuset cpu", "cgroup.events": "populated 1\nfrozen 0", fileEffective: "0-7", FileCPUs: "", FileMems: "", FilePartition: "member",
		FileWeight: "100", "cpu.idle": "0", FileMax: "max 100000", "cgroup.threads": "",
	}
	maps.Copy(files, given)
	dir := filepath.Join(p.at, name)
	err := os.MkdirAll(dir, 0o700)
	for file, content := range files {
		if content != "-" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), []byte(content+"\n"), 0o600))
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *plain) OpenRoot() (Dir, error) {
	dir, err := p.rootTree.OpenRoot()
	return p.opened(dir, err)
}

func (p *plain) opened(dir Dir, err error) (Dir, error) {
	if err != nil {
		return nil, err
	}
	p.open++
	return counted{dir, p}, nil
}

type counted struct {
	Dir
	of *plain
}

func (c counted) OpenDir(name string) (Dir, error) {
	c.of.asked["directories"]++
	return c.of.opened(c.Dir.OpenDir(name))
}

func (c counted) ReadValue(name string, data []byte, limit int) ([]byte, error) {
	c.of.asked[name]++
	return c.Dir.ReadValue(name, data, limit)
}

func (c counted) Close() error {
	c.of.open--
	return c.Dir.Close()
}

// aNode has two pods of which one container is crun's, one has no controllers, and one is idle.
func aNode(t *testing.T) (*plain, []Path) {
	t.Helper()
	p := newPlain(t)
	p.make("", map[string]string{fileEffective: "0-15", fileEffectiveMems: "0-1"})
	p.make("pods.slice", map[string]string{fileEffective: "0-11"})
	for name, files := range map[string]map[string]string{
		"pods.slice/a.slice":                   {fileEffective: "0-5", FileCPUs: "0-5", FileMems: "1", fileEffectiveMems: "1", FileWeight: "7", FileMax: "5000 100000"},
		"pods.slice/a.slice/1.scope":           {fileEffective: "4-5", FileCPUs: "4-9", FilePartition: "root invalid (Parent is not a partition root)"},
		"pods.slice/a.slice/2.scope":           {fileEffective: "1", FileCPUs: "1", "cgroup.events": "populated 0\nfrozen 0"},
		"pods.slice/a.slice/2.scope/container": {fileEffective: "1", FileMax: "1000 100000"},
		"pods.slice/b.slice":                   {FileWeight: "1", "cpu.idle": "1", fileEffective: "-", "cgroup.controllers": "cpu"},
		"pods.slice/b.slice/1.scope":           {fileEffective: "-", FileWeight: "-", "cgroup.controllers": ""},
		"pods.slice/b.slice/2.scope":           {fileEffective: "6", FilePartition: "isolated", FileWeight: "1"},
	} {
		p.make(name, files)
	}
	all := []Path{"", "pods.slice", "pods.slice/a.slice", "pods.slice/a.slice/1.scope", "pods.slice/a.slice/2.scope", "pods.slice/b.slice", "pods.slice/b.slice/1.scope", "pods.slice/b.slice/2.scope"}
	return p, all
}

// TestReader checks that a Reader finds the same in any order of cgroups as one Reader for
// each cgroup, and as one of a tree without directories.
func TestReader(t *testing.T) {
	p, all := aNode(t)
	one := New(p)
	alone := make(map[Path]State)
	for _, at := range all {
		st, err := one.Read(at)
		if err != nil {
			t.Fatal(err)
		}
		alone[at] = st
		type files struct{ Tree }
		if named, err := New(files{p}).Read(at); err != nil || !cmp.Equal(named, st) {
			t.Errorf("%q by its path: %v (-directory +path):\n%s", at, err, cmp.Diff(st, named))
		}
	}
	for at, want := range map[Path]State{
		"pods.slice/a.slice/1.scope": {HasCPUSet: true, CPUs: cpuset.Range(4, 9), Effective: cpuset.Range(4, 5), ParentEffective: cpuset.Range(0, 5),
			Partition: PartitionState{Type: RootPartition, Invalid: true, Why: "Parent is not a partition root"}, HasCPU: true, Weight: 100, Quota: -1, Period: 100000, Populated: true},
		"pods.slice/b.slice":         {Effective: cpuset.Range(0, 11), ParentEffective: cpuset.Range(0, 11), HasCPU: true, Weight: 1, Idle: true, Quota: -1, Period: 100000, Populated: true},
		"pods.slice/b.slice/1.scope": {Effective: cpuset.Range(0, 11), ParentEffective: cpuset.Range(0, 11), Quota: -1, Populated: true},
		"pods.slice/b.slice/2.scope": {HasCPUSet: true, Effective: cpuset.Of(6), ParentEffective: cpuset.Range(0, 11),
			Partition: PartitionState{Type: IsolatedPartition}, HasCPU: true, Weight: 1, Quota: -1, Period: 100000, Populated: true},
	} {
		if want.Path = at; !cmp.Equal(alone[at], want) {
			t.Errorf("%q (-want +got):\n%s", at, cmp.Diff(want, alone[at]))
		}
	}
	if alone["pods.slice/a.slice/2.scope"].Inner == nil {
		t.Error("inner cgroup is missing; want it")
	}
	r := one.Reader()
	for range 2 {
		for _, order := range [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {4, 7, 3, 6, 0, 2, 5, 1}, {3, 3, 2, 3, 4, 1}} {
			for _, i := range order {
				if st, err := r.Read(all[i]); err != nil || !cmp.Equal(st, alone[all[i]]) {
					t.Errorf("%q in %v: %v (-alone +one of many):\n%s", all[i], order, err, cmp.Diff(alone[all[i]], st))
				}
			}
		}
		r.Rest()
		if p.open != 0 {
			t.Errorf("open directories of an idle Reader = %d; want 0", p.open)
		}
	}
}

// TestReaderReads checks the system calls of a resync, by file.
func TestReaderReads(t *testing.T) {
	p := newPlain(t)
	p.make("pods.slice", nil)
	var all []Path
	for i := range 4 {
		slice := Path(fmt.Sprintf("pods.slice/%d.slice", i))
		all = append(all, slice, slice+"/a.scope", slice+"/b.scope", slice+"/pause.scope")
	}
	for _, at := range all {
		p.make(string(at), nil)
	}
	r := New(p).Reader()
	defer r.Rest()
	for _, at := range all {
		if _, err := r.Read(at); err != nil {
			t.Fatal(err)
		}
	}
	each := len(all)
	want := map[string]int{
		"directories": 1 + each, fileEffective: 1 + each, "cgroup.events": each, FileCPUs: each, FileMems: each, FilePartition: each, FileWeight: each, FileMax: each,
	}
	if d := cmp.Diff(want, p.asked); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if p.open > 4 {
		t.Errorf("directories open at once = %d; want at most 4", p.open)
	}
}

// TestReaderGone checks that a removed cgroup is reported as gone, also when another one
// with its name follows. The next one is read after a rest.
func TestReaderGone(t *testing.T) {
	p, _ := aNode(t)
	r := New(p).Reader()
	defer r.Rest()
	const scope = "pods.slice/a.slice/1.scope"
	if _, err := r.Read(scope); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(p.at, scope)); err != nil {
		t.Fatal(err)
	}
	p.make(scope, map[string]string{FileWeight: "3"})
	if st, err := r.Read(scope); !errors.Is(err, ErrGone) {
		t.Errorf("Read = %+v, %v; want ErrGone", st, err)
	}
	r.Rest()
	if st, err := r.Read(scope); err != nil || st.Weight != 3 {
		t.Errorf("Read after a rest = %+v, %v", st, err)
	}
	for _, at := range []Path{"pods.slice/a.slice/missing.scope", "pods.slice/missing.slice/1.scope", "pods.slice/a.slice/2.scope/container/x"} {
		if _, err := r.Read(at); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), string(at)) {
			t.Errorf("Read(%q) = %v; want ErrGone", at, err)
		}
	}
	for _, at := range []Path{"pods.slice/../pods.slice", "/pods.slice", "pods.slice/"} {
		if _, err := r.Read(at); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("Read(%q) = %v", at, err)
		}
	}
	if st, err := r.Read("pods.slice/a.slice/2.scope"); err != nil || st.CPUs.String() != "1" {
		t.Errorf("Read after errors = %+v, %v", st, err)
	}
}

// TestReaderGathers checks that a Reader reads the threads of a cgroup and of the
// cgroups below it.
func TestReaderGathers(t *testing.T) {
	p, _ := aNode(t)
	list := ""
	for tid := range 1000 { // more than one read gives
		list += fmt.Sprintln(10000 + tid)
	}
	p.make("pods.slice/a.slice/2.scope/container", map[string]string{fileEffective: "1", "cgroup.threads": strings.TrimSuffix(list, "\n")})
	p.make("pods.slice/a.slice/2.scope", map[string]string{fileEffective: "1", "cgroup.threads": "7\n0"})
	tree := &asking{plain: p}
	r := New(tree).Reader()
	defer r.Rest()
	for range 2 {
		tree.asked = nil
		if _, err := r.Gather("pods.slice/a.slice/2.scope"); err != nil {
			t.Fatal(err)
		}
		if len(tree.asked) != 1001 || tree.asked[0] != 7 || tree.asked[1000] != 10999 || !slices.IsSorted(tree.asked) {
			t.Errorf("threads read = %d: %v...; want all in order", len(tree.asked), tree.asked[:min(5, len(tree.asked))])
		}
	}
	if _, err := r.Gather("pods.slice/a.slice/9.scope"); !errors.Is(err, ErrGone) {
		t.Errorf("Gather = %v; want ErrGone", err)
	}
}

// asking is a tree whose threads are where they may be.
type asking struct {
	*plain
	asked []int
}

func (a *asking) Inside(tid int, _ cpuset.Set) (bool, error) {
	a.asked = append(a.asked, tid)
	return true, nil
}

// TestInside asks the kernel for this process.
func TestInside(t *testing.T) {
	var tree rootTree
	if in, err := tree.Inside(os.Getpid(), cpuset.Range(0, maxCPUs-1)); err != nil || !in {
		t.Errorf("among all CPUs: %t, %v", in, err)
	}
	if in, err := tree.Inside(os.Getpid(), cpuset.Of(maxCPUs-1)); err != nil || in {
		t.Errorf("on a CPU that no machine has: %t, %v", in, err)
	}
	mask := []uint64{1<<3 | 1<<63, 0, 1 << 1}
	for cpus, want := range map[string]bool{"3,63,129": true, "0-200": true, "3,63": false, "3,129": false, "": false} {
		set, err := cpuset.Parse(cpus)
		if err != nil {
			t.Fatal(err)
		}
		if got := inMask(mask, set); got != want {
			t.Errorf("mask within %q = %t; want %t", cpus, got, want)
		}
	}
}
