//go:build vm

package vm_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestJitter is about the counts of bench/jitter on a host with systemd: emulated times mean nothing.
func TestJitter(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	program := filepath.Join(t.TempDir(), "jitter")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../bench/jitter"
	build.Env = append(build.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build jitter: %v: %s", err, out)
	}
	if err := m.CopyTo(t.Context(), program, "/usr/local/bin/jitter"); err != nil {
		t.Fatal(err)
	}
	vm.RunTests(t, m, "./guest/jitter")
}
