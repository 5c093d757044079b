package pools_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/pooltext"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestCheckFindsWhatIsWrong breaks a good plan in one place at a time.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	top := hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 9, Threads: 1}.Topology()
	in := pools.Input{Machine: allocate.New(top)}
	in.Pools = must(must(pooltext.Parse("management 0-1 kube-system\nshared 2-3\nguaranteed 4-8 bind-memory=true\nunit u.service 1\nunit v.service shared\n"))(t).Resolve(top))(t)
	in.Pods = must(parsePods(`
pod a default/a Guaranteed cpu=2
app c1 running 1 cpu=2
pod b default/b Guaranteed cpu=1100m
app c2 running 2 cpu=1
side c3 running 2 cpu=100m
pod c kube-system/c Burstable
annotation target.workload.openshift.io/management {"effect":"PreferredDuringScheduling"}
annotation resources.workload.openshift.io/app {"cpushares":409}
app c4 running 3
pod d default/d Guaranteed cpu=8
app c5 running 4 cpu=4
app2 c6 running 4 cpu=4
`))(t)
	checkedBuild(t, in)
	container := func(p *pools.Plan, pod, i int) *pools.Placement { return &p.Pods[pod].Containers[i] }
	tests := []struct {
		name  string
		spoil func(p *pools.Plan)
		want  string
	}{
		{"nothing", func(*pools.Plan) {}, ""},
		{"assignments overlap", func(p *pools.Plan) { p.Assignments[2].CPUs = cpuset.Of(6) }, "assignment of b/app (6) is empty or not within"},
		{"assignment outside the pool", func(p *pools.Plan) { p.Assignments[2].CPUs = cpuset.Of(3) }, "assignment of b/app (3) is empty or not within"},
		{"empty assignment", func(p *pools.Plan) { p.Assignments[2].CPUs = cpuset.Set{} }, "assignment of b/app () is empty"},
		{"assignments out of order", func(p *pools.Plan) { slices.Reverse(p.Assignments) }, "assignment of a/app is out of order"},
		{"wrong free CPUs", func(p *pools.Plan) { p.Free = cpuset.Set{} }, "free CPUs are ; the assignments and idle CPUs leave 8"},
		{"idle CPUs in use", func(p *pools.Plan) { p.Idle = cpuset.Of(5) }, "idle CPUs 5 are not within what the assignments leave (8)"},
		{"idle CPUs free", func(p *pools.Plan) { p.Idle = cpuset.Of(8) }, "free CPUs are 8; the assignments and idle CPUs leave "},
		{"shared CPUs of an owner", func(p *pools.Plan) { p.Shared = cpuset.Range(2, 4) }, "shared CPUs are 2-4; the assignments leave 2-3"},
		{"no shared CPUs", func(p *pools.Plan) { p.Shared = cpuset.Set{} }, "there are no shared CPUs"},
		{"unit missing", func(p *pools.Plan) { p.Units = p.Units[:1] }, "units differ from the configuration"},
		{"unit elsewhere", func(p *pools.Plan) { p.Units[0].CPUs = cpuset.Of(8) }, "unit u.service is on 8; its part of the guaranteed pool is 4"},
		{"unit shares exclusive CPUs", func(p *pools.Plan) { p.Units[1].CPUs = cpuset.Range(3, 4) }, "share CPU 4, which one of them has exclusively"},
		{"memory of a shared container", func(p *pools.Plan) { container(p, 1, 1).Mems = cpuset.Of(0) }, "memory is bound to 0"},
		{"quota lifted from a shared container", func(p *pools.Plan) { container(p, 1, 1).Unlimited = true }, "has no quota, and no exclusive CPUs"},
		{"quota for one without", func(p *pools.Plan) { container(p, 0, 0).Quota = 5 }, "unlimited true, quota 5, period 0"},
		{"negative quota", func(p *pools.Plan) { p.Pods[2].Quota = -1 }, "pod c: unlimited false, quota -1, period 0"},
		{"refusal of a placed container", func(p *pools.Plan) { container(p, 0, 0).Refused = &allocate.Refusal{} }, "pool guaranteed, reason Exclusive, refusal"},
		{"refused without refusal", func(p *pools.Plan) { container(p, 3, 0).Refused = nil }, "pool shared, reason Refused, refusal <nil>"},
		{"exclusive without assignment", func(p *pools.Plan) { p.Assignments = slices.Delete(p.Assignments, 1, 2) }, "container app (c1) of pod a is on 5-6; its part of the guaranteed pool is "},
		{"no CPUs", func(p *pools.Plan) { container(p, 1, 1).CPUs = cpuset.Set{} }, "container side (c3) of pod b has no CPU"},
		{"shared on exclusive CPUs", func(p *pools.Plan) { container(p, 1, 1).CPUs = cpuset.Range(2, 4) }, "share CPU 4, which one of them has exclusively"},
		{"management elsewhere", func(p *pools.Plan) { container(p, 2, 0).CPUs = cpuset.Of(0) }, "container app (c4) of pod c is on 0; its part of the management pool is 0-1"},
		{"unknown type", func(p *pools.Plan) { container(p, 2, 0).Type = "x" }, "its part of the management pool is "},
		{"type without pool", func(p *pools.Plan) { container(p, 1, 1).Type = "x" }, `container side (c3) of pod b: pool shared, type "x", exclusive false`},
		{"not exclusive", func(p *pools.Plan) { container(p, 0, 0).Exclusive = false }, "pool guaranteed, type \"\", exclusive false"},
		{"shares of a shared container", func(p *pools.Plan) { container(p, 1, 1).Shares = 5 }, "pool shared, 5 shares"},
		{"shares out of range", func(p *pools.Plan) { container(p, 2, 0).Shares = 1 }, "pool management, 1 shares"},
		{"pod shares out of range", func(p *pools.Plan) { p.Pods[2].Shares = 1 << 20 }, "pod c: 1048576 shares"},
		{"no reason", func(p *pools.Plan) { container(p, 1, 1).Reason.Text = "" }, "container side (c3) of pod b has no reason"},
		{"pod without reason", func(p *pools.Plan) { p.Pods[2].Reason = pools.Reason{} }, "pod c: 409 shares, unlimited false, reason \"\""},
		{"quota kept", func(p *pools.Plan) { p.Pods[0].Unlimited = false }, "pod a: unlimited is false, want true"},
		{"pods out of order", func(p *pools.Plan) { slices.Reverse(p.Pods) }, "pods are not sorted"},
		{"problems out of order", func(p *pools.Plan) { slices.Reverse(p.Problems) }, "problems are not sorted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := pools.Build(in)
			tt.spoil(&plan)
			got := fmt.Sprint(invariants.Check(plan, in.Pools))
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "[]") {
				t.Errorf("Check = %s, want %q in it", got, tt.want)
			}
		})
	}
}

// TestCheckBuildFindsWhatIsWrong breaks good plans in the properties that depend on the
// machine and on the previous plan.
func TestCheckBuildFindsWhatIsWrong(t *testing.T) {
	top := hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()
	in := pools.Input{Machine: allocate.New(top)}
	in.Pools = must(must(pooltext.Parse("guaranteed shared floor=3 one-owner-per-core=true\n"))(t).Resolve(top))(t)
	in.Pods = []pools.Pod{podOf(1, 1), podOf(2, 1)}
	checkedBuild(t, in)
	assign := func(p *pools.Plan, i int, cpus cpuset.Set) { p.Assignments[i].CPUs = cpus }
	tests := []struct {
		name     string
		previous string
		spoil    func(p *pools.Plan)
		want     string
	}{
		{"nothing", "", func(*pools.Plan) {}, ""},
		{"two owners in a core", "", func(p *pools.Plan) { assign(p, 1, cpuset.Of(4)) }, "CPU 4 of {pod-0002 app } are in one core"},
		{"not both from before", "pod-0002/app 4", func(p *pools.Plan) { assign(p, 1, cpuset.Of(4)) }, "are in one core"},
		{"nothing idle", "", func(p *pools.Plan) { p.Idle = cpuset.Set{} }, "sibling of CPU 0 of {pod-0001 app }, is not idle"},
		{"too much idle", "", func(p *pools.Plan) { p.Idle = cpuset.Range(4, 6) }, "idle CPUs are 4-6; idle siblings are 4-5"},
		{"idle below the floor", "", func(p *pools.Plan) { p.Shared = cpuset.Of(6, 7) }, "fewer than 3, and 4-5 are idle"},
		{"too much given away", "pod-0001/app 0", func(p *pools.Plan) { p.Shared = cpuset.Of(6, 7) }, "fewer than 3, and owners have 0-1; they had 0"},
		{"more than the total of a pod", "", func(p *pools.Plan) { p.Pods[0].Containers[0].CPUs = cpuset.Of(0, 4) }, "the containers of pod pod-0001 have CPUs 0,4; its total is 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := pools.Build(in)
			tt.spoil(&plan)
			of := in
			of.Previous = must(parseAssignments(tt.previous))(t)
			got := fmt.Sprint(invariants.CheckBuild(plan, of))
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "[]") {
				t.Errorf("CheckBuild = %s, want %q in it", got, tt.want)
			}
		})
	}
}
