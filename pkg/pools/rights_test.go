package pools_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/pooltext"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TestNamespaceRights checks that lists and annotations both count, the latter only if
// the rights include them.
func TestNamespaceRights(t *testing.T) {
	const ended = 1000
	known := workload.Permissions{
		"annotated": {Types: []string{"management"}},
		"over":      {Ended: map[string]int64{"management": ended}},
	}
	top := hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 1}.Topology()
	spec := must(pooltext.Parse("management 0 listed\n"))(t)
	for name, c := range map[string]struct {
		namespace string
		made      int64
		rights    pools.NamespaceRights
		want      pools.Code // of the problem; empty for none, and a place in the pool
	}{
		"listed":                     {namespace: "listed", rights: pools.NamespaceRights{Asked: true}},
		"annotated":                  {namespace: "annotated", rights: pools.NamespaceRights{Asked: true, Permissions: known, Current: true}},
		"annotated, known of before": {namespace: "annotated", rights: pools.NamespaceRights{Asked: true, Permissions: known}},
		"annotated, not enabled":     {namespace: "annotated", rights: pools.NamespaceRights{Permissions: known, Current: true}, want: pools.CodeNamespaceNotListed},
		"not annotated":              {namespace: "other", rights: pools.NamespaceRights{Asked: true, Permissions: known, Current: true}, want: pools.CodeNamespaceNotListed},
		"not known":                  {namespace: "other", rights: pools.NamespaceRights{Asked: true, Permissions: known}, want: pools.CodeNamespaceUnknown},
		"over, made before":          {namespace: "over", made: ended - 1, rights: pools.NamespaceRights{Asked: true, Permissions: known, Current: true}},
		"over, made then":            {namespace: "over", made: ended, rights: pools.NamespaceRights{Asked: true, Permissions: known, Current: true}, want: pools.CodeNamespaceNotListed},
		"over, being made":           {namespace: "over", rights: pools.NamespaceRights{Asked: true, Permissions: known, Current: true}, want: pools.CodeNamespaceNotListed},
	} {
		pod := pools.Pod{
			UID: "u", Namespace: c.namespace, Name: "p", CreatedAt: c.made, QoS: pools.QoSBurstable,
			Annotations: map[string]string{"target.workload.openshift.io/management": workload.TargetValue},
			Containers:  []pools.Container{{ID: "c", Name: "app", State: pools.Running}},
		}
		plan := pools.Build(pools.Input{Machine: allocate.New(top), Pools: must(spec.Resolve(top))(t), Pods: []pools.Pod{pod}, Namespaces: c.rights})
		var code pools.Code
		for _, p := range plan.Problems {
			code = p.Code
		}
		if in := plan.Pods[0].Containers[0].Pool == pools.Management; code != c.want || in != (c.want == "") {
			t.Errorf("%s: problem %q, in the partition: %t; want %q", name, code, in, c.want)
		}
	}
}
