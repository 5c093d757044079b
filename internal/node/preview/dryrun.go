package preview

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Preview is what a daemon that started now would do.
type Preview struct {
	Plan     pools.Plan        `json:"plan"`
	Writes   []cgroup.Write    `json:"writes"`
	Deferred []cgroup.Deferred `json:"deferred,omitempty"`
	// Host is what becomes of the host's own services.
	Host []hostslices.Verdict `json:"host,omitempty"`
	// Adapted says what of the configuration is different on this machine from the
	// one that it was accepted on.
	Adapted []string `json:"adapted,omitempty"`
	// Offline are the CPUs that pools would have if they were online.
	Offline cpuset.Set `json:"offline,omitzero"`
	// Unread are objects and cgroups that could not be read, and so have no part
	// in the plan.
	Unread []string `json:"unread,omitempty"`
	// Owners are those who have CPUs of their own, and what the machine gives them;
	// Ends are the cgroups of which a partition would be taken away.
	Owners []OwnerPreview `json:"owners,omitempty"`
	Ends   []cgroup.Path  `json:"partitionsToEnd,omitempty"`
	// BootArguments are those of the kernel's command line that exclusive CPUs lack.
	BootArguments []string `json:"bootArguments,omitempty"`
	// Tuning is what becomes of interrupts and threads of the kernel; nil where nothing is
	// wished, or to be given back.
	Tuning *TunePreview `json:"tuning,omitempty"`
	// Exclusive is who has CPUs of its own, for defrag.Analyse.
	Exclusive defrag.Input `json:"-"`

	Ownership audit.Ownership
	wish      tune.Wish
	elsewhere map[string]string
	Traces    traces
	power     func(power.Machine) (map[tune.Knob]string, []pools.Problem)
}

// DryRun looks at the node and decides as Run would, and writes nothing. It can
// be used while a daemon runs: then it shows what that daemon has left to do.
func DryRun(ctx context.Context, c *config.Config, t *topology.Topology, log *slog.Logger) (Preview, error) {
	h, closeHost, err := hostenv.Open(ctx, c, t)
	if err != nil {
		return Preview{}, err
	}
	defer closeHost()
	var s desired.Settings
	j, err := undo.PeekJournal(h.JournalFile)
	if err != nil {
		log.Warn("journal is not used", "error", err)
	}
	if err := s.Change(c, t, j.Accepted); err != nil {
		return Preview{}, err
	}
	p, err := PreviewOf(ctx, h, s, j, PeekRights(c, log), time.Now())
	if err != nil {
		return Preview{}, err
	}
	return p, previewTuning(ctx, &s, &p)
}

func PreviewOf(ctx context.Context, h hostenv.Host, s desired.Settings, j undo.Document, rights pools.NamespaceRights, now time.Time) (_ Preview, err error) {
	found := inventory.List(ctx, &h, s.UnitNames(), inventory.Limits{Unit: hostenv.CallTimeout, Listing: hostenv.UpdateTimeout}, func(string) bool { return false })
	if found.Err != nil {
		return Preview{}, found.Err
	}
	m := inventory.New(h.Driver)
	found.AsOf = m.Clock
	m.Merge(found)
	for _, u := range found.Units {
		m.PutUnit(u)
	}
	known := undo.New(j)
	if !s.Pools.Kubelet { // as the daemon does
		m.Recall(known.Others)
	}
	previous := recovery.Assignments(m, h.Cgroups.Read, known.Assignments, &s)
	pods := m.Input(now)
	beside := desired.OtherManagers{Crio: found.Crio}
	beside.Mark(m, pods, s.Topology.Online, h.Cgroups.Read)
	numahints.FetchOnce(ctx, &h, m, s.Pools, pods, previous).Apply(pods)
	partitions, _ := s.Partitions(h.Kernel)
	look := desired.Input{Settings: s, Model: m, Pods: pods, Previous: previous, Formula: s.Config.WeightFormula, Ledger: known, Nodes: h.Nodes, Read: h.Cgroups.Read, Partitions: partitions, Namespaces: rights, Build: pools.Build}

	q := quiet.Quiet{On: s.Config.Quiet > 0, Resting: j.Resting}
	look.Resting = q.Rest(previous)
	var unread error
	if look.Kubelet, unread = desired.ReadKubelet(&h, ctx, m); unread != nil {
		found.Failed = append(found.Failed, unread)
	}

	// The formula is observed on the node's containers, which the first plan
	// names; it changes weights only, never CPUs.
	_, want := look.Decide()
	current, gone, unreadable := readAll(h.Cgroups, want, m)
	if look.Formula == config.WeightAuto {
		look.Formula = confirmFormula(ctx, m, current, look.Ledger)
	}
	plan, want := look.Decide()
	want = slices.DeleteFunc(want, func(t cgroup.Target) bool { return slices.Contains(gone, t.Path) || unreadable[t.Path] != nil })

	p := Preview{Plan: plan, Host: look.Verdicts(plan, want), Adapted: s.Adapted, Offline: s.Offline(), Exclusive: look.Fragments(plan)}
	p.Traces = traces{plan, want, current, m, look.Formula}
	p.Ownership = desired.Ownership(plan, m, p.Host, &s)
	p.wish, p.elsewhere = s.Wish(plan, m, &beside)
	p.power = func(machine power.Machine) (map[tune.Knob]string, []pools.Problem) {
		return s.PowerWish(plan, m, &beside, machine)
	}
	p.Writes, p.Deferred = cgroup.Diff(want, current, desired.DiffOptions(&h, plan))
	if p.Owners, p.Ends, err = previewOwners(look, &h, plan, want, current); err != nil {
		p.Unread = append(p.Unread, err.Error())
	}
	var owned cpuset.Set
	for _, o := range p.Owners {
		owned = owned.Union(o.CPUs)
	}
	p.BootArguments = s.BootArguments(h.Boot, owned)
	if h.Boot.Err != nil {
		p.Unread = append(p.Unread, h.Boot.Err.Error())
	}
	for _, err := range found.Failed {
		p.Unread = append(p.Unread, err.Error())
	}
	for _, err := range unreadable {
		p.Unread = append(p.Unread, err.Error())
	}
	slices.Sort(p.Unread)
	return p, nil
}

// readAll reads all of a plan's cgroups at once, for those who look and do not
// stay.
func readAll(fs *cgroup.FS, want []cgroup.Target, m *inventory.Inventory) (map[cgroup.Path]cgroup.Current, []cgroup.Path, map[cgroup.Path]error) {
	t := kernelstate.New(fs.ReadOnly().Reader(), slog.New(slog.DiscardHandler))
	gone, unreadable := t.Refresh(want, m)
	return t.Snapshot(), gone, unreadable
}

// confirmFormula tells the node's formula from its containers, else from the
// OCI runtime's version.
func confirmFormula(ctx context.Context, m *inventory.Inventory, current map[cgroup.Path]cgroup.Current, l *undo.Journal) config.WeightFormula {
	if _, f, ok := desired.FormulaWitness(m, func(p cgroup.Path) cgroup.Current { return current[p] }, l); ok {
		return f
	}
	return desired.AskFormula(ctx).Formula
}
