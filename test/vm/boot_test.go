//go:build vm

package vm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// shapes lists the expected topology of each machine inside the guest. With TCG's own CPU the kernel shows
// no L3, and pkg/topology treats the CPUs of one package and one node as one cache.
var shapes = map[string][]string{
	"4c1n":    {"-cpus=0-3", "-nodes=0-3", "-packages=0-3", "-dies=0-3", "-l3s=0-3", "-cores=0 1 2 3"},
	"8c2n":    {"-cpus=0-7", "-nodes=0-3 4-7", "-packages=0-3 4-7", "-dies=0-3 4-7", "-l3s=0-3 4-7", "-cores=0 1 2 3 4 5 6 7"},
	"16c2s2t": {"-cpus=0-15", "-nodes=0-7 8-15", "-packages=0-7 8-15", "-dies=0-7 8-15", "-l3s=0-7 8-15", "-cores=" + pairs(16)},
	"32c4n": {
		"-cpus=0-31", "-nodes=0-7 8-15 16-23 24-31", "-packages=0-15 16-31", "-dies=0-15 16-31", "-l3s=0-7 8-15 16-23 24-31",
		"-cores=" + pairs(32),
	},
	"16c2d4l": {
		"-cpus=0-15", "-nodes=0-7 8-15", "-packages=0-15", "-dies=0-7 8-15", "-l3s=0-3 4-7 8-11 12-15", "-cores=" + pairs(16),
	},
}

// pairs are cores of two threads.
func pairs(cpus int) string {
	var cores []string
	for cpu := 0; cpu < cpus; cpu += 2 {
		cores = append(cores, fmt.Sprintf("%d-%d", cpu, cpu+1))
	}
	return strings.Join(cores, " ")
}

// TestBoot boots a machine from power-on; TestNode continues one.
func TestBoot(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "16c2s2t"})
	vm.RunTests(t, m, "./guest/boot", shapes["16c2s2t"]...)
}

// TestKernel has the topologies that TestBoot and TestNode leave.
func TestKernel(t *testing.T) {
	leave(t)
	for _, topology := range []string{"4c1n", "32c4n", "16c2d4l"} {
		t.Run(topology, func(t *testing.T) {
			vm.RunKernelTests(t, "./guest/boot", vm.Config{Topology: topology}, shapes[topology]...)
		})
	}
}
