//go:build vm

package vm_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestOpenShift takes a node with CRI-O from OpenShift's workload partitioning to cpupoold and back.
func TestOpenShift(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: "bookworm", Runtime: vm.Runtime{Name: "crio-runc", PodEvents: true}})
	installDaemon(t, m)
	plugin := filepath.Join(t.TempDir(), "kubectl-cpupool")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", plugin, "../../cmd/kubectl-cpupool")
	build.Env = append(build.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl-cpupool: %v: %s", err, out)
	}
	for from, to := range map[string]string{plugin: "/usr/local/bin/kubectl-cpupool", "../../docs/how-to/migrate/openshift.md": "/root/openshift.md"} {
		if err := m.CopyTo(t.Context(), from, to); err != nil {
			t.Fatal(err)
		}
	}
	vm.RunTests(t, m, "./guest/openshift", "-guide=/root/openshift.md")
}
