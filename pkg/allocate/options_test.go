package allocate_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/allocate"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name    string
		options allocate.Options
		want    []string
	}{
		{"none", allocate.Options{}, nil},
		{"together", allocate.Options{
			FullPCPUsOnly: true, DistributeCPUsAcrossNUMA: true, AlignBySocket: true, OneOwnerPerCore: true, TopologyPolicy: allocate.Restricted,
			Isolated: allocate.Avoid, CoreType: allocate.Efficiency, CoreTypePreference: allocate.Prefer,
		}, nil},
		{"across cores", allocate.Options{
			FullPCPUsOnly: true, DistributeCPUsAcrossNUMA: true, DistributeCPUsAcrossCores: true, PreferAlignCPUsByUncoreCache: true,
		}, []string{
			"full-pcpus-only: true and distribute-cpus-across-cores: true contradict each other: one takes whole cores, the other one thread of each; turn one of them off",
			"distribute-cpus-across-numa: true and distribute-cpus-across-cores: true contradict each other: one spreads over NUMA nodes, the other over cores; turn one of them off",
			"prefer-align-cpus-by-uncorecache: true and distribute-cpus-across-cores: true contradict each other: one keeps caches together, the other spreads over cores; turn one of them off",
			"prefer-align-cpus-by-uncorecache: true and distribute-cpus-across-numa: true contradict each other: one keeps caches together, the other spreads over NUMA nodes; turn one of them off",
		}},
		{"sockets", allocate.Options{AlignBySocket: true, TopologyPolicy: allocate.SingleNUMANode}, []string{
			"align-by-socket: true and topology-policy: single-numa-node contradict each other: a socket may have several NUMA nodes; turn one of them off",
		}},
		{"values", allocate.Options{TopologyPolicy: "strict", Isolated: "maybe", CoreType: "big", CoreTypePreference: allocate.Require}, []string{
			`topology-policy: "strict" is not known; write none, best-effort, restricted or single-numa-node`,
			`isolated-cpus: "maybe" is not known; write prefer, require or avoid`,
			`core-type: type "big" with preference "require" is not known; write performance, efficiency, prefer-performance or prefer-efficiency`,
		}},
		{"preference without a type", allocate.Options{CoreTypePreference: allocate.Prefer}, []string{
			`core-type: type "" with preference "prefer" is not known; write performance, efficiency, prefer-performance or prefer-efficiency`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, err := range tt.options.Validate() {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Validate: -want +got\n%s", diff)
			}
		})
	}
}

// TestRefusal checks the texts of refusals.
func TestRefusal(t *testing.T) {
	tests := []struct {
		machine, free, request string
		want                   allocate.Refusal
	}{
		{plain, "0-2", "4", allocate.Refusal{Asked: 4, Free: 3, Usable: 3, Code: allocate.TooFewFree,
			Why: "1 more are needed; request fewer, make the pool larger, or wait until others end"}},
		{plain, "0-15", "5 full-pcpus-only=true", allocate.Refusal{Asked: 5, Free: 16, Usable: 16, Code: allocate.SMTAlignment,
			Why: "full-pcpus-only gives whole cores of 2 threads, and 5 is no multiple of it; request 6, or disable the option"}},
		{plain, "0-2,8", "4 full-pcpus-only=true", allocate.Refusal{Asked: 4, Free: 4, Usable: 2, Code: allocate.TooFewWholeCores,
			Why: "full-pcpus-only takes only completely free cores, and these are too few; request fewer, or see cpupoold plan --defrag"}},
		{boot, "0-4", "3 isolated-cpus=require", allocate.Refusal{Asked: 3, Free: 5, Usable: 2, Code: allocate.TooFewIsolated,
			Why: "isolated-cpus: require takes only CPUs that the kernel isolates since boot (isolcpus); write prefer, or isolate more"}},
		{hybrid, "0-9", "3 core-type=efficiency", allocate.Refusal{Asked: 3, Free: 10, Usable: 2, Code: allocate.TooFewOfCoreType,
			Why: "core-type: efficiency takes only cores of that kind; write prefer-efficiency, or request fewer"}},
		{plain, "0-3,8", "3 one-owner-per-core=true", allocate.Refusal{Asked: 3, Free: 5, Usable: 2, Code: allocate.TooFewUntouchedCores,
			Why: "the other free CPUs are in cores that belong in part to another owner or pool (one-owner-per-core); request fewer, or wait until others end"}},
		{plain, "0-3,4-6", "5 topology-policy=single-numa-node nodes=1", allocate.Refusal{Asked: 5, Free: 7, Usable: 3, Code: allocate.NotOnOneNode,
			Why: "no NUMA node of 1 (of the devices and memory) has room for all (topology-policy: single-numa-node); request fewer, set topology-policy: best-effort, or see cpupoold plan --defrag"}},
		{plain, "0-3,4-6", "5 topology-policy=restricted", allocate.Refusal{Asked: 5, Free: 7, Usable: 4, Code: allocate.NotOnFewestNodes,
			Why: "NUMA nodes that are enough on the empty machine: 1, and now they are not (topology-policy: restricted); request fewer, set topology-policy: best-effort, or see cpupoold plan --defrag"}},
		{plain, "0-3,4-6", "4 topology-policy=restricted nodes=1", allocate.Refusal{Asked: 4, Free: 7, Usable: 3, Code: allocate.NotOnHintedNodes,
			Why: "NUMA nodes 1 of the devices and memory have too few left (topology-policy: restricted); wait until others end, set topology-policy: best-effort, or see cpupoold plan --defrag"}},
	}
	for _, tt := range tests {
		_, err := allocate.New(machineOf(t, tt.machine).Topology()).Supply(set(t, tt.free)).Take(requestOf(t, tt.request))
		got, ok := errors.AsType[*allocate.Refusal](err)
		if !ok {
			t.Errorf("Take(%s): %v is not a refusal", tt.request, err)
			continue
		}
		if diff := cmp.Diff(tt.want, *got); diff != "" {
			t.Errorf("Take(%s): -want +got\n%s", tt.request, diff)
		}
	}
	const want = "4 CPUs asked, 3 free, 3 of them usable: ask later"
	if got := (&allocate.Refusal{Asked: 4, Free: 3, Usable: 3, Why: "ask later"}).Error(); got != want {
		t.Errorf("Error() = %q; want %q", got, want)
	}
}
