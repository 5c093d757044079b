//go:build vm

package vm_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

var undoRounds = flag.Int("undo.rounds", 3, "rounds of TestUndo, of about ten containers, a reconfiguration and a kill of the daemon each")

// TestUndo has the daemon work on a node, and restores it.
func TestUndo(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/undo", fmt.Sprintf("-rounds=%d", *undoRounds))
}
