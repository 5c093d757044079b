package appcpus_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func container(uid, name string) appcpus.Entry {
	return appcpus.Entry{PodUID: uid, Pod: "default/" + uid, Container: name, Pool: "guaranteed", CPUs: cpuset.Of(4, 5),
		Exclusive: true, Nodes: cpuset.Of(1), SharedCPUs: cpuset.Of(2, 3), Verified: true}
}

func unit(name string) appcpus.Entry {
	return appcpus.Entry{Unit: name, Pool: "management", Type: "management", CPUs: cpuset.Of(0), Nodes: cpuset.Of(0), SharedCPUs: cpuset.Of(2, 3), Verified: true}
}

func TestRender(t *testing.T) {
	got := make(map[string]string)
	exclusive := unit("du.service")
	exclusive.Pool, exclusive.Type, exclusive.CPUs, exclusive.Exclusive = "guaranteed", "", cpuset.Of(4, 6, 7), true
	for _, e := range []appcpus.Entry{container("u1", "app"), unit("du@1.service"), exclusive} {
		if err := e.Render(got); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"containers/u1/app.json":  `{"pod":"default/u1","container":"app","pool":"guaranteed","cpus":"4-5","exclusive":true,"nodes":"1","sharedCPUs":"2-3"}` + "\n",
		"units/du@1.service.json": `{"unit":"du@1.service","pool":"management","type":"management","cpus":"0","exclusive":false,"nodes":"0","sharedCPUs":"2-3"}` + "\n",
		"units/du@1.service.env":  "CPUPOOL_CPUS=0\nCPUPOOL_POOL=management\nCPUPOOL_EXCLUSIVE=false\nCPUPOOL_NODES=0\nCPUPOOL_SHARED_CPUS=2-3\nOPENSHIFT_SHARED_CPUS=2-3\n",
		"units/du.service.json":   `{"unit":"du.service","pool":"guaranteed","cpus":"4,6-7","exclusive":true,"nodes":"0","sharedCPUs":"2-3"}` + "\n",
		"units/du.service.env": "CPUPOOL_CPUS=4,6-7\nCPUPOOL_POOL=guaranteed\nCPUPOOL_EXCLUSIVE=true\nCPUPOOL_NODES=0\nCPUPOOL_SHARED_CPUS=2-3\n" +
			"OPENSHIFT_ISOLATED_CPUS=4,6-7\nOPENSHIFT_SHARED_CPUS=2-3\n",
		"units/du.service.go.env": "GOMAXPROCS=3\n",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// read returns the files below dir.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		files[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func render(t *testing.T, entries ...appcpus.Entry) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, e := range entries {
		if err := e.Render(files); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// write writes the files of all entries below dir with a new Writer, and fails on any error.
func write(t *testing.T, dir string, entries ...appcpus.Entry) *appcpus.Writer {
	t.Helper()
	w := appcpus.NewWriter(dir)
	if r := w.Write(entries, false); r.Err != nil || r.Again || len(r.Faults) > 0 {
		t.Fatalf("Write = %+v", r)
	}
	return w
}

func TestWrite(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	entries := []appcpus.Entry{container("u1", "app"), container("u1", "side"), container("u2", "app"), unit("du.service")}
	write(t, dir, entries...)
	first := render(t, entries...)
	if d := cmp.Diff(first, read(t, dir)); d != "" {
		t.Fatalf("files (-want +got):\n%s", d)
	}
	for name, mode := range map[string]fs.FileMode{"containers": fs.ModeDir | 0o755, "containers/u1": fs.ModeDir | 0o755, "containers/u1/app.json": 0o644} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", name, st.Mode(), err, mode)
		}
	}
	// An unchanged file is not written again, because that would wake its watchers.
	before, err := os.Stat(filepath.Join(dir, "containers/u1/app.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "containers/u3"), 0o755); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "units", "README")
	if err := os.WriteFile(foreign, []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	unverified := container("u1", "side")
	unverified.Verified, unverified.CPUs = false, cpuset.Of(7)
	write(t, dir, container("u1", "app"), unverified)
	after, err := os.Stat(filepath.Join(dir, "containers/u1/app.json"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("a file without a change was written again (%v)", err)
	}
	want := map[string]string{
		"containers/u1/app.json":  first["containers/u1/app.json"],
		"containers/u1/side.json": first["containers/u1/side.json"],
		"units/README":            "not ours",
	}
	if d := cmp.Diff(want, read(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if _, err := os.Stat(filepath.Join(dir, "containers/u3")); err != nil {
		t.Errorf("a directory that waits for its file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "containers/u2")); !os.IsNotExist(err) {
		t.Errorf("the directory of a pod that is gone: %v", err)
	}
}

// TestWriteOnlyChanges checks that Writes of changed entries leave the same files and
// directories as Writes of all.
func TestWriteOnlyChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	one, other := t.TempDir(), t.TempDir()
	part, whole := appcpus.NewWriter(one), appcpus.NewWriter(other)
	for step := range 300 {
		var entries []appcpus.Entry
		for pod := range 4 {
			for _, name := range []string{"a", "b"} {
				e := container(fmt.Sprint("u", pod), name)
				e.CPUs, e.Verified = cpuset.Of(r.IntN(2)), r.IntN(2) == 0
				if r.IntN(2) == 0 {
					entries = append(entries, e)
				}
			}
		}
		if r.IntN(3) > 0 {
			e := unit("du.service")
			e.CPUs, e.Exclusive = cpuset.Of(r.IntN(2)), r.IntN(2) == 0
			entries = append(entries, e)
		}
		for _, dir := range []string{one, other} { // the kubelet creates the directory for the mount
			if err := os.MkdirAll(filepath.Join(dir, "containers", fmt.Sprint("u", step%4)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range []appcpus.Result{part.Write(entries, false), whole.Write(entries, true)} {
			if r.Err != nil || r.Again || len(r.Faults) > 0 {
				t.Fatalf("step %d: Write = %+v", step, r)
			}
		}
		if d := cmp.Diff(read(t, other), read(t, one)); d != "" {
			t.Fatalf("step %d: files (-all +changes):\n%s", step, d)
		}
		if d := cmp.Diff(directories(t, other), directories(t, one)); d != "" {
			t.Fatalf("step %d: directories (-all +changes):\n%s", step, d)
		}
	}
}

func directories(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "containers"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestKeepsFilesOf checks that a Write that KeepsFilesOf permits to skip changes no file.
func TestKeepsFilesOf(t *testing.T) {
	var all []appcpus.Entry
	for i := range 8 {
		e := unit("du.service")
		e.Verified, e.Exclusive = i&1 > 0, i&2 > 0
		if i&4 > 0 {
			e.CPUs = cpuset.Of(7)
		}
		all = append(all, e)
	}
	kept := 0
	for _, before := range all {
		for _, after := range all {
			if !after.KeepsFilesOf(&before) {
				continue
			}
			kept++
			dir := t.TempDir()
			w := write(t, dir, all[1])
			w.Write([]appcpus.Entry{before}, false)
			want := read(t, dir)
			w.Write([]appcpus.Entry{after}, false)
			if d := cmp.Diff(want, read(t, dir)); d != "" {
				t.Errorf("%+v after %+v: files (-want +got):\n%s", after, before, d)
			}
		}
	}
	if kept != 4+4*4 {
		t.Errorf("%d pairs; want 20: each verified entry after itself, and unverified ones with the same names", kept)
	}
}

// TestWriteRemovesLeftovers checks that the first Write removes temporary files of a killed
// daemon, and their directories.
func TestWriteRemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"containers/u1/.app.json4711", "containers/u2/.app.json0", "containers/.u7-12/x/y", "units/.du.service.env12", "units/.du.service.env", "units/.README7"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, container("u1", "app"))
	want := render(t, container("u1", "app"))
	want["units/.du.service.env"], want["units/.README7"] = "half", "half" // names that no Writer uses
	if d := cmp.Diff(want, read(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"u1"}, directories(t, dir)); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
}

// TestInvalidName checks that an entry with an invalid name is a fault until it is gone, and
// that the others get their files.
func TestInvalidName(t *testing.T) {
	dir := t.TempDir()
	w := appcpus.NewWriter(dir)
	entries := []appcpus.Entry{container("u1", "../app"), container("u1", "app")}
	if r := w.Write(entries, false); len(r.Faults) != 1 || r.Faults[0].Entry.Container != "../app" || r.Again || r.Err != nil {
		t.Errorf("Write = %+v; want one fault", r)
	}
	if d := cmp.Diff(render(t, entries[1]), read(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if r := w.Write(entries[1:], false); len(r.Faults) > 0 {
		t.Errorf("Write without it = %+v; want no fault", r)
	}
}

// FuzzName checks that every accepted name leads to a file in its directory.
func FuzzName(f *testing.F) {
	for _, s := range []string{"app", "..", "../../etc/passwd", ".hidden", "a/b", "a\x00b", strings.Repeat("x", 300), ""} {
		f.Add(s, "app", "")
		f.Add("uid", s, "")
		f.Add("", "", s)
	}
	f.Fuzz(func(t *testing.T, uid, name, unit string) {
		e := appcpus.Entry{PodUID: uid, Container: name, Unit: unit}
		file, err := e.Name()
		if err != nil {
			return
		}
		if filepath.Clean(file) != file || !filepath.IsLocal(file) {
			t.Fatalf("%+v: file %q", e, file)
		}
		if parts := strings.Split(file, "/"); unit == "" && len(parts) != 3 || unit != "" && len(parts) != 2 {
			t.Fatalf("%+v: file %q", e, file)
		}
	})
}

func TestHousekeeping(t *testing.T) {
	e := container("u1", "app")
	e.Housekeeping = cpuset.Of(4)
	if got := e.Environment()["OPENSHIFT_HOUSEKEEPING_CPUS"]; got != "4" {
		t.Errorf("OPENSHIFT_HOUSEKEEPING_CPUS is %q; want 4", got)
	}
	if got := render(t, e)["containers/u1/app.json"]; !strings.Contains(got, `"housekeepingCPUs":"4"`) {
		t.Errorf("file: %s", got)
	}
	if _, is := container("u1", "app").Environment()["OPENSHIFT_HOUSEKEEPING_CPUS"]; is {
		t.Error("OPENSHIFT_HOUSEKEEPING_CPUS of a container that has not asked for it")
	}
}
