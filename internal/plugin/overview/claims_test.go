package overview_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/cpupoold/cpupoold/internal/plugin/overview"
)

func parse[T any](t *testing.T, texts ...string) (all []T) {
	t.Helper()
	for _, text := range texts {
		var o T
		if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		all = append(all, o)
	}
	return all
}

// slice returns a ResourceSlice of a node.
func slice(node string, generation int, driver, devices string) string {
	return fmt.Sprintf("spec: {driver: %s, nodeName: %s, pool: {name: %s, generation: %d, resourceSliceCount: 1}, devices: [%s]}", driver, node, node, generation, devices)
}

func device(name string, cpus int, more string) string {
	return fmt.Sprintf("{name: %s, capacity: {cpu.cpupoold.io/cpus: {value: '%d'}}%s}", name, cpus, more)
}

// result returns a result of an allocation.
func result(driver, pool, device, share string, cpus int, more string) string {
	return fmt.Sprintf("{request: r, driver: %s, pool: %s, device: %s, shareID: %s, consumedCapacity: {cpu.cpupoold.io/cpus: '%d'}%s}", driver, pool, device, share, cpus, more)
}

// TestAddClaims checks capacity, allocated and prepared CPUs of claims, the accounting, and the taint.
func TestAddClaims(t *testing.T) {
	const ours = "cpu.cpupoold.io"
	published := parse[resourcev1.ResourceSlice](t,
		slice("a", 2, ours, device("numa1", 8, "")+","+device("numa0", 4, ", taints: [{key: other, effect: NoSchedule}]")),
		slice("a", 1, ours, device("numa0", 99, "")), // of an earlier generation
		slice("a", 1, "nic", device("nic0", 99, "")),
		slice("b", 1, ours, device("numa0", 2, ", taints: [{key: cpu.cpupoold.io/away, effect: NoSchedule}], nodeAllocatableResources: {cpu: {mapping: {capacityKey: cpu.cpupoold.io/cpus, capacityMultiplier: '1'}}}")),
		slice("empty", 1, ours, ""),
		slice("gone", 1, ours, device("numa0", 2, "")),
	)
	claims := parse[resourcev1.ResourceClaim](t,
		"metadata: {namespace: ran, name: du}\nstatus: {allocation: {devices: {results: ["+result(ours, "a", "numa0", "s1", 2, "")+","+result(ours, "a", "numa1", "s2", 3, "")+","+result("nic", "a", "numa0", "s3", 50, "")+"]}},"+
			" reservedFor: [{resource: pods, name: du-0, uid: u}], devices: [{driver: "+ours+", pool: a, device: numa0, shareID: s1}, {driver: "+ours+", pool: a, device: numa1, shareID: s2, conditions: [{type: Ready, status: 'True', message: fine, reason: Prepared, lastTransitionTime: null}]}]}",
		"metadata: {namespace: ran, name: cu}\nstatus: {allocation: {devices: {results: ["+result(ours, "a", "numa1", "s4", 1, "")+"]}}, devices: [{driver: "+ours+", pool: a, device: numa1, shareID: other}, {driver: nic, pool: a, device: numa1, shareID: s4}]}",
		"metadata: {namespace: ran, name: away}\nstatus: {allocation: {devices: {results: ["+result(ours, "a", "numa2", "s5", 1, "")+"]}}, devices: [{driver: "+ours+", pool: a, device: numa2, shareID: s5, conditions: [{type: Ready, status: 'False', message: CPUs 3 are offline, reason: CPUsAway, lastTransitionTime: null}]}]}",
		"metadata: {namespace: ran, name: admin}\nstatus: {allocation: {devices: {results: ["+result(ours, "a", "numa1", "s6", 8, ", adminAccess: true")+"]}}}",
		"metadata: {namespace: ran, name: elsewhere}\nstatus: {allocation: {devices: {results: ["+result(ours, "unknown", "numa1", "s7", 8, "")+"]}}}",
		"metadata: {namespace: ran, name: pending}",
	)
	nodes := []overview.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "empty"}}
	overview.AddClaims(nodes, published, claims)
	want := []overview.Node{
		{Name: "a", Claims: &overview.Claims{Accounting: overview.Reserved,
			Devices: []overview.Device{{Name: "numa0", Capacity: 4, Allocated: 2, Prepared: 2}, {Name: "numa1", Capacity: 8, Allocated: 4, Prepared: 3}, {Name: "numa2", Allocated: 1, Prepared: 1}},
			Allocated: []overview.Claim{
				{Namespace: "ran", Name: "away", CPUs: 1, Prepared: true, Pods: []string{}, Message: "CPUs 3 are offline"},
				{Namespace: "ran", Name: "cu", CPUs: 1, Pods: []string{}},
				{Namespace: "ran", Name: "du", CPUs: 5, Prepared: true, Pods: []string{"du-0"}},
			}}},
		{Name: "b", Claims: &overview.Claims{Accounting: overview.Mapped, Devices: []overview.Device{{Name: "numa0", Capacity: 2, Away: true}}, Allocated: []overview.Claim{}}},
		{Name: "c"},
		{Name: "empty", Claims: &overview.Claims{Accounting: overview.Unknown, Devices: []overview.Device{}, Allocated: []overview.Claim{}}},
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if free := nodes[0].Claims.Free(); free != 6 { // numa2 has a claim, and is not published
		t.Errorf("%d CPUs are free; want 6", free)
	}
	if sum := nodes[0].Claims.Sum(); sum != (overview.Device{Capacity: 12, Allocated: 7, Prepared: 6}) {
		t.Errorf("sum is %+v", sum)
	}
}
