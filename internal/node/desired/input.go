package desired

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Input is everything that a decision depends on.
type Input struct {
	Settings  Settings
	Inventory *inventory.Inventory
	Pods      []pools.Pod // of the model, with hints
	Previous  []pools.Assignment
	Formula   config.WeightFormula
	Journal   *undo.Journal
	Nodes     cpuset.Set // NUMA nodes with memory
	Read      func(cgroup.Path) (cgroup.State, error)
	Leaving   cpuset.Set // CPUs of units that have not left them yet
	Systemd   bool       // units are asked for
	Resting   cpuset.Set // CPUs that may stay out of the shared pool
	Kubelet   StaticKubelet

	Partitions bool // owners become partitions
	Namespaces pools.NamespaceRights

	Build func(pools.Input) pools.Plan // pools.Build, or one that has the last plan
}

// Decide is the whole decision, from what is known to what should be.
func (s Input) Decide() (pools.Plan, []cgroup.Target) {
	_, plan, want := s.Consider()
	return plan, want
}

// Consider is decide, and tells what the plan was made from, too.
func (s Input) Consider() (pools.Input, pools.Plan, []cgroup.Target) {
	in := s.input()
	plan := s.Build(in)
	if !plan.Resting.IsEmpty() && s.narrows(plan) {
		in.Resting = cpuset.Set{}
		plan = pools.Build(in)
	}
	want := Targets(plan, s.Inventory, s.Formula, s.Settings.Config.PodSliceWeights, s.Journal.WroteQuota)
	Unbind(want, s.Journal, s.Nodes)
	return in, plan, s.withHost(plan, s.stay(plan, want))
}

// narrows says that an owner gets CPUs that neither rested nor were assigned. Then the
// shared pool has to be written at once, and nothing is spared by what would rest.
func (s Input) narrows(plan pools.Plan) bool {
	return slices.ContainsFunc(plan.Assignments, func(a pools.Assignment) bool { return !a.CPUs.IsSubsetOf(s.Resting) })
}

func (s Input) input() pools.Input {
	return pools.Input{
		Machine:  s.Settings.Machine,
		Pools:    s.placeable(),
		Names:    s.Settings.Names,
		Pods:     s.Pods,
		Previous: s.Previous,
		Held:     s.Kubelet.held,
		Resting:  s.Resting,

		StaticPods: s.Settings.Config.StaticPods,
		Namespaces: s.Namespaces,

		Partitions: s.Partitions,
		Interrupts: s.Settings.Config.Interrupts.Away != config.AwayOff,
	}
}

func DiffOptions(h *hostenv.Host, p pools.Plan) cgroup.Options {
	return cgroup.Options{Driver: h.Driver, Possible: h.Possible, Nodes: h.Nodes, Spare: p.Free.Difference(p.Shared)}
}
