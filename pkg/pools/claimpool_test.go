package pools_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// TestAloneBesideClaims checks that a container that is placed alone gets no CPU of a claim, after a change of the
// configuration has given this CPU to another pool.
func TestAloneBesideClaims(t *testing.T) {
	s := claimSpec()
	in := claimInput(t, twoNodes, s)
	in.Claims = []pools.Claim{claim("u", "a", nil, pools.ClaimPart{Request: "r", Device: "numa0", CPUs: 2})}
	in.Previous = pools.Build(in).Assignments
	for name, change := range map[string]func(*poolspec.Spec){
		"shared pool": func(s *poolspec.Spec) { s.Guaranteed.Claims.CPUs = list("6-7,14-15") },
		"partition of all other CPUs": func(s *poolspec.Spec) {
			s.Guaranteed.Claims.CPUs, s.Partitions = list("6-7,14-15"), []poolspec.Partition{{Type: "management", All: true, Namespaces: []string{"kube-system"}}}
		},
		"partition": func(s *poolspec.Spec) {
			s.Guaranteed.Claims.CPUs, s.Partitions = list("6-7,14-15"), slices.Clone(s.Partitions)
			s.Partitions[0].CPUs = list("0,2,8,10")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := claimSpec()
			change(&s)
			in := in
			in.Pools = claimInput(t, twoNodes, s).Pools
			plan := pools.Build(in)
			if got := plan.Claims[0].CPUs; got.String() != "2,10" {
				t.Fatalf("claim has %s; want 2,10", got)
			}
			in.Pods = []pools.Pod{
				{UID: "b", Namespace: "default", Name: "b", QoS: pools.QoSBurstable, Containers: []pools.Container{{ID: "b", Name: "app", Kind: pools.App, State: pools.Created}}},
				{UID: "c", Namespace: "kube-system", Name: "c", QoS: pools.QoSBurstable, Annotations: map[string]string{"target.workload.openshift.io/management": `{"effect": "PreferredDuringScheduling"}`},
					Containers: []pools.Container{{ID: "c", Name: "app", Kind: pools.App, State: pools.Created}}},
			}
			for _, p := range in.Pods {
				if checkAlone(t, in, pools.Build(in), in) == 0 {
					t.Fatal("no pod was placed alone")
				}
				got, _ := pools.Alone(&in, &plan, p)
				if on := got.Containers[0].CPUs; on.IsEmpty() || on.Overlaps(plan.Claims[0].CPUs) {
					t.Errorf("container of %s is alone on %q; the claim has %s", p.Name, on, plan.Claims[0].CPUs)
				}
			}
		})
	}
}

// TestClaimsFillDevice checks that no combination of options refuses claims if their sum is the capacity of their
// device.
func TestClaimsFillDevice(t *testing.T) {
	isolated := twoNodes
	isolated.Isolated = list("2-3") // one thread of each core
	for bits := range 1 << 7 {
		on := func(bit int) bool { return bits>>bit&1 == 1 }
		o := allocate.Options{
			OneOwnerPerCore: on(0), DistributeCPUsAcrossCores: on(1), FullPCPUsOnly: on(2), PreferAlignCPUsByUncoreCache: on(3),
			DistributeCPUsAcrossNUMA: on(4), AlignBySocket: on(5),
			Isolated: map[bool]allocate.Preference{true: allocate.Avoid}[on(6)],
		}
		if len(o.Validate()) > 0 {
			continue
		}
		s := claimSpec()
		s.Guaranteed.Options = o
		for _, sizes := range [][]int{{2, 2}, {4}, {3, 1}, {1, 3}, {1, 1, 2}} {
			in := claimInput(t, isolated, s)
			if step := in.Pools.Devices(in.Machine)[0].Step; slices.ContainsFunc(sizes, func(n int) bool { return n%step != 0 }) {
				continue
			}
			for i, n := range sizes {
				in.Claims = append(in.Claims, claim(fmt.Sprint("claim-", i), "a", nil, pools.ClaimPart{Request: "r", Device: "numa0", CPUs: n}))
				plan := pools.Build(in)
				if p := plan.Claims[i]; p.Refused != nil {
					t.Errorf("claim %d of %v with %+v: %s", i+1, sizes, o, p.Reason.Text)
				}
				in.Previous = plan.Assignments
			}
		}
	}
}
