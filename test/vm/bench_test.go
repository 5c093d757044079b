//go:build vm && bench

package vm_test

import (
	"flag"
	"os"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

var samples = flag.String("samples", "", "file to which the samples of TestBench and TestLimits are appended")

// guestSamples is the file with them in a guest.
const guestSamples = "/var/lib/bench.txt"

// TestBench measures cpupoold on a node. It is not among the tests: bench/record.sh calls it.
func TestBench(t *testing.T) {
	// 125 pods are as many shims of the runtime's, of some ten MiB each.
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Memory: 4096})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/bench", "-out="+guestSamples, "-test.skip=^TestUpdate$")
	keepSamples(t, m)
}

// TestRow measures the part of the daemon in the creation of 100 exclusive pods, without the other samples of TestBench.
// Its command is go test -tags vm,bench -count 1 -v -run '^TestRow$' ./test/vm -samples=FILE.
func TestRow(t *testing.T) {
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/bench", "-out="+guestSamples, "-test.run=^TestRow$")
	keepSamples(t, m)
}

// TestLimits measures the steps that no daemon gets below, on all kernels: `make bench-limits`. On the oldest one there are no partitions.
func TestLimits(t *testing.T) {
	for _, s := range matrix.Suites() {
		t.Run(s.Name, func(t *testing.T) {
			m := vm.Start(t, vm.Config{Topology: "8c2n", Suite: s.Name})
			vm.RunTests(t, m, "./guest/limits", "-out="+guestSamples)
			keepSamples(t, m)
		})
	}
	t.Run("containerd", func(t *testing.T) {
		m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
		vm.RunTests(t, m, "./guest/bench", "-out="+guestSamples, "-test.run=^TestUpdate$")
		keepSamples(t, m)
	})
}

// TestLiveSwitch measures the eBPF program of the live audit with tasks that switch at full speed, on all kernels. A bare kernel runs few other
// tasks. The samples are lines of its output: make bench PARTS=live.
func TestLiveSwitch(t *testing.T) {
	for _, s := range matrix.Suites() {
		t.Run(s.Name, func(t *testing.T) {
			vm.RunKernelTests(t, "./guest/livecost", vm.Config{Topology: "4c1n", Suite: s.Name}, "-test.run=^TestSwitch$")
		})
	}
}

// TestLiveMemory measures the memory of the daemon with and without the live audit: make bench PARTS=live.
func TestLiveMemory(t *testing.T) {
	m := liveNode(t)
	vm.RunTests(t, m, "./guest/livedaemon", "-out="+guestSamples, "-test.run=^TestMemory$")
	keepSamples(t, m)
}

func keepSamples(t *testing.T, m *vm.VM) {
	t.Helper()
	if *samples == "" {
		t.Fatal("name the file for the samples: -samples=FILE")
	}
	taken, err := m.Run(t.Context(), "cat", guestSamples)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(*samples, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(taken)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
