package vm

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

func TestTopologyArgs(t *testing.T) {
	machine, err := findTopology("16c2s2t")
	if err != nil {
		t.Fatal(err)
	}
	want := "-smp 16,sockets=2,cores=4,threads=2 -m 2048M" +
		" -object memory-backend-ram,id=mem0,size=1024M -numa node,nodeid=0,cpus=0-7,memdev=mem0" +
		" -object memory-backend-ram,id=mem1,size=1024M -numa node,nodeid=1,cpus=8-15,memdev=mem1" +
		" -numa dist,src=0,dst=1,val=20"
	if diff := cmp.Diff(want, strings.Join(machine.args(2048), " ")); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
}

func TestSplitTopologyArgs(t *testing.T) {
	machine, err := findTopology("16c2d4l")
	if err != nil {
		t.Fatal(err)
	}
	want := "-smp 16,sockets=1,dies=2,modules=2,cores=2,threads=2 -machine smp-cache.0.cache=l3,smp-cache.0.topology=module" +
		" -cpu max,la57=off,vendor=GenuineIntel,family=6,model=143,stepping=8 -bios qboot.rom"
	if diff := cmp.Diff(want, strings.Join(machine.smp(), " ")); diff != "" {
		t.Errorf("smp (-want +got):\n%s", diff)
	}
}

// TestTopologyNames checks the table against the names.
func TestTopologyNames(t *testing.T) {
	want := map[string][3]int{"2c1n": {2, 1, 1}, "4c1n": {4, 1, 1}, "8c2n": {8, 2, 1}, "16c2s2t": {16, 2, 2}, "32c4n": {32, 4, 2}, "16c2d4l": {16, 2, 2}}
	got := make(map[string][3]int)
	for name, m := range topologies() {
		got[name] = [3]int{m.cpus(), m.nodes, m.threads}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CPUs, nodes, threads (-want +got):\n%s", diff)
	}
}

func TestConfigErrors(t *testing.T) {
	tests := map[string]struct {
		config Config
		want   string
	}{
		"topology": {Config{Topology: "3c"}, `find topology "3c": not one of 16c2d4l, 16c2s2t, 2c1n, 32c4n, 4c1n, 8c2n`},
		"suite":    {Config{Suite: "buster"}, `find suite "buster": not one of bookworm, trixie, forky`},
		"odd":      {Config{Memory: 1025}, "check memory 1025 MiB: less than 512, or no multiple of the 2 nodes of 8c2n"},
		"small":    {Config{Memory: 100}, "check memory 100 MiB: less than 512, or no multiple of the 2 nodes of 8c2n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := tt.config.resolved(); err == nil || err.Error() != tt.want {
				t.Errorf("resolved() = %v; want %s", err, tt.want)
			}
		})
	}
}

// TestDiskOfRuntime checks that two runtimes have different inputs, and different names in the cache.
func TestDiskOfRuntime(t *testing.T) {
	tests := map[string]struct {
		config Config
		want   image.Spec
	}{
		"plain":  {Config{}, image.Spec{Name: "base-trixie", Suite: "trixie"}},
		"kernel": {Config{Suite: "forky"}, image.Spec{Name: "base-forky", Suite: "forky", Packages: []string{"libseccomp2", "mount"}}},
		"node": {Config{Node: true}, image.Spec{
			Name: "node-trixie-containerd", Suite: "trixie", Trees: []string{"node", "tools", "containerd"},
			Layers: []string{"containerd", "containerd-2", "containerd-unit"},
		}},
		"options": {Config{Node: true, Runtime: Runtime{NRIOff: true, Cgroupfs: true}}, image.Spec{
			Name: "node-trixie-containerd-nri-off-cgroupfs", Suite: "trixie", Trees: []string{"node", "tools", "containerd"},
			Layers: []string{"containerd", "containerd-2", "containerd-unit", "nri-off", "cgroupfs"},
		}},
		"containerd of Debian": {Config{Node: true, Runtime: Runtime{Name: "containerd-1.7"}}, image.Spec{
			Name: "node-trixie-containerd-1.7", Suite: "trixie", Packages: []string{"containerd", "runc"}, Trees: []string{"node", "tools"},
			Layers: []string{"containerd", "containerd-package", "containerd-1.7"},
		}},
		"demo": {Config{Node: true, Suite: "forky", Runtime: Runtime{Name: "containerd-debian"}}, image.Spec{
			Name: "node-forky-containerd-debian", Suite: "forky", Trees: []string{"node"},
			Packages: []string{"libseccomp2", "mount", "containerd", "containernetworking-plugins", "crun"},
			Layers:   []string{"containerd", "containerd-2", "containerd-package", "containerd-crun", "containerd-debian"},
		}},
		"CRI-O": {Config{Node: true, Suite: "bookworm", Runtime: Runtime{Name: "crio-crun", PodEvents: true}}, image.Spec{
			Name: "node-bookworm-crio-crun-pod-events", Suite: "bookworm", Packages: []string{"conmon", "crun"}, Trees: []string{"node", "tools", "crio"},
			Layers: []string{"crio", "crun", "pod-events"},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			config, _, err := tt.config.resolved()
			if err != nil {
				t.Fatal(err)
			}
			got, err := config.disk()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("disk (-want +got):\n%s", diff)
			}
			for _, layer := range got.Layers {
				if _, err := os.Stat(filepath.Join("parts", "layers", layer)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestDiskErrors(t *testing.T) {
	tests := map[string]struct {
		config Config
		want   string
	}{
		"runtime": {Config{Node: true, Runtime: Runtime{Name: "docker"}}, `find runtime "docker": not one of containerd, containerd-1.7, containerd-crun, containerd-debian, crio-crun, crio-runc`},
		"plain":   {Config{Runtime: Runtime{Name: "crio-runc"}}, `check runtime "crio-runc": a runtime needs Node`},
		"suite":   {Config{Node: true, Suite: "forky", Runtime: Runtime{Name: "containerd-1.7"}}, "check suite forky: containerd-1.7 is in trixie only"},
		"NRI": {
			Config{Node: true, Runtime: Runtime{Name: "containerd-1.7", NRIOff: true}},
			"check runtime: NRIOff and Cgroupfs are for containerd 2, not for containerd-1.7",
		},
		"events": {Config{Node: true, Runtime: Runtime{PodEvents: true}}, "check runtime: PodEvents is for CRI-O, not for containerd"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			config, _, err := tt.config.resolved()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.disk(); err == nil || err.Error() != tt.want {
				t.Errorf("disk() = %v; want %s", err, tt.want)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	args := []string{"plain", "", "two words", "it's", `"$HOME" \ *`, "line\nbreak", "-n"}
	line, err := quote(append([]string{"printf", `%s\0`}, args...))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if diff := cmp.Diff(args, got); diff != "" {
		t.Errorf("shell output of %s (-want +got):\n%s", line, diff)
	}
	if _, err := quote([]string{"a\x00b"}); err == nil {
		t.Error("quote of a zero byte = nil; want an error")
	}
}

// makeTree makes a directory with a program, a file in a subdirectory, and a link.
func makeTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "program"), []byte("#!"), 0o755),
		os.Mkdir(filepath.Join(dir, "sub"), 0o755),
		os.WriteFile(filepath.Join(dir, "sub", "data"), []byte("x"), 0o644),
		os.Symlink("program", filepath.Join(dir, "link")),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWriteTar(t *testing.T) {
	var archive bytes.Buffer
	if err := writeTar(&archive, makeTree(t), "srv/new"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimRight(strings.Join([]string{h.FileInfo().Mode().String(), h.Name, h.Linkname, string(data)}, " "), " "))
	}
	want := []string{
		"drwxr-xr-x srv/new",
		"Lrwxrwxrwx srv/new/link program",
		"-rwxr-xr-x srv/new/program  #!",
		"drwxr-xr-x srv/new/sub",
		"-rw-r--r-- srv/new/sub/data  x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

func TestWriteInitramfs(t *testing.T) {
	dir := makeTree(t)
	file := filepath.Join(t.TempDir(), "initramfs")
	program := filepath.Join(dir, "program")
	err := writeInitramfs(file, program, testBinary{path: program, testdata: dir}, []string{"-test.v", "a b"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for r := cpio.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimRight(strings.Join([]string{h.FileInfo().Mode().String(), h.Name, string(data)}, " "), " "))
	}
	want := []string{
		"drwxr-xr-x test",
		`-rw-r--r-- test/args.json ["-test.v","a b"]`,
		"-rwxr-xr-x init #!",
		"-rwxr-xr-x test/test #!",
		"drwxr-xr-x test/testdata",
		"-rwxr-xr-x test/testdata/link #!",
		"-rwxr-xr-x test/testdata/program #!",
		"drwxr-xr-x test/testdata/sub",
		"-rw-r--r-- test/testdata/sub/data x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("initramfs (-want +got):\n%s", diff)
	}
}

func TestCompileTestNeedsTests(t *testing.T) {
	_, err := compileTest(t.Context(), "github.com/cpupoold/cpupoold/test/vm/guestinit", t.TempDir())
	if want := `no tests with the build tag "guest"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("compileTest of a package without tests = %v; want ... %s", err, want)
	}
}

func TestSelected(t *testing.T) {
	for _, tt := range []struct {
		run, test string
		want      []string
	}{
		{"", "TestDaemon", nil},
		{"TestDaemon$", "TestDaemon", nil},
		{"TestDaemon/TestReload", "TestDaemon", []string{"-test.run=TestReload"}},
		{"TestPlacement/8c2n", "TestPlacement/8c2n", nil},
		{"TestPlacement//TestOptions/too", "TestPlacement/8c2n", []string{"-test.run=TestOptions/too"}},
	} {
		if diff := cmp.Diff(tt.want, selected(tt.run, tt.test)); diff != "" {
			t.Errorf("selected(%q, %q) (-want +got):\n%s", tt.run, tt.test, diff)
		}
	}
}
