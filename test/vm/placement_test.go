//go:build vm

package vm_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// Without the flag the smallest machine skips the most expensive tests. These are TestOptions, devices that are ignored or used up, a
// stopped kubelet, hugepages, memory binding, and a reservation that is not strict. Each scenario takes a minute on a busy host, for
// starts and ends of pods and for restarts and back-off of the kubelet. Together they take more than all other tests.
var allPlacement = flag.Bool("placement.all", false, "run all of guest/placement on the smallest machine")

// TestPlacement checks cpupoold's choices of CPUs against its options, on machines of several shapes, with real devices and
// containers. Tests that do not depend on the machine's shape run on the smallest only.
func TestPlacement(t *testing.T) {
	tests := placements()
	if *allPlacement {
		tests["8c2n"] = nil
	}
	for _, topology := range slices.Sorted(maps.Keys(tests)) {
		t.Run(topology, func(t *testing.T) {
			leave(t)
			m := vm.Start(t, vm.Config{Topology: topology, Node: true})
			installDaemon(t, m)
			vm.RunTests(t, m, "./guest/placement", tests[topology]...)
		})
	}
}

// placements lists the parts of guest/placement that run, by machine.
func placements() map[string][]string {
	return map[string][]string{
		"8c2n":    {"-test.run=^(TestCarve|TestPodResources|TestDevices|TestDevicesFail|TestMixed)$"},
		"16c2s2t": {"-test.run=^(TestOptions|TestOneOwnerPerCore|TestCarve)$"},
		"16c2d4l": {"-test.run=^(TestOptions|TestOneOwnerPerCore)$"},
	}
}
