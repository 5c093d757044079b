//go:build vm

package vm_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

var kernelSuites = flag.String("kernels", "", "Debian suites of TestKernels with commas between; none if empty")

// onKernels are the tests of guest/daemon in which the kernel has a say. One that needs partitions is skipped on kernels that are older than
// these, by the version alone.
func onKernels() []string {
	return []string{"TestPartition", "TestParking", "TestHandoverDeaths", "TestHotplug", "TestResize"}
}

// releases are what the versions of the suites' kernels begin with: the oldest, the one of all other tests, and the newest.
func releases() map[string]string {
	return map[string]string{"bookworm": "6.1.", "trixie": "6.12.", "forky": "7."}
}

// TestKernels runs these tests, pkg/cgroup's, and who runs on exclusive CPUs by the kernel's own record, on several kernels.
func TestKernels(t *testing.T) {
	if *kernelSuites == "" {
		t.Skip("a quarter of an hour for each kernel: make test-kernels")
	}
	for suite := range strings.SplitSeq(*kernelSuites, ",") {
		t.Run(suite, func(t *testing.T) {
			want, known := releases()[suite]
			if !known {
				t.Fatalf("choose kernel of %q: want some of %v", suite, releases())
			}
			t.Run("cgroup", func(t *testing.T) { vm.RunKernelTests(t, "./guest/cgroup", vm.Config{Topology: "8c2n", Suite: suite}) })
			m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: suite})
			if release := run(t, m, "uname", "-r"); !strings.HasPrefix(release, want) {
				t.Fatalf("kernel of %s: %s; want %s, so that no test is skipped that could run", suite, release, want)
			}
			installDaemon(t, m)
			t.Run("isolation", func(t *testing.T) { vm.RunTests(t, m, "./guest/isolation", "-partitions") })
			t.Run("daemon", func(t *testing.T) {
				vm.RunTests(t, m, "./guest/daemon", "-partitions", "-test.run=^("+strings.Join(onKernels(), "|")+")$")
			})
		})
	}
}
