package view_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// nodeOf returns the node of a configuration on eight CPUs, with a plan.
func nodeOf(t *testing.T, yaml string, plan pools.Plan) view.Node {
	t.Helper()
	top, err := topology.Read(nodefixture.Sysfs(8))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(yaml), "config.yaml", config.Overrides{}, top)
	if err != nil {
		t.Fatal(err)
	}
	var s desired.Settings
	if err := s.Change(c, top, nil); err != nil {
		t.Fatal(err)
	}
	return view.Node{Settings: &s, Plan: &plan, Planned: true, Objects: inventory.New(cgroup.DriverSystemd).Objects()}
}

// TestDepletion checks the size of the shared pool without the CPUs that it borrows.
func TestDepletion(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		shared     cpuset.Set
		lost       cpuset.Set
		cpus       int
		depleted   bool
	}{
		{"all CPUs", nodefixture.PoolsYAML, cpuset.Of(2, 3), cpuset.Set{}, 2, false},
		{"one is lost", nodefixture.PoolsYAML, cpuset.Of(2, 3), cpuset.Of(3), 1, false},
		{"only CPUs of the guaranteed pool", nodefixture.PoolsYAML, cpuset.Range(4, 7), cpuset.Set{}, 0, true},
		{"CPUs that claims lend", nodefixture.ClaimsYAML, cpuset.Of(2, 5, 6, 7), cpuset.Set{}, 1, false},
		{"fewer than the floor", nodefixture.CarvedYAML + "depletion: {floor: 5}\n", cpuset.Range(2, 5), cpuset.Set{}, 4, true},
	} {
		n := nodeOf(t, c.yaml, pools.Plan{Shared: c.shared})
		n.Lost = c.lost
		if d := n.Depletion(); d.CPUs != c.cpus || d.ClearAfter != time.Minute || (n.Depleted() != nil) != c.depleted {
			t.Errorf("%s: %+v, problem %v; want %d CPUs, depleted %t", c.name, d, n.Depleted(), c.cpus, c.depleted)
		}
	}
}

// TestPools checks that the CPUs of units and lost CPUs are not advertised.
func TestPools(t *testing.T) {
	n := nodeOf(t, nodefixture.PoolsYAML, pools.Plan{Units: []pools.UnitPlan{{Name: "du.service", Exclusive: true, CPUs: cpuset.Of(4)}}})
	n.Lost = cpuset.Of(5)
	got := map[string]int64{}
	for _, p := range n.Pools() {
		got[p.Resource] = p.Milli
	}
	names := n.Settings.Names
	want := map[string]int64{names.SharedResource(): 2000, names.GuaranteedResource(): 2000, names.CoresResource("management"): 8000}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pools (-want +got):\n%s", d)
	}
}

// TestPoolsWithClaims checks that the CPUs for ResourceClaims are advertised in no pool, also if the shared pool
// has them at the moment. CPUs that a claim keeps after a change of the list are in no pool either.
func TestPoolsWithClaims(t *testing.T) {
	const head, lent = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\n", ", idle: shared}}\n"
	held := pools.Plan{Claims: []pools.ClaimPlan{{UID: "c", CPUs: cpuset.Of(5)}}}
	for _, c := range []struct {
		yaml               string
		plan               pools.Plan
		shared, guaranteed int64 // -1 without the resource
		zone               int64 // CPUs for pods in the topology
	}{
		{"guaranteed: {cpus: 4-5, claims: {cpus: 6-7}}\n", pools.Plan{Free: cpuset.Of(4, 5)}, 4000, 2000, 6000},
		{"guaranteed: {cpus: 4-5, claims: {cpus: 6-7" + lent, pools.Plan{Free: cpuset.Of(4, 5), Shared: cpuset.Of(0, 1, 2, 3, 6, 7)}, 4000, 2000, 6000},
		{"guaranteed: {cpus: 4-5, claims: {cpus: 6-7}}\n", held, 4000, 1000, 5000},
		{"guaranteed: {from: shared, claims: {cpus: 6-7}}\n", pools.Plan{Shared: cpuset.Range(0, 5)}, 6000, -1, 6000},
		{"guaranteed: {from: shared, claims: {cpus: 6-7" + lent, pools.Plan{Shared: cpuset.Range(0, 7)}, 6000, -1, 6000},
		{"guaranteed: {from: shared, claims: {cpus: 6-7}}\n", held, 5000, -1, 5000},
		{"guaranteed: {claims: {cpus: 6-7}}\n", pools.Plan{}, 6000, -1, 6000},
	} {
		n := nodeOf(t, head+c.yaml, c.plan)
		got := map[string]int64{"guaranteed": -1}
		for _, p := range n.Pools() {
			got[map[bool]string{true: "shared", false: "guaranteed"}[p.Resource == n.Settings.Names.SharedResource()]] = p.Milli
		}
		for _, z := range n.Topology().Zones {
			got["zone"] += z.Resources["cpu"].Allocatable
		}
		if d := cmp.Diff(map[string]int64{"shared": c.shared, "guaranteed": c.guaranteed, "zone": c.zone}, got); d != "" {
			t.Errorf("%s(-want +got):\n%s", c.yaml, d)
		}
	}
}

// TestPods checks the resource and the request that count a container.
func TestPods(t *testing.T) {
	plan := pools.Plan{Pods: []pools.PodPlan{
		{Name: "static"}, // no scheduler has placed it
		{UID: "u", Containers: []pools.Placement{
			{Name: "POD", Kind: pools.Infra},
			{Name: "own", Pool: pools.Guaranteed, Shares: 2048},
			{Name: "claimed", Pool: pools.Guaranteed, Shares: 2, Claims: []string{"c"}},
			{Name: "no-cpus", Pool: pools.Shared, Shares: 512, Claims: []string{"d"}}, // its claim is refused
			{Name: "web", Pool: pools.Shared, Shares: 512},
			{Name: "waits", Pool: pools.Shared, Shares: 1024, Reason: pools.Reason{Code: pools.CodeWaiting}},
			{Name: "ended", Pool: pools.Shared, Shares: 1024, State: pools.Exited},
		}},
	}}
	for yaml, own := range map[string]string{nodefixture.PoolsYAML: "openshift.io/guaranteed-cpus", nodefixture.CarvedYAML: "openshift.io/shared-cpus"} {
		shared := "openshift.io/shared-cpus"
		want := []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{
			{Name: "own", Resource: own, Milli: 2000, Presumed: true, Annotated: true},
			{Name: "claimed", Presumed: true, Annotated: true, Claimed: true},
			{Name: "no-cpus", Resource: shared, Milli: 500, Presumed: true, Annotated: true},
			{Name: "web", Resource: shared, Milli: 500, Presumed: true, Annotated: true},
			{Name: "waits", Milli: 1000, Presumed: true, Annotated: true},
			{Name: "ended", Presumed: true, Annotated: true},
		}}}
		if d := cmp.Diff(want, nodeOf(t, yaml, plan).Pods()); d != "" {
			t.Errorf("pods (-want +got):\n%s", d)
		}
	}
}

// TestPodsRest checks the resource for CPUs that a pod holds and its containers do not.
func TestPodsRest(t *testing.T) {
	plan := pools.Plan{
		Pods: []pools.PodPlan{{UID: "held"}, {UID: "none"}, {UID: "recorded"}},
		Assignments: []pools.Assignment{
			{Key: pools.Key{Container: "du.service"}, CPUs: cpuset.Of(4)},
			{Key: pools.Key{PodUID: "held"}, CPUs: cpuset.Of(5)},
			{Key: pools.Key{PodUID: "none", Container: "own"}, CPUs: cpuset.Of(6)},
			{Key: pools.Key{PodUID: "recorded"}, Sharers: []string{"app"}},
		},
	}
	for yaml, want := range map[string]string{nodefixture.PoolsYAML: "openshift.io/guaranteed-cpus", nodefixture.CarvedYAML: "openshift.io/shared-cpus"} {
		got := map[string]string{}
		for _, p := range nodeOf(t, yaml, plan).Pods() {
			got[p.UID] = p.Rest
		}
		if d := cmp.Diff(map[string]string{"held": want, "none": "", "recorded": ""}, got); d != "" {
			t.Errorf("rest (-want +got):\n%s", d)
		}
	}
}

// TestPodsTotal checks that containers with the shares of their pod count as its total
// together. The kubelet gives these shares to each container without a request.
func TestPodsTotal(t *testing.T) {
	placement := func(name string, pool pools.Pool) pools.Placement {
		return pools.Placement{ID: name, Name: name, Pool: pool}
	}
	n := nodeOf(t, nodefixture.PoolsYAML, pools.Plan{
		Pods: []pools.PodPlan{{UID: "u", Containers: []pools.Placement{
			placement("first", pools.Guaranteed), placement("own", pools.Guaranteed), placement("second", pools.Guaranteed),
		}}},
		Assignments: []pools.Assignment{{Key: pools.Key{PodUID: "u"}, Sharers: []string{"first", "second"}}},
	})
	const parent = "kubepods-podu.slice"
	m := inventory.New(cgroup.DriverSystemd)
	n.Objects = m.Objects()
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: parent, Resources: cri.Resources{Shares: 4096}}})
	for name, shares := range map[string]uint64{"first": 4096, "own": 1024, "second": 4096} {
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{
			ID: name, PodID: "p", Name: name, CgroupsPath: parent + ":cri-containerd:" + name, Requested: cri.Resources{Shares: shares},
		}})
	}
	got := map[string]int64{}
	for _, c := range n.Pods()[0].Containers {
		got[c.Name] = c.Milli
	}
	if d := cmp.Diff(map[string]int64{"first": 3000, "own": 1000, "second": 0}, got); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
}

// TestRoom checks the largest request that fits, and that it is computed again only after a
// change of owners.
func TestRoom(t *testing.T) {
	var c view.Capacity
	asked := 0
	room := func(n view.Node) *telemetry.Room {
		return c.Room(n, func() []pools.Pod { asked++; return nil })
	}
	n := nodeOf(t, nodefixture.PoolsYAML, pools.Plan{Shared: cpuset.Of(2, 3), Free: cpuset.Range(4, 7)})
	for range 2 {
		if r := room(n); r == nil || r.Pool != 4 || asked != 1 {
			t.Fatalf("room %+v after %d computations; want 4 CPUs and one", r, asked)
		}
	}
	n.Plan.Free = cpuset.Of(6, 7)
	n.Plan.Assignments = []pools.Assignment{{Key: pools.Key{Container: "du.service"}, CPUs: cpuset.Of(4, 5)}}
	if r := room(n); r.Pool != 2 || asked != 2 {
		t.Errorf("room %+v after %d computations; want 2 CPUs and two", r, asked)
	}
	n.Planned = false
	if r := room(n); r != nil {
		t.Errorf("room %+v before the first plan", r)
	}
}
