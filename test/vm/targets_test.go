//go:build vm

package vm_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestAPIServer runs test/apiserver, which is a separate module and needs no machine. It
// is in a slice, since the first build of kube-apiserver takes some minutes.
func TestAPIServer(t *testing.T) {
	leave(t)
	succeeds(t, "make", "-C", "../..", "test-apiserver")
}

// TestRandom runs the long random runs of the unit tests, which need no machine.
func TestRandom(t *testing.T) {
	leave(t)
	succeeds(t, "make", "-C", "../..", "test-random")
}

// TestParts runs the tests of the software of a node, which boot a machine.
func TestParts(t *testing.T) {
	leave(t)
	succeeds(t, "go", "test", "-tags", "vm", "-count=1", "-timeout", "30m", "./parts")
}

// succeeds runs a command with tests. If the command fails, the test fails with its output.
func succeeds(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
