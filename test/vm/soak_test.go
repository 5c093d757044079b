//go:build vm

package vm_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm"
)

var (
	soakTime  = flag.Duration("soak", 10*time.Minute, "how long TestSoak lasts")
	soakSeed  = flag.Uint64("soak.seed", 1, "seed of TestSoak")
	soakSuite = flag.String("soak.suite", "trixie", "Debian suite of TestSoak's machine; trixie's kernel has partitions")
	churned   = flag.Int("churn", 0, "containers that TestChurn starts and stops; 0 leaves it out")
	churnedOn = flag.String("churn.runtime", "crio-crun", "container runtime of TestChurn's machine: one of vm.Runtime's names")
)

// TestSoak has everything break at random that a daemon relies on, while pods come and go: `make soak DURATION=8h SEED=2`.
func TestSoak(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: *soakSuite})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/daemon", "-test.run=^TestSoak$", fmt.Sprintf("-soak=%v", *soakTime), fmt.Sprintf("-seed=%d", *soakSeed), "-more")
}

// TestChurn starts and stops thousands of containers: `make churn`.
func TestChurn(t *testing.T) {
	if *churned == 0 {
		t.Skip("hours: make churn")
	}
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Runtime: vm.Runtime{Name: *churnedOn}})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/daemon", "-test.run=^TestChurn$", fmt.Sprintf("-churn=%d", *churned))
}
