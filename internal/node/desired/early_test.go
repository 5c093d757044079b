package desired_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestEarly checks the CPUs of a container in a plan from an incomplete inventory. They lack the
// exclusive CPUs of all owners. A container that needs exclusive CPUs gets CPUs of the shared
// pool.
func TestEarly(t *testing.T) {
	pod := func(namespace string, qos pools.QoS, r pools.Resources) pools.Pod {
		return pools.Pod{UID: "new", Namespace: namespace, Name: "new", QoS: qos, Resources: r,
			Containers: []pools.Container{{ID: "c", Name: "app", Kind: pools.App, Resources: r}}}
	}
	two := pools.Resources{Shares: 2048, Quota: 200_000, Period: 100_000}
	shared := pod("default", pools.QoSBurstable, pools.Resources{Shares: 512})
	exclusive := pod("default", pools.QoSGuaranteed, two)
	management := pod("kube-system", pools.QoSBurstable, pools.Resources{Shares: 2})
	management.Annotations = nodefixture.Management(nil)
	owner := func(uid string, cpus, away cpuset.Set) []pools.Assignment {
		return []pools.Assignment{{Key: pools.Key{PodUID: uid, Container: "app"}, CPUs: cpus, Away: away}}
	}
	none := cpuset.Set{}
	large := pod("default", pools.QoSGuaranteed, pools.Resources{Shares: 5120, Quota: 500_000, Period: 100_000})
	exclusiveMixed := exclusive
	exclusiveMixed.Annotations = nodefixture.MixedAnnotations()
	machine, err := topology.Read(nodefixture.Sysfs(8))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		yaml      string
		pod       pools.Pod
		previous  []pools.Assignment
		cpus      string
		pool      string // the CPUs of the shared pool
		exclusive bool
		refused   bool
	}{
		"shared":                            {nodefixture.PoolsYAML, shared, nil, "2-3", "2-3", false, false},
		"shared, carved":                    {nodefixture.CarvedYAML, shared, nil, "2-7", "2-7", false, false},
		"beside an owner":                   {nodefixture.PoolsYAML, shared, owner("old", cpuset.Of(4, 5), none), "2-3", "2-3", false, false},
		"beside an owner, carved":           {nodefixture.CarvedYAML, shared, owner("old", cpuset.Of(2, 3), none), "4-7", "4-7", false, false},
		"beside CPUs that are offline":      {nodefixture.CarvedYAML, shared, owner("old", cpuset.Of(2), cpuset.Of(7)), "3-6", "3-6", false, false},
		"owners have the whole pool":        {nodefixture.CarvedYAML, shared, owner("old", cpuset.Range(2, 7), none), "", "", false, false},
		"owner of CPUs that are shared now": {nodefixture.PoolsYAML, shared, owner("old", cpuset.Of(3, 4), none), "2", "2", false, false},
		"exclusive":                         {nodefixture.PoolsYAML, exclusive, nil, "2-3", "2-3", true, false},
		"exclusive, carved":                 {nodefixture.CarvedYAML, exclusive, owner("old", cpuset.Of(4, 5), none), "6-7", "6-7", true, false},
		"exclusive, the next instance":      {nodefixture.CarvedYAML, exclusive, owner("new", cpuset.Of(4, 5), none), "2-3,6-7", "2-3,6-7", true, false},
		"exclusive with shared CPUs":        {nodefixture.WithMixed(nodefixture.PoolsYAML, "2"), exclusiveMixed, nil, "2-3", "2-3", true, false},
		"refused":                           {nodefixture.PoolsYAML, large, nil, "2-3", "2-3", false, true},
		"refused, carved":                   {nodefixture.CarvedYAML, large, owner("old", cpuset.Range(2, 4), none), "5-7", "5-7", false, true},
		"management":                        {nodefixture.PoolsYAML, management, owner("old", cpuset.Of(4, 5), none), "0-1", "2-3", false, false},
		"owner of CPUs of management now":   {nodefixture.PoolsYAML, management, owner("old", cpuset.Of(1, 4), none), "0", "2-3", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var settings desired.Settings
			if _, err := settings.Begin(parse(t, c.yaml), machine, nil); err != nil {
				t.Fatal(err)
			}
			in := desired.Input{Settings: settings, Objects: inventory.New(cgroup.DriverSystemd).Objects(), Originals: undo.Document{}.Journal().Originals,
				Pods: []pools.Pod{c.pod}, Previous: c.previous, Build: pools.Build}
			plan := in.Early()
			p := plan.Pods[0].Containers[0]
			if p.CPUs.String() != c.cpus || !p.Mixed.IsEmpty() || plan.Shared.String() != c.pool {
				t.Errorf("CPUs %q and %q, shared pool %q; want %q, none and %q", p.CPUs, p.Mixed, plan.Shared, c.cpus, c.pool)
			}
			if p.Exclusive != c.exclusive || (p.Refused != nil) != c.refused {
				t.Errorf("exclusive: %t, refused: %v; want %t, %t", p.Exclusive, p.Refused, c.exclusive, c.refused)
			}
		})
	}
}
