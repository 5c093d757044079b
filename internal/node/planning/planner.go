// Package planning holds facts for the plan that are not in the inventory: hints, claims of other
// managers, the weight formula, permissions, and the assignments in force. It makes the input of
// each plan. One goroutine uses a [Planner].
package planning

import (
	"log/slog"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/claims"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/permission"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/node/statickubelet"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Sources are the values that a [Planner] reads. AskHints asks the kubelet for the NUMA nodes of
// containers.
type Sources struct {
	Host      *hostenv.Host
	Log       *slog.Logger
	Settings  *desired.Settings
	Objects   *inventory.Objects
	Cache     *kernelstate.Cache
	Journal   *undo.Journal
	Auxiliary *auxiliary.Cgroups
	AskHints  func(keys map[pools.Key]bool)
}

// Facts are facts for the plan that are not in the inventory.
type Facts struct {
	Hints      *numahints.Hints
	Others     desired.OtherManagers
	Kubelet    statickubelet.Kubelet
	Formula    formula.Formula
	Permission permission.Permission
	Quiet      *quiet.Quiet
	Claims     *claims.Claims
}

// Moment holds the state of units, partitions and write conflicts at a time.
type Moment struct {
	Now time.Time
	// Leaving holds the CPUs of units that leave, by cgroup. Lost holds the CPUs that no cgroup
	// has. No owner may get these CPUs.
	Leaving    map[cgroup.Path]cpuset.Set
	Lost       cpuset.Set
	Parked     cpuset.Set             // CPUs in the parking partition
	Partitions bool                   // owners become partitions
	Contested  func(cgroup.Path) bool // nil: no cgroup is in a write conflict
}

// Withheld returns the CPUs that no owner may get.
func (m Moment) Withheld() cpuset.Set {
	all := m.Lost
	for _, cpus := range m.Leaving {
		all = all.Union(cpus)
	}
	return all
}

// Pass holds the decision and the results of the last pass.
type Pass struct {
	desired.Decision
	Planned    bool // a pass has been made
	Began      time.Time
	Deferred   []cgroup.Deferred
	Unreadable map[cgroup.Path]error
}

// Planner makes plans.
type Planner struct {
	Facts
	from        Sources
	planner     pools.Planner
	assignments []pools.Assignment // in force
}

// New returns a Planner without assignments, with the facts of the journal and a configured formula.
func New(s Sources, configured config.WeightFormula) *Planner {
	return &Planner{from: s, Facts: Facts{
		Hints: numahints.New(s.Journal.Facts().Unhinted), Formula: formula.New(configured), Quiet: quiet.New(s.Journal.Facts().Resting),
		Claims: claims.New(s.Journal.Facts().Claims),
	}}
}

// Decide returns the plan of all pods and units, and the targets of their cgroups.
func (p *Planner) Decide(m Moment) desired.Decision {
	s := p.Input(m)
	s.Build = p.planner.Build
	return s.Decide()
}

// Input returns the state from which a plan is made. It asks for hints that are missing.
func (p *Planner) Input(m Moment) desired.Input {
	h, pods := p.from.Host, p.pods(m.Now)
	if h.Devices != nil {
		if keys, due := p.Hints.Ask(p.from.Settings.Pools, pods, p.Claims.All(), p.assignments, m.Now); due {
			p.from.AskHints(keys)
		}
	}
	p.Hints.Apply(pods)
	return desired.Input{Settings: *p.from.Settings, Objects: p.from.Objects, Pods: pods, Previous: p.assignments, Claims: p.Claims.All(), Formula: p.Formula, Originals: p.from.Journal.Originals, Nodes: h.Nodes, Read: p.from.Cache.State,
		Leaving: m.Withheld(), System: p.Others.SystemCPUs(p.from.Objects, p.from.Settings), Systemd: h.Units != nil, Resting: p.Quiet.MayRest(p.assignments), Kubelet: p.Kubelet, Partitions: m.Partitions,
		Contested: m.Contested, Namespaces: p.Permission.Rights(), Build: pools.Build, Auxiliary: p.from.Auxiliary}
}

func (p *Planner) pods(now time.Time) []pools.Pod {
	pods := p.from.Objects.Input(now)
	p.Others.Mark(p.from.Objects, pods, p.from.Settings, p.from.Cache.State)
	return pods
}

// Early returns the plan for replies before the first pass. It contains no exclusive CPUs of the
// journal.
func (p *Planner) Early(now time.Time) pools.Plan {
	in := desired.Input{Settings: *p.from.Settings, Objects: p.from.Objects, Originals: p.from.Journal.Originals, Pods: p.pods(now), Previous: p.from.Journal.Facts().Assignments, Claims: p.Claims.All(), Namespaces: p.Permission.Rights(), Build: pools.Build}
	return in.Early()
}

// PodInput returns the planner's input for one pod.
func (p *Planner) PodInput(uid string, now time.Time) pools.Pod {
	pods := []pools.Pod{p.from.Objects.InputOf(uid, now)}
	p.Others.Mark(p.from.Objects, pods, p.from.Settings, p.from.Cache.State)
	p.Hints.Apply(pods)
	return pods[0]
}

// LacksHints reports whether the NUMA nodes of a container of the pod count and are unknown.
func (p *Planner) LacksHints(pod pools.Pod) bool {
	return p.from.Host.Devices != nil && p.Hints.Lacks(p.from.Settings.Pools, pod, p.Claims.All(), p.assignments)
}

// Assignments returns the exclusive CPUs of all owners.
func (p *Planner) Assignments() []pools.Assignment { return p.assignments }

// Assign replaces the assignments.
func (p *Planner) Assign(all []pools.Assignment) { p.assignments = all }

// Recovered returns the assignments from before the start of the daemon.
func (p *Planner) Recovered() []pools.Assignment {
	return recovery.Assignments(p.from.Objects, p.from.Cache.State, p.from.Journal.Facts().Assignments, p.from.Journal.Facts().Claims, p.from.Settings)
}

// RecoverLate adds the assignments of owners that were reported late.
func (p *Planner) RecoverLate(owners []pools.Key) {
	p.assignments = recovery.Late(p.from.Objects, owners, p.from.Cache.State, p.assignments, p.from.Journal.Facts().Claims, p.from.Settings)
}

// DiffOptions returns the options of Diff for a plan, with the cgroups of units that leave.
func (p *Planner) DiffOptions(plan pools.Plan, m Moment) cgroup.Options {
	o := desired.DiffOptions(p.from.Host, plan)
	o.Leaving = m.Leaving
	o.Spare = o.Spare.Difference(m.Parked)
	return o
}

// ObserveWeights looks for a container that shows the weight formula. It reports whether the
// formula has changed.
func (p *Planner) ObserveWeights(current func(cgroup.Path) cgroup.Current) (changed bool) {
	before := p.Formula.Value()
	if id, ok := p.Formula.Observe(p.from.Objects, current, p.from.Journal.Originals); ok {
		p.from.Log.Info("weight formula confirmed", "formula", p.Formula.Value(), "container", id)
	}
	return p.Formula.Value() != before
}

// SettleQuiet takes over the changes that a plan and its targets defer, and logs them if they
// differ from the deferrals of the previous pass. The weights of the cgroups in changed have
// changed.
func (p *Planner) SettleQuiet(plan pools.Plan, want []cgroup.Target, changed map[cgroup.Path]bool, now time.Time) {
	news, ended := p.Quiet.Settle(plan, want, changed, now)
	p.from.Journal.SetResting(p.Quiet.Resting())
	switch {
	case news:
		p.from.Log.Info("quiet: waits", "cpus", p.Quiet.Resting(), "weights", p.Quiet.Counts()["weights"],
			"until", p.Quiet.Until().Format(time.RFC3339))
	case ended:
		p.from.Log.Info("quiet: no writes wait")
	}
}

// NotePlacings logs the containers that another manager places, each once.
func (p *Planner) NotePlacings() {
	for c, placing := range p.Others.NewPlacings(p.from.Objects) {
		p.from.Log.Info("left to another manager of CPUs", "pod", c.Pod().Name(), "container", c.Container.Name, "container_id", c.Container.ID, "manager", placing.By)
	}
}

// Permit replaces the permissions of namespaces.
func (p *Planner) Permit(rights permission.Permission) { p.Permission = rights }
