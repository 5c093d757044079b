package partition

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// MaxPartitionSteps bounds the steps of one look at partitions, as maxRounds does a
// pass.
func MaxPartitionSteps(n int) int { return 32 + 8*n }

// HoldsPods says that a cgroup is one in which the kubelet has pods, or their classes.
func HoldsPods(p cgroup.Path) bool {
	for component := range strings.SplitSeq(string(p), "/") {
		if name := strings.TrimSuffix(component, ".slice"); name == "kubepods" || strings.HasSuffix(name, "-kubepods") {
			return true
		}
	}
	return false
}
