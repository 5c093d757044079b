package desired

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/statickubelet"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Input holds all facts that a decision depends on.
type Input struct {
	Settings  Settings
	Objects   *inventory.Objects
	Pods      []pools.Pod // of the inventory, with hints
	Previous  []pools.Assignment
	Claims    []pools.Claim // ResourceClaims that have CPUs
	Formula   formula.Formula
	Originals *undo.Originals
	Nodes     cpuset.Set // NUMA nodes with memory
	Read      func(cgroup.Path) (cgroup.State, error)
	Leaving   cpuset.Set // CPUs on which units still run that lose them
	Systemd   bool       // systemd is available
	Resting   cpuset.Set // CPUs that may stay out of the shared pool in the quiet period
	Kubelet   statickubelet.Kubelet
	// Contested reports whether another process overwrites the cpuset of a cgroup after each
	// repair. Nil means none.
	Contested func(cgroup.Path) bool

	// Auxiliary holds the cgroups in pods that belong to no container. Nil means none.
	Auxiliary *auxiliary.Cgroups

	// System holds the CPUs of the kubelet's system partition.
	System     cpuset.Set
	Partitions bool // owners become partitions
	Namespaces pools.NamespaceRights

	// Build is pools.Build, or a function with the same result that reuses the last plan.
	Build func(pools.Input) pools.Plan
}

// Decision is the desired state of the node.
type Decision struct {
	Input   pools.Input // of the plan
	Plan    pools.Plan
	Targets []cgroup.Target
	Hosts   []hostslices.Verdict // about the units of host services
	Owners  []Owner              // of the plan
	Owned   cpuset.Set           // exclusive CPUs of the plan, with idle siblings
	// Auxiliary are the cgroups in pods that belong to no container.
	Auxiliary []inspect.Auxiliary
	// HasUnread reports whether shared containers have unknown resources. They can be without a target.
	HasUnread bool
}

// Decide returns the desired state of the node.
func (in *Input) Decide() Decision {
	d := Decision{Input: in.plannerInput()}
	d.Plan = in.Build(d.Input)
	// If an owner gets shared CPUs, the daemon writes the shared pool, and resting CPUs save no write.
	takesShared := func(a pools.Assignment) bool { return !a.CPUs.IsSubsetOf(in.Resting) }
	if !d.Plan.Resting.IsEmpty() && slices.ContainsFunc(d.Plan.Assignments, takesShared) {
		d.Input.Resting = cpuset.Set{}
		d.Plan = pools.Build(d.Input)
	}
	d.Owners, d.Owned = ownersOf(d.Plan), d.Plan.Owned()
	want := in.dropUnread(&d, in.Targets(d.Plan))
	d.Auxiliary = in.auxiliary(&d)
	for i := range d.Auxiliary {
		want = append(want, auxiliary.Target(&d.Auxiliary[i]))
	}
	for pod, c := range d.Plan.Containers() {
		if g, ok := in.sandbox(pod, c); ok && !g.CPUs.IsEmpty() {
			d.Auxiliary = append(d.Auxiliary, g)
		}
	}
	d.Hosts = in.Verdicts(d.Plan, want)
	d.Targets = in.addHosts(d.Hosts, want)
	return d
}

func (in *Input) plannerInput() pools.Input {
	return pools.Input{
		Machine:  in.Settings.Machine,
		Pools:    in.availablePools(),
		Names:    in.Settings.Names,
		Pods:     in.podsWithTotals(),
		Previous: in.Previous,
		Claims:   in.Claims,
		Held:     in.Kubelet.Held(),
		Resting:  in.Resting,

		StaticPods: in.Settings.Config.StaticPods,
		Namespaces: in.Namespaces,

		Partitions: in.Partitions,
		Interrupts: in.Settings.Config.Interrupts.Away != config.AwayOff,
	}
}

// podsWithTotals replaces totals that the runtime lacks by the quota of the pod's slice.
func (in *Input) podsWithTotals() []pools.Pod {
	all := in.Pods
	for i := range all {
		if all[i].QoS != pools.QoSGuaranteed || all[i].Resources.Shares != 0 {
			continue
		}
		sandbox := in.Objects.PodByUID(all[i].UID)
		if sandbox == nil {
			continue
		}
		total := pools.Resources{}
		o, _ := in.Originals.Get(undo.Key{Path: sandbox.Slice, File: cgroup.FileMax})
		if _, err := fmt.Sscanf(o.Value, "%d %d", &total.Quota, &total.Period); err != nil || total.Quota <= 0 || total.Period <= 0 {
			continue // no quota
		}
		total.Shares = workload.MilliCPUToShares(total.Quota * 1000 / total.Period)
		all = slices.Clone(all)
		all[i].Resources = total
	}
	return all
}

// Fragments returns the exclusive CPUs of a plan for an analysis of their fragmentation.
func (in *Input) Fragments(plan pools.Plan) defrag.Input {
	return defrag.Input{Machine: in.Settings.Machine, Pool: in.Settings.Pools.Guaranteed, Owners: pools.Owners(in.plannerInput(), plan)}
}

// DiffOptions returns the options for the writes of a plan on a host.
func DiffOptions(h *hostenv.Host, p pools.Plan) cgroup.Options {
	var owned []cpuset.Set // for one Union: each call allocates
	for _, c := range p.Containers() {
		if c.Exclusive || c.InPodPool() {
			owned = append(owned, c.CPUs.Difference(c.Mixed))
		}
	}
	for i := range p.Units {
		if p.Units[i].Exclusive {
			owned = append(owned, p.Units[i].CPUs)
		}
	}
	return cgroup.Options{Driver: h.Driver, Possible: h.Possible, Nodes: h.Nodes, Spare: p.Free.Difference(p.Shared), Owned: cpuset.Set{}.Union(owned...)}
}

// Early returns a plan for containers that start before the inventory is complete. Previous
// are the exclusive CPUs of all owners, also of owners that the inventory lacks. A container
// gets the CPUs of its pool without them. A container that needs exclusive CPUs gets the
// CPUs of the shared pool, and its placement still states that it is exclusive or refused. A placement
// without CPUs means that owners may have all CPUs of its pool.
func (in *Input) Early() pools.Plan {
	var held cpuset.Set
	for _, a := range in.Previous {
		held = held.Union(a.CPUs, a.Away)
	}
	plan := in.Build(in.plannerInput())
	plan.Shared = plan.Shared.Difference(held)
	for _, c := range plan.Containers() {
		if c.Pool == pools.Guaranteed {
			c.CPUs, c.Mixed, c.Mems, c.Unlimited = plan.Shared, cpuset.Set{}, cpuset.Set{}, false
		}
		c.CPUs = c.CPUs.Difference(held)
	}
	return plan
}
