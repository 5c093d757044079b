//go:build vm

package vm_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

var chosenSuites = flag.String("kernels", "bookworm,trixie,forky", "Debian suites of TestKernels, with commas between")

// kernelSuite is a release of Debian with its kernel.
type kernelSuite struct {
	name       string
	release    string // what the kernel's begins with
	partitions bool   // it is not older than these
}

// kernelSuites are the oldest kernel, the one of all other tests, and the newest.
func kernelSuites() []kernelSuite {
	return []kernelSuite{{"bookworm", "6.1.", false}, {"trixie", "6.12.", true}, {"forky", "7.", true}}
}

// kernelPart is what runs on one machine.
type kernelPart struct {
	name       string
	pkg        string // below guest
	tests      string // of it, an expression
	partitions bool   // needs them
	bare       bool   // the kernel is enough
}

// kernelParts are tests in which the kernel has a say. What of them needs partitions is skipped in the guest on kernels that are older than
// these, by the version alone, so that a new kernel cannot skip anything.
func kernelParts() []kernelPart {
	return []kernelPart{
		{name: "cgroup", pkg: "cgroup", bare: true},
		{name: "isolation", pkg: "isolation", tests: "."},
		{name: "changes", pkg: "daemon", tests: "^(TestHotplug|TestResize)$"},
		{name: "partitions", pkg: "daemon", tests: "^(TestPartition|TestParking)$", partitions: true},
		{name: "deaths", pkg: "daemon", tests: "^TestHandoverDeaths$", partitions: true},
	}
}

// parts are those for which the kernel is new enough.
func (s kernelSuite) parts() []kernelPart {
	return slices.DeleteFunc(kernelParts(), func(p kernelPart) bool { return p.partitions && !s.partitions })
}

// onKernels are the names of all of them.
func onKernels() (names []string) {
	for _, s := range kernelSuites() {
		for _, p := range s.parts() {
			names = append(names, "TestKernels/"+s.name+"/"+p.name)
		}
	}
	return names
}

// TestKernels runs these tests, pkg/cgroup's, and who runs on exclusive CPUs by the kernel's own record, on several kernels.
func TestKernels(t *testing.T) {
	chosen := strings.Split(*chosenSuites, ",")
	for _, name := range chosen {
		if !slices.ContainsFunc(kernelSuites(), func(s kernelSuite) bool { return s.name == name }) {
			t.Fatalf("choose kernel of %q: want some of bookworm, trixie, forky", name)
		}
	}
	for _, s := range kernelSuites() {
		if !slices.Contains(chosen, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			for _, part := range s.parts() {
				t.Run(part.name, func(t *testing.T) { runOnKernel(t, s, part) })
			}
		})
	}
}

func runOnKernel(t *testing.T, s kernelSuite, part kernelPart) {
	t.Helper()
	leave(t)
	if part.bare {
		vm.RunKernelTests(t, "./guest/"+part.pkg, vm.Config{Topology: "8c2n", Suite: s.name})
		return
	}
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: s.name})
	if release := run(t, m, "uname", "-r"); !strings.HasPrefix(release, s.release) {
		t.Fatalf("kernel of %s: %s; want %s, so that no test is skipped that could run", s.name, release, s.release)
	}
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/"+part.pkg, "-partitions", "-test.run="+part.tests)
}
