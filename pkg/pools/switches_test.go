package pools_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestLoadBalancingSwitch checks that the plan reports load balancing that stays on.
func TestLoadBalancingSwitch(t *testing.T) {
	for name, c := range map[string]struct {
		value      string
		partitions bool
		want       pools.Code // none if empty
	}{
		"cpusets":              {"disable", false, pools.CodeSwitchIgnored},
		"partitions":           {"disable", true, ""},
		"left on":              {"enable", false, ""},
		"what CRI-O once took": {"true", true, pools.CodeSwitchIgnored},
		"nonsense":             {"off", true, pools.CodeSwitchInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			in := pools.Input{Machine: allocate.New(hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()), Partitions: c.partitions,
				Pools: pools.Pools{Shared: cpuset.Range(0, 1), Guaranteed: cpuset.Range(2, 7)}, Pods: []pools.Pod{podOf(0, 2)}}
			in.Pods[0].Annotations = map[string]string{"cpu-load-balancing.crio.io": c.value}
			var got pools.Code
			for _, p := range checkedBuild(t, in).Problems {
				got = p.Code
			}
			if got != c.want {
				t.Errorf("reported is %q, want %q", got, c.want)
			}
		})
	}
}
