package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Preview is what a daemon that started now would do.
type Preview struct {
	Plan     pools.Plan        `json:"plan"`
	Writes   []cgroup.Write    `json:"writes"`
	Deferred []cgroup.Deferred `json:"deferred,omitempty"`
	// Unread are objects and cgroups that could not be read, and so have no part
	// in the plan.
	Unread []string `json:"unread,omitempty"`
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
	if err := s.change(o.Config, o.Topology); err != nil {
		return Preview{}, err
	}
	j, err := peekJournal(h.journal)
	if err != nil {
		o.Log.Warn("journal is not used", "error", err)
	}
	return preview(ctx, h, s, j, time.Now())
}

func preview(ctx context.Context, h host, s settings, j Journal, now time.Time) (Preview, error) {
	found := census(ctx, h.runtime, h.units, h.driver, func(string) bool { return false })
	if found.err != nil {
		return Preview{}, found.err
	}
	m := newModel(h.driver)
	found.asOf = m.clock
	m.merge(found)
	previous := recoverAssignments(m, h.cgroups.Read, fromRecords(j.Assignments), s.pools.Guaranteed)

	// The formula is observed on the node's containers, which the first plan
	// names; it changes weights only, never CPUs.
	formula := s.config.WeightFormula
	_, want := decide(s, m, previous, formula, now)
	current, gone, unreadable := readAll(h.cgroups, want, m)
	if formula == config.WeightAuto {
		formula = confirmFormula(ctx, m, current, newLedger(j))
	}
	plan, want := decide(s, m, previous, formula, now)
	want = slices.DeleteFunc(want, func(t cgroup.Target) bool { return slices.Contains(gone, t.Path) || unreadable[t.Path] != nil })

	p := Preview{Plan: plan}
	p.Writes, p.Deferred = cgroup.Diff(want, current, cgroup.Options{Driver: h.driver, Possible: h.possible, Spare: plan.Free})
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
	b, err := readBounded(name, journalLimit)
	if err != nil {
		return Journal{BootID: bootID}, ignoreMissing(err)
	}
	j, err := decodeJournal(b)
	if err != nil {
		return Journal{BootID: bootID}, fmt.Errorf("%s: %w", name, err)
	}
	if j.BootID != bootID {
		return Journal{BootID: bootID}, nil
	}
	return j, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
