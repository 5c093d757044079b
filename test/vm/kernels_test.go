//go:build vm

package vm_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

var chosenSuites = flag.String("kernels", "bookworm,trixie,forky", "Debian suites of TestKernels, with commas between")

// TestKernels runs these tests on several kernels: pkg/cgroup's, and a trace of the tasks on exclusive CPUs.
func TestKernels(t *testing.T) {
	chosen := strings.Split(*chosenSuites, ",")
	for _, name := range chosen {
		if !slices.ContainsFunc(matrix.Suites(), func(s matrix.Suite) bool { return s.Name == name }) {
			t.Fatalf("choose kernel of %q: want some of bookworm, trixie, forky", name)
		}
	}
	for _, s := range matrix.Suites() {
		if !slices.Contains(chosen, s.Name) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			for _, part := range s.Parts() {
				t.Run(part.Name, func(t *testing.T) { runOnKernel(t, s, part) })
			}
		})
	}
}

func runOnKernel(t *testing.T, s matrix.Suite, part matrix.Part) {
	t.Helper()
	leave(t)
	if part.Bare {
		vm.RunKernelTests(t, "./guest/"+part.Package, vm.Config{Topology: "8c2n", Suite: s.Name})
		return
	}
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: s.Name})
	if release := run(t, m, "uname", "-r"); !strings.HasPrefix(release, s.Kernel) {
		t.Fatalf("kernel of %s: %s; want %s, so that no test is skipped that could run", s.Name, release, s.Kernel)
	}
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/"+part.Package, "-partitions", "-test.run="+part.Tests)
}
