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
	for name, u := range undone() {
		t.Run(name, func(t *testing.T) {
			leave(t)
			m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: u.suite, Runtime: vm.Runtime{Name: u.runtime}})
			installDaemon(t, m)
			vm.RunTests(t, m, "./guest/undo", fmt.Sprintf("-rounds=%d", *undoRounds), fmt.Sprintf("-nri=%t", u.nri))
		})
	}
}

// undoMachine is a node of TestUndo.
type undoMachine struct {
	suite, runtime string
	nri            bool // the test switches NRI off otherwise
}

// undone returns the machines of TestUndo. Without NRI, the daemon changes containers that run, and records
// each change with the runtime.
func undone() map[string]undoMachine {
	return map[string]undoMachine{
		"containerd":   {"", "", true},
		"crio-nri":     {"forky", "crio-crun", true},
		"crio-nri-off": {"forky", "crio-crun", false},
	}
}
