package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/audit"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/durable"
	services "github.com/cpupoold/cpupoold/internal/host"
	"github.com/cpupoold/cpupoold/internal/power"
	"github.com/cpupoold/cpupoold/internal/tune"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Preview is what a daemon that started now would do.
type Preview struct {
	Plan     pools.Plan        `json:"plan"`
	Writes   []cgroup.Write    `json:"writes"`
	Deferred []cgroup.Deferred `json:"deferred,omitempty"`
	// Host is what becomes of the host's own services.
	Host []services.Verdict `json:"host,omitempty"`
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

	ownership audit.Ownership
	wish      tune.Wish
	elsewhere map[string]string
	traces    traces
	power     func(power.Machine) (map[tune.Knob]string, []pools.Problem)
}

// DryRun looks at the node and decides as Run would, and writes nothing. It can
// be used while a daemon runs: then it shows what that daemon has left to do.
func DryRun(ctx context.Context, o Options) (Preview, error) {
	h, closeHost, err := openHost(ctx, o.Config, o.Topology)
	if err != nil {
		return Preview{}, err
	}
	defer closeHost()
	var s settings
	j, err := peekJournal(h.journal)
	if err != nil {
		o.Log.Warn("journal is not used", "error", err)
	}
	if err := s.change(o.Config, o.Topology, j.Accepted); err != nil {
		return Preview{}, err
	}
	p, err := preview(ctx, h, s, j, peekRights(o), time.Now())
	if err != nil {
		return Preview{}, err
	}
	return p, previewTuning(ctx, o, &p)
}

func preview(ctx context.Context, h host, s settings, j Journal, rights pools.NamespaceRights, now time.Time) (_ Preview, err error) {
	found := census(ctx, &h, s.unitNames(), limits{callTimeout, updateTimeout}, func(string) bool { return false })
	if found.err != nil {
		return Preview{}, found.err
	}
	m := newModel(h.driver)
	found.asOf = m.clock
	m.merge(found)
	for _, u := range found.units {
		m.putUnit(u)
	}
	known := newLedger(j)
	if !s.pools.Kubelet { // as the daemon does
		m.recall(known.others)
	}
	previous := recoverAssignments(m, h.cgroups.Read, known.assignments, &s)
	hints := newHints(nil)
	pods := m.input(now)
	beside := others{crio: found.crio}
	beside.mark(m, pods, s.topology.Online, h.cgroups.Read)
	h.hint(ctx, hints, s.pools, pods, previous)
	hints.apply(pods)
	partitions, _ := s.partitions(h.kernel)
	look := scene{settings: s, model: m, pods: pods, previous: previous, formula: s.config.WeightFormula, ledger: known, nodes: h.nodes, read: h.cgroups.Read, partitions: partitions, namespaces: rights, build: pools.Build}

	q := quiet{on: s.config.Quiet > 0, resting: j.Resting}
	look.resting = q.rest(previous)
	var unread error
	if look.kubelet, unread = h.readKubelet(ctx, m); unread != nil {
		found.failed = append(found.failed, unread)
	}

	// The formula is observed on the node's containers, which the first plan
	// names; it changes weights only, never CPUs.
	_, want := look.decide()
	current, gone, unreadable := readAll(h.cgroups, want, m)
	if look.formula == config.WeightAuto {
		look.formula = confirmFormula(ctx, m, current, look.ledger)
	}
	plan, want := look.decide()
	want = slices.DeleteFunc(want, func(t cgroup.Target) bool { return slices.Contains(gone, t.Path) || unreadable[t.Path] != nil })

	p := Preview{Plan: plan, Host: look.verdicts(plan, want), Adapted: s.adapted, Offline: s.offline(), Exclusive: look.fragments(plan)}
	p.traces = traces{plan, want, current, m, look.formula}
	p.ownership = ownership(plan, m, p.Host, &s)
	p.wish, p.elsewhere = s.wish(plan, m, &beside)
	p.power = func(machine power.Machine) (map[tune.Knob]string, []pools.Problem) {
		return s.powerWish(plan, m, &beside, machine)
	}
	p.Writes, p.Deferred = cgroup.Diff(want, current, h.diffOptions(plan))
	if p.Owners, p.Ends, err = look.previewOwners(&h, plan, want, current); err != nil {
		p.Unread = append(p.Unread, err.Error())
	}
	var owned cpuset.Set
	for _, o := range p.Owners {
		owned = owned.Union(o.CPUs)
	}
	p.BootArguments = s.bootArguments(h.boot, owned)
	if h.boot.err != nil {
		p.Unread = append(p.Unread, h.boot.err.Error())
	}
	for _, err := range found.failed {
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
func readAll(fs *cgroup.FS, want []cgroup.Target, m *model) (map[cgroup.Path]cgroup.Current, []cgroup.Path, map[cgroup.Path]error) {
	t := newTree(fs.Read)
	gone, unreadable := t.refresh(want, m)
	return t.current, gone, unreadable
}

// confirmFormula tells the node's formula from its containers, else from the
// OCI runtime's version.
func confirmFormula(ctx context.Context, m *model, current map[cgroup.Path]cgroup.Current, l *ledger) config.WeightFormula {
	if _, f, ok := witness(m, current, l); ok {
		return f
	}
	return askFormula(ctx).formula
}

// peekJournal reads the journal of this boot without setting a bad one aside.
func peekJournal(name string) (Journal, error) {
	bootID, err := readBootID()
	if err != nil {
		return Journal{}, err
	}
	b, err := durable.Read(name, journalLimit)
	if err != nil {
		return Journal{BootID: bootID}, ignoreMissing(err)
	}
	j, err := decodeJournal(b)
	if err != nil {
		return Journal{BootID: bootID}, fmt.Errorf("%s: %w", name, err)
	}
	return j.of(bootID), nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
