package partition_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestLeft checks which partitions and lists of other daemons are found, of both drivers, also below a root that the
// kubelet is configured with.
func TestLeft(t *testing.T) {
	const (
		pod   = "kubepods.slice/kubepods-pod0c7b8d5e_3a64_4f0e_9d0f_000000000001.slice"
		scope = pod + "/cri-containerd-1.scope"
	)
	for p, want := range map[cgroup.Path][2]string{ // with a journal, and without
		"kubepods.slice": {"", "kubepods.slice/gone"}, "kubepods": {"", "kubepods/gone"},
		"kubepods.slice/kubepods-burstable.slice": {"", "kubepods.slice/kubepods-burstable.slice/gone"},
		"kubelet.slice/kubelet-kubepods.slice":    {"", "kubelet.slice/kubelet-kubepods.slice/gone"},
		"system.slice":                            {}, "kubepodsx.slice": {}, "": {},
		pod: {pod + "/gone", pod + "/gone"}, scope: {"", scope}, scope + "/container": {},
	} {
		for i, bare := range []bool{false, true} {
			var all []string
			for at := range partition.Left([]cgroup.Path{p}, bare) {
				all = append(all, string(at))
			}
			if got := strings.Join(all, " "); got != want[i] {
				t.Errorf("Left(%q, %t) = %q; want %q", p, bare, got, want[i])
			}
		}
	}
}
