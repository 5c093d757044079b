//go:build vm

package vm_test

import (
	"os/exec"
	"testing"
)

// TestAPIServer runs test/apiserver, which is a module of its own and needs no machine: it
// is in a slice since the first build of kube-apiserver takes some minutes.
func TestAPIServer(t *testing.T) {
	leave(t)
	out, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "test-apiserver").CombinedOutput()
	if err != nil {
		t.Fatalf("make test-apiserver: %v\n%s", err, out)
	}
}
