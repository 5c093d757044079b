//go:build vm && bench

package vm_test

import (
	"flag"
	"os"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

var samples = flag.String("samples", "", "file for the samples of TestBench")

// TestBench measures cpupoold on a node. It is not among the tests: bench/record.sh calls it.
func TestBench(t *testing.T) {
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	const guestFile = "/var/lib/bench.txt"
	vm.RunTests(t, m, "./guest/bench", "-out="+guestFile)
	out, err := m.Run(t.Context(), "cat", guestFile)
	if err != nil {
		t.Fatal(err)
	}
	if *samples == "" {
		t.Fatal("name the file for the samples: -samples=FILE")
	}
	if err := os.WriteFile(*samples, out, 0o644); err != nil {
		t.Fatal(err)
	}
}
