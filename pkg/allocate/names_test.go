package allocate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/allocate"
)

func TestSet(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        allocate.Options
	}{
		{"full-pcpus-only", "true", allocate.Options{FullPCPUsOnly: true}},
		{"distribute-cpus-across-numa", "true", allocate.Options{DistributeCPUsAcrossNUMA: true}},
		{"align-by-socket", "true", allocate.Options{AlignBySocket: true}},
		{"distribute-cpus-across-cores", "true", allocate.Options{DistributeCPUsAcrossCores: true}},
		{"prefer-align-cpus-by-uncorecache", "true", allocate.Options{PreferAlignCPUsByUncoreCache: true}},
		{"one-owner-per-core", "true", allocate.Options{OneOwnerPerCore: true}},
		{"topology-policy", "none", allocate.Options{TopologyPolicy: allocate.None}},
		{"topology-policy", "best-effort", allocate.Options{TopologyPolicy: allocate.BestEffort}},
		{"topology-policy", "restricted", allocate.Options{TopologyPolicy: allocate.Restricted}},
		{"topology-policy", "single-numa-node", allocate.Options{TopologyPolicy: allocate.SingleNUMANode}},
		{"isolated-cpus", "prefer", allocate.Options{Isolated: allocate.Prefer}},
		{"isolated-cpus", "require", allocate.Options{Isolated: allocate.Require}},
		{"isolated-cpus", "avoid", allocate.Options{Isolated: allocate.Avoid}},
		{"core-type", "performance", allocate.Options{CoreType: allocate.Performance, CoreTypePreference: allocate.Require}},
		{"core-type", "efficiency", allocate.Options{CoreType: allocate.Efficiency, CoreTypePreference: allocate.Require}},
		{"core-type", "prefer-performance", allocate.Options{CoreType: allocate.Performance, CoreTypePreference: allocate.Prefer}},
		{"core-type", "prefer-efficiency", allocate.Options{CoreType: allocate.Efficiency, CoreTypePreference: allocate.Prefer}},
	} {
		var o allocate.Options
		if err := o.Set(c.name, c.value); err != nil {
			t.Errorf("Set(%s, %s) = %v", c.name, c.value, err)
		}
		if diff := cmp.Diff(c.want, o); diff != "" {
			t.Errorf("Set(%s, %s) (-want +got):\n%s", c.name, c.value, diff)
		}
	}
}

func TestSetBack(t *testing.T) {
	full := allocate.Options{
		FullPCPUsOnly: true, Isolated: allocate.Require, CoreType: allocate.Efficiency, CoreTypePreference: allocate.Prefer,
	}
	for _, back := range [][2]string{{"full-pcpus-only", "false"}, {"isolated-cpus", "any"}, {"core-type", "any"}} {
		if err := full.Set(back[0], back[1]); err != nil {
			t.Errorf("Set(%s, %s) = %v", back[0], back[1], err)
		}
	}
	if diff := cmp.Diff(allocate.Options{}, full); diff != "" {
		t.Errorf("options taken back (-want +got):\n%s", diff)
	}
}

func TestSetRefuses(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"full-pcpus-only", "yes", "is neither true nor false"},
		{"one-owner-per-core", "", "is neither true nor false"},
		{"topology-policy", "strict", "is not known; write none, best-effort, restricted or single-numa-node"},
		{"topology-policy", "", "is not known; write none, best-effort, restricted or single-numa-node"},
		{"isolated-cpus", "never", "is not known; write prefer, require, avoid or any"},
		{"core-type", "prefer-", "is not known; write performance, efficiency, prefer-performance, prefer-efficiency or any"},
		{"core-type", "prefer-prefer-efficiency", "is not known; write performance, efficiency, prefer-performance, prefer-efficiency or any"},
		{"strict-cpu-reservation", "true", "is not a known option; known are " + strings.Join(allocate.OptionNames(), ", ")},
	} {
		var o allocate.Options
		if err := o.Set(c.name, c.value); err == nil || err.Error() != c.want {
			t.Errorf("Set(%s, %q) = %v; want %s", c.name, c.value, err, c.want)
		}
		if diff := cmp.Diff(allocate.Options{}, o); diff != "" {
			t.Errorf("Set(%s, %q) changed options (-want +got):\n%s", c.name, c.value, diff)
		}
	}
}

// TestSetKnowsNames checks that each documented name is accepted, and has a value.
func TestSetKnowsNames(t *testing.T) {
	for _, name := range allocate.OptionNames() {
		knows := func(value string) bool { return new(allocate.Options).Set(name, value) == nil }
		if !slices.ContainsFunc([]string{"true", "none", "any"}, knows) {
			t.Errorf("option %s accepts none of true, none and any; want one", name)
		}
	}
}
