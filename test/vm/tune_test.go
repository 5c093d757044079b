//go:build vm

package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestInterrupts is about the interrupts of a node with a runtime and a kubelet, and about Debian's irqbalance on it.
func TestInterrupts(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	run(t, m, "mkdir", "-p", "/opt/irqbalance")
	for _, file := range irqbalance(t) {
		if err := m.CopyTo(t.Context(), file, "/opt/irqbalance/"+filepath.Base(file)); err != nil {
			t.Fatal(err)
		}
	}
	vm.RunTests(t, m, "./guest/tune")
}

// irqbalance fetches the program of this host's release of Debian, with the libraries that guests lack. A package of the guest would need a
// separate image.
func irqbalance(t *testing.T) (files []string) {
	t.Helper()
	dir := t.TempDir()
	command := func(name string, args ...string) string {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	packages := []string{"irqbalance"}
	for line := range strings.Lines(command("apt-cache", "depends", "--important", "irqbalance")) {
		for _, library := range []string{"libnuma", "libcap-ng", "libglib2.0"} {
			if name, is := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); is && strings.HasPrefix(name, library) {
				packages = append(packages, name)
			}
		}
	}
	command("apt-get", append([]string{"-q", "download"}, packages...)...)
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, deb := range debs {
		command("dpkg-deb", "-x", deb, "root")
	}
	for _, pattern := range []string{"usr/sbin/irqbalance", "lib/*/libcap-ng.so.0", "lib/*/libglib-2.0.so.0", "lib/*/libnuma.so.1"} {
		for _, top := range []string{"root/", "root/usr/"} {
			found, err := filepath.Glob(filepath.Join(dir, top, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range found {
				// The name that the program asks for, and the file that it leads to.
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(dir, filepath.Base(name))
				if err := os.WriteFile(file, b, 0o755); err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
		}
	}
	return files
}
