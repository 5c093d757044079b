//go:build vm

package vm_test

import (
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// TestPodLevel runs pods with pod-level resources on containerd with and without NRI, and on CRI-O.
func TestPodLevel(t *testing.T) {
	for _, p := range podLevelPairs() {
		t.Run(p.Name, func(t *testing.T) {
			leave(t)
			m := vm.Start(t, p.Config)
			installDaemon(t, m)
			vm.RunTests(t, m, "./guest/podlevel", installEarlier(t, m)...)
		})
	}
}

// podLevelPairs returns the machines of TestPodLevel.
func podLevelPairs() []matrix.Pair {
	names := []string{"containerd", "containerd-nri-off", "crio-runc"}
	return slices.DeleteFunc(matrix.Pairs(), func(p matrix.Pair) bool { return !slices.Contains(names, p.Name) })
}
