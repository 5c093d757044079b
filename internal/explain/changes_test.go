package explain

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestWorkloadTypeOfANamespace checks that the text names the annotation and the permission that
// are missing.
func TestWorkloadTypeOfANamespace(t *testing.T) {
	const target = `annotation target.workload.openshift.io/management: '{"effect":"PreferredDuringScheduling"}' when the pod is made`
	for _, test := range []struct {
		listed, asked bool
		want          string
	}{
		{true, false, target},
		{false, false, target + ", and namespace apps among the namespaces of partition management"},
		{false, true, target + ", and namespace apps among the namespaces of partition management, or with the type in its annotation workload.openshift.io/allowed"},
	} {
		part := pools.Partition{Type: "management", CPUs: cpuset.Range(0, 1)}
		if test.listed {
			part.Namespaces = []string{"apps"}
		}
		in := &pools.Input{
			Pools:      pools.Pools{Partitions: []pools.Partition{part}, Shared: cpuset.Range(2, 7)},
			Namespaces: pools.NamespaceRights{Asked: test.asked, Current: true},
			Pods: []pools.Pod{{UID: "u", Namespace: "apps", Name: "p", QoS: pools.QoSBurstable, Containers: []pools.Container{
				{ID: "c", Name: "app", State: pools.Running, Resources: pools.Resources{Shares: 512}},
			}}},
		}
		plan := pools.Build(*in)
		var got string
		for _, c := range changes(in, "u", placement(&plan, "c")) {
			if c.Then == "management pool, CPUs 0-1" {
				got = c.What
			}
		}
		if got != test.want {
			t.Errorf("listed %t, asked %t: %q; want %q", test.listed, test.asked, got, test.want)
		}
	}
}
