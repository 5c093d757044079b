package procroot_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/internal/node/procroot"
)

func link(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink} }

func file(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }

// TestFS checks files of a process with links, in directories that the reader lacks.
func TestFS(t *testing.T) {
	host := fstest.MapFS{
		"etc/kubelet.yaml":                      file("of the reader"),
		"proc/7/root/etc/kubelet.yaml":          file("of the process"),
		"proc/7/root/etc/absolute":              link("/etc/static/kubelet.yaml"),
		"proc/7/root/etc/static":                link("../var/static"),
		"proc/7/root/var/static/kubelet.yaml":   file("linked"),
		"proc/7/root/var/run":                   link("/run"),
		"proc/7/root/run/kubelet.yaml":          file("in run"),
		"proc/7/root/etc/escape":                link("../../../../../etc/kubelet.yaml"),
		"proc/7/root/etc/loop":                  link("loop"),
		"proc/7/root/etc/gone":                  link("/missing"),
		"proc/7/cwd/conf/kubelet.yaml":          file("relative"),
		"proc/7/cwd/conf/link":                  link("/run/kubelet.yaml"),
		"proc/7/cwd/kubelet.yaml":               file("in the directory"),
		"proc/8/cmdline":                        file("hidden"),
		"proc/7/root/etc/conf.d/10-static.conf": file("drop-in"),
	}
	for _, test := range []struct {
		pid        int
		name, want string // an empty want is an error
	}{
		{7, "/etc/kubelet.yaml", "of the process"},
		{7, "//etc/./kubelet.yaml", "of the process"},
		{7, "/etc/absolute", "linked"},
		{7, "/var/run/kubelet.yaml", "in run"},
		{7, "/etc/escape", "of the process"},
		{7, "/etc/loop", ""},
		{7, "/etc/gone", ""},
		{7, "/missing", ""},
		{7, "conf/kubelet.yaml", "relative"},
		{7, "conf/link", "in run"},
		{7, "conf/../kubelet.yaml", "in the directory"},
		{7, "../kubelet.yaml", "in the directory"}, // the directory above is unknown
		{8, "/etc/kubelet.yaml", "of the reader"},  // the root is hidden
		{8, "etc/kubelet.yaml", "of the reader"},
		{9, "/etc/kubelet.yaml", "of the reader"},
	} {
		at, err := procroot.Of(host, test.pid).Name(test.name)
		var b []byte
		if err == nil {
			b, err = fs.ReadFile(host, at)
		}
		if string(b) != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s of process %d is %q, %v; want %q", test.name, test.pid, b, err, test.want)
		}
	}
	process := procroot.Of(host, 7)
	if b, err := fs.ReadFile(process, "etc/absolute"); string(b) != "linked" {
		t.Errorf("ReadFile: %q, %v; want %q", b, err, "linked")
	}
	if entries, err := fs.ReadDir(process, "etc/conf.d"); err != nil || len(entries) != 1 {
		t.Errorf("ReadDir: %v, %v; want one drop-in", entries, err)
	}
	if info, err := fs.Stat(process, "var/run"); err != nil || !info.IsDir() {
		t.Errorf("Stat: %v, %v; want the directory behind the link", info, err)
	}
	if _, err := fs.ReadFile(process, "etc/loop"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop of links: %v; want %v", err, syscall.ELOOP)
	}
	if _, err := process.Open("/etc/kubelet.yaml"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("an absolute name: %v; want %v", err, fs.ErrInvalid)
	}
}

// TestProcess checks the files of a real process with another working directory.
func TestProcess(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "file"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	sleep := exec.CommandContext(t.Context(), "sleep", "1h")
	sleep.Dir = dir
	if err := sleep.Start(); err != nil {
		t.Skipf("no sleep: %v", err)
	}
	defer func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
	}()
	host := os.DirFS("/")
	f := procroot.Of(host, sleep.Process.Pid)
	for _, name := range []string{"file", "link", filepath.Join(dir, "link")} {
		at, err := f.Name(name)
		if err != nil || !strings.HasPrefix(at, "proc/") {
			t.Errorf("%s is %q, %v; want a name below /proc", name, at, err)
			continue
		}
		if b, err := fs.ReadFile(host, at); string(b) != "content" {
			t.Errorf("%s: %q, %v; want %q", name, b, err, "content")
		}
	}
}

// TestReadFile checks which files ReadFile opens.
func TestReadFile(t *testing.T) {
	for name, c := range map[string]struct {
		file *fstest.MapFile
		want string
		fail bool
	}{
		"regular":                       {&fstest.MapFile{Data: []byte("content")}, "content", false},
		"masked by a link to /dev/null": {&fstest.MapFile{Data: []byte("endless"), Mode: fs.ModeDevice | fs.ModeCharDevice}, "", false},
		"FIFO":                          {&fstest.MapFile{Mode: fs.ModeNamedPipe}, "", true},
		"directory":                     {&fstest.MapFile{Mode: fs.ModeDir}, "", true},
		"too large":                     {&fstest.MapFile{Data: make([]byte, procroot.MaxFile+1)}, "", true},
		"missing":                       {nil, "", true},
	} {
		root := fstest.MapFS{}
		if c.file != nil {
			root["etc/file"] = c.file
		}
		if b, err := procroot.ReadFile(root, "etc/file"); (err != nil) != c.fail || !c.fail && string(b) != c.want {
			t.Errorf("%s: ReadFile: %d bytes, %v; want %q, error %t", name, len(b), err, c.want, c.fail)
		}
	}
}
