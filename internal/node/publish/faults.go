package publish

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// noteFaults finds the faults that the last pass has left. A write that became due after the
// begin of the pass is no fault: the next pass makes it.
func (p *Publisher) noteFaults(pass *planning.Pass) {
	faults := p.findFaults(pass, pass.Began)
	p.counts.AddPass(faults)
	for at, fault := range faults {
		if p.faults[at] == nil || p.faults[at].Error() != fault.Error() {
			p.Log.Warn("not in the desired state", "cgroup", at, "error", fault)
			p.history.AddAt(p.Objects, at, history.Event{Kind: history.Fault, Error: fault.Error()})
		}
	}
	for at := range p.faults {
		if _, still := faults[at]; !still {
			p.Log.Info("in the desired state again", "cgroup", at)
			p.history.AddAt(p.Objects, at, history.Event{Kind: history.Cleared})
		}
	}
	p.faults = faults
	if len(faults) == 0 && !p.IsWorking(pass.Began) {
		p.lastSuccess = p.Now()
	}
}

// IsWorking reports whether writes are in progress, wait for the journal, or will be repeated
// in a moment.
func (p *Publisher) IsWorking(now time.Time) bool {
	return p.Cache.Writes.HasBusy() || p.Journal.Blocks() || p.Backoffs.AnyWaiting(now)
}

// findFaults returns the cgroups that do not have their desired state, and that no write in
// progress repairs.
func (p *Publisher) findFaults(pass *planning.Pass, now time.Time) map[cgroup.Path]error {
	faults := make(map[cgroup.Path]error)
	if p.Journal.Blocks() {
		return faults // nothing has been written yet
	}
	unconfirmed := make(map[cgroup.Path]bool)
	for e := range p.Objects.Containers() {
		if e.IsUnconfirmed() {
			unconfirmed[e.Path] = true
		}
	}
	unheard := p.Drifts.Unconfirmed()
	busy := func(at cgroup.Path) bool {
		return p.Cache.Writes.IsBusy(at) || p.Backoffs.Waiting(at, now) || unconfirmed[at] || unheard[at] || p.Units.Scopes().IsAwaited(at)
	}
	waits := make(map[cgroup.Path]bool)
	for _, d := range pass.Deferred {
		if p.Quiet.Defers(d.Path, d.Property) {
			continue
		}
		contested := d.Property == cgroup.FileCPUs && p.Backoffs.Confines(d.Path, p.Cache.RunsOutside(pass.Targets), now) // a problem, and not a fault
		if waits[d.Path] = contested || busy(d.Path) || slices.ContainsFunc(d.WaitsFor, busy); !waits[d.Path] {
			faults[d.Path] = p.Backoffs.WaitErr(d)
		}
	}
	for i := range pass.Targets {
		t := &pass.Targets[i]
		c := p.Cache.Current(t.Path)
		if !c.Exists || busy(t.Path) || waits[t.Path] || faults[t.Path] != nil {
			continue
		}
		if p.Quiet.Defers(t.Path, cgroup.FileWeight) {
			later := *t
			later.Weight, t = 0, &later
		}
		if err := errors.Join(cgroup.Verify(*t, c.State), p.Backoffs.Err(t.Path)); err != nil {
			faults[t.Path] = err
		}
	}
	maps.Copy(faults, p.Cache.Threads.Stranded())
	maps.Copy(faults, pass.Unreadable)
	return faults
}
