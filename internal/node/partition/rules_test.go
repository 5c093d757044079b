package partition_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestHoldsPods checks the cgroups of both drivers, also below a root that the kubelet is
// configured with.
func TestHoldsPods(t *testing.T) {
	for p, want := range map[cgroup.Path]bool{
		"kubepods.slice": true, "kubepods": true, "kubepods.slice/kubepods-burstable.slice": true,
		"kubelet.slice/kubelet-kubepods.slice": true, "system.slice": false, "kubepodsx.slice": false, "": false,
	} {
		if got := partition.HoldsPods(p); got != want {
			t.Errorf("HoldsPods(%q) = %t; want %t", p, got, want)
		}
	}
}
