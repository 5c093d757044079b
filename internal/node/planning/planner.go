// Package planning holds facts for the plan that are not in the inventory: hints, claims of other
// managers, the weight formula, permissions, and the assignments in force. It makes the input of
// each plan. One goroutine uses a [Planner].
package planning

import (
	"log/slog"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/permission"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/units"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Sources are the values that a [Planner] reads. AskHints asks the kubelet for the NUMA nodes of
// containers.
type Sources struct {
	Host       *hostenv.Host
	Log        *slog.Logger
	Settings   *desired.Settings
	Inventory  *inventory.Inventory
	Cache      *kernelstate.Cache
	Journal    *undo.Journal
	Auxiliary  *auxiliary.Cgroups
	Backoffs   *retry.Backoffs
	Quiet      *quiet.Quiet
	Partitions *partition.Partitions
	Units      *units.Units
	AskHints   func(keys map[pools.Key]bool)

	Hints      *numahints.Hints
	Others     *desired.OtherManagers
	Kubelet    *desired.StaticKubelet
	Formula    *desired.Formula
	Permission *permission.Permission
}

// Planner makes plans.
type Planner struct {
	Sources
	planner     pools.Planner
	assignments []pools.Assignment // in force
}

// New returns a Planner without assignments.
func New(s Sources) *Planner { return &Planner{Sources: s} }

// Decide returns the plan of all pods and units, and the targets of their cgroups.
func (p *Planner) Decide(now time.Time) desired.Decision {
	s := p.Input(now)
	s.Build = p.planner.Build
	return s.Decide()
}

// Input returns the state from which a plan is made. It asks for hints that are missing.
func (p *Planner) Input(now time.Time) desired.Input {
	h, pods := p.Host, p.pods(now)
	if h.Devices != nil {
		if keys, due := p.Hints.Ask(p.Settings.Pools, pods, p.assignments, now); due {
			p.AskHints(keys)
		}
	}
	p.Hints.Apply(pods)
	return desired.Input{Settings: *p.Settings, Inventory: p.Inventory, Pods: pods, Previous: p.assignments, Formula: *p.Formula, Journal: p.Journal, Nodes: h.Nodes, Read: p.Cache.State,
		Leaving: p.Leaving(), System: p.Others.SystemCPUs(p.Inventory, p.Settings), Systemd: h.Units != nil, Resting: p.Quiet.MayRest(p.assignments), Kubelet: *p.Kubelet, Partitions: p.Partitions.Enabled(),
		Contested: p.Backoffs.Contested(now), Namespaces: p.Permission.Rights(), Build: pools.Build, Auxiliary: p.Auxiliary}
}

func (p *Planner) pods(now time.Time) []pools.Pod {
	pods := p.Inventory.Input(now)
	p.Others.Mark(p.Inventory, pods, p.Settings, p.Cache.State)
	return pods
}

// Early returns the plan for replies before the first pass. It contains no exclusive CPUs of the
// journal.
func (p *Planner) Early(now time.Time) pools.Plan {
	in := desired.Input{Settings: *p.Settings, Inventory: p.Inventory, Journal: p.Journal, Pods: p.pods(now), Previous: p.Journal.Assignments(), Namespaces: p.Permission.Rights(), Build: pools.Build}
	return in.Early()
}

// PodInput returns the planner's input for one pod.
func (p *Planner) PodInput(uid string, now time.Time) pools.Pod {
	pods := []pools.Pod{p.Inventory.InputOf(uid, now)}
	p.Others.Mark(p.Inventory, pods, p.Settings, p.Cache.State)
	p.Hints.Apply(pods)
	return pods[0]
}

// LacksHints reports whether the NUMA nodes of a container of the pod count and are unknown.
func (p *Planner) LacksHints(pod pools.Pod) bool {
	return p.Host.Devices != nil && p.Hints.Lacks(p.Settings.Pools, pod, p.assignments)
}

// Leaving returns the CPUs that no owner may get now: the CPUs of units that leave, and the CPUs
// that no cgroup has.
func (p *Planner) Leaving() cpuset.Set {
	all := p.Partitions.Lost()
	for _, a := range p.Units.Leaving() {
		all = all.Union(a.CPUs)
	}
	return all
}

// Assignments returns the exclusive CPUs of all owners.
func (p *Planner) Assignments() []pools.Assignment { return p.assignments }

// Assign replaces the assignments.
func (p *Planner) Assign(all []pools.Assignment) { p.assignments = all }

// Recover takes the assignments from before the start of the daemon.
func (p *Planner) Recover() {
	p.assignments = p.Units.Assign(recovery.Assignments(p.Inventory, p.Cache.State, p.Journal.Assignments(), p.Settings))
}

// RecoverLate adds the assignments of containers that the runtime has reported late.
func (p *Planner) RecoverLate() {
	p.assignments = recovery.Late(p.Inventory, p.Cache.State, p.assignments, p.Settings)
}

// SettleUnits changes the assignments of units that join or leave the configuration.
func (p *Planner) SettleUnits(now time.Time) { p.assignments = p.Units.Settle(p.assignments, now) }

// DiffOptions returns the options of Diff for a plan, with the cgroups of units that leave.
func (p *Planner) DiffOptions(plan pools.Plan) cgroup.Options {
	o := desired.DiffOptions(p.Host, plan)
	o.Leaving = p.Units.LeavingCgroups()
	o.Spare = o.Spare.Difference(p.Partitions.Parked())
	return o
}

// ObserveWeights looks for a container that shows the weight formula. It reports whether the
// formula has changed.
func (p *Planner) ObserveWeights(current func(cgroup.Path) cgroup.Current) (changed bool) {
	before := p.Formula.Value()
	if id, ok := p.Formula.Observe(p.Inventory, current, p.Journal); ok {
		p.Log.Info("weight formula confirmed", "formula", p.Formula.Value(), "container", id)
	}
	return p.Formula.Value() != before
}

// SettleQuiet takes over the changes that a plan and its targets defer, and logs them if they
// differ from the deferrals of the previous pass. The weights of the cgroups in changed have
// changed.
func (p *Planner) SettleQuiet(plan pools.Plan, want []cgroup.Target, changed map[cgroup.Path]bool, now time.Time) {
	news, ended := p.Quiet.Settle(plan, want, changed, now)
	p.Journal.SetResting(p.Quiet.Resting())
	switch {
	case news:
		p.Log.Info("quiet: waits", "cpus", p.Quiet.Resting(), "weights", p.Quiet.Counts()["weights"],
			"until", p.Quiet.Until().Format(time.RFC3339))
	case ended:
		p.Log.Info("quiet: no writes wait")
	}
}

// NoteClaims logs the containers that another manager places, each once.
func (p *Planner) NoteClaims() {
	for c, claim := range p.Others.NewClaims(p.Inventory) {
		p.Log.Info("left to another manager of CPUs", "pod", p.Inventory.PodOf(c).Name(), "container", c.Container.Name, "container_id", c.Container.ID, "manager", claim.By)
	}
}

// Permit replaces the permissions of namespaces.
func (p *Planner) Permit(rights permission.Permission) { *p.Permission = rights }
