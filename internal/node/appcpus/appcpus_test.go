package appcpus_test

import (
	"errors"
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
		Exclusive: true, Nodes: cpuset.Of(1), SharedCPUs: cpuset.Of(2, 3)}
}

func unit(name string) appcpus.Entry {
	return appcpus.Entry{Unit: name, Pool: "management", Type: "management", CPUs: cpuset.Of(0), Nodes: cpuset.Of(0), SharedCPUs: cpuset.Of(2, 3)}
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

func TestSync(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	first := render(t, container("u1", "app"), container("u1", "side"), container("u2", "app"), unit("du.service"))
	if err := appcpus.Sync(dir, appcpus.Files{Content: first}); err != nil {
		t.Fatal(err)
	}
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
	second := render(t, container("u1", "app"))
	if err := os.Mkdir(filepath.Join(dir, "containers/u3"), 0o755); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "units", "README")
	if err := os.WriteFile(foreign, []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := appcpus.Sync(dir, appcpus.Files{Content: second, Keep: map[string]bool{"containers/u1/side.json": true}}); err != nil {
		t.Fatal(err)
	}
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

// TestUpdate checks that Update leaves the same files and directories as Sync.
func TestUpdate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	one, other := t.TempDir(), t.TempDir()
	var before appcpus.Files
	for step := range 300 {
		want := appcpus.Files{Content: map[string]string{}, Keep: map[string]bool{}}
		for pod := range 4 {
			for _, name := range []string{"a", "b"} {
				file := fmt.Sprintf("containers/u%d/%s.json", pod, name)
				switch r.IntN(4) {
				case 0:
					want.Content[file] = fmt.Sprint(r.IntN(2))
				case 1:
					want.Keep[file] = true
				}
			}
		}
		if r.IntN(3) > 0 {
			want.Content["units/du.service.env"] = fmt.Sprint(r.IntN(2))
		}
		for _, dir := range []string{one, other} { // the kubelet creates the directory for the mount
			if err := os.MkdirAll(filepath.Join(dir, "containers", fmt.Sprint("u", step%4)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(appcpus.Update(one, before, want), appcpus.Sync(other, want)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(read(t, other), read(t, one)); d != "" {
			t.Fatalf("step %d: files (-Sync +Update):\n%s", step, d)
		}
		if d := cmp.Diff(directories(t, other), directories(t, one)); d != "" {
			t.Fatalf("step %d: directories (-Sync +Update):\n%s", step, d)
		}
		before = want
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

// TestSyncRemovesLeftovers checks that Sync removes temporary files of a killed daemon, and their
// directories.
func TestSyncRemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"containers/u1/.app.json4711", "containers/u2/.app.json0", "units/.du.service.env12", "units/.du.service.env", "units/.README7"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := render(t, container("u1", "app"))
	if err := appcpus.Sync(dir, appcpus.Files{Content: want}); err != nil {
		t.Fatal(err)
	}
	want["units/.du.service.env"], want["units/.README7"] = "half", "half" // names that Sync does not use
	if d := cmp.Diff(want, read(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if _, err := os.Stat(filepath.Join(dir, "containers/u2")); !os.IsNotExist(err) {
		t.Errorf("the directory of a pod that is gone: %v", err)
	}
}

// TestSyncGoesOn checks that Sync writes all other files if it cannot write one of them.
func TestSyncGoesOn(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "containers/u1/app.json/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := appcpus.Sync(dir, appcpus.Files{Content: render(t, container("u1", "app"), container("u2", "app"))})
	if err == nil {
		t.Error("no error for a file that cannot be written")
	}
	if _, err := os.Stat(filepath.Join(dir, "containers/u2/app.json")); err != nil {
		t.Error(err)
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
