package daemon

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// event is news for the loop. Every event is a hint or the result of a job: losing any
// source of events costs time and never correctness.
type event interface {
	// scope returns the pass that the event needs. The loop calls it before apply.
	scope(l *Loop) scope
	// apply records the event in the loop's state.
	apply(l *Loop)
}

// ownResult is an event that reports on the daemon's own work, from which nothing new
// about the kubelet's CPUs can follow.
type ownResult interface {
	event
	ownResult()
}

// scope is the part of the node that an event can concern.
type scope int

const (
	scopeNone   scope = iota // no pass is needed
	scopeAnswer              // no input of the plan
	scopeOne                 // at most its pod or cgroup
	scopeAll                 // any pod or cgroup
)

// oneUnless returns scopeAll if all is true, else scopeOne.
func oneUnless(all bool) scope {
	if all {
		return scopeAll
	}
	return scopeOne
}

// runtimeEvent is an event of the runtime's event stream.
type runtimeEvent struct{ cri.Event }

// streamChanged reports the state of the event stream.
type streamChanged struct {
	state cri.StreamState
	err   error
}

// podFetched is the result of fetchPod.
type podFetched struct{ inventory.PodStatus }

// containerFetched is the result of fetchContainer.
type containerFetched struct{ inventory.ContainerStatus }

// written is the result of one write that a worker made.
type written struct {
	write   cgroup.Write
	unit    cgroup.UnitState // the properties in systemd after the write
	err     error
	skipped bool // not made, because it would have restored older CPUs
}

// unitRead holds the systemd properties of a cgroup.
type unitRead struct {
	path cgroup.Path
	unit cgroup.UnitState
}

// saved is the result of writing the journal up to change number upTo.
type saved struct {
	upTo int
	err  error
}

// configLoaded is a configuration that was read again, or the reason why it is refused.
type configLoaded struct {
	config *config.Config
	err    error
}

// systemdReloaded reports that systemd has reloaded its units, and may have reset values that
// it has not recorded.
type systemdReloaded struct{}

func (systemdReloaded) scope(*Loop) scope { return scopeAll }

func (systemdReloaded) apply(l *Loop) {
	l.drifts.reloaded = l.now()
	l.status.reloadsLost = false
	l.cache.InvalidateAll()
	for _, name := range l.settings.UnitNames() {
		l.fetchUnit(name) // the unit may have been installed or removed
	}
	for name := range l.status.away {
		delete(l.status.reverting, name) // the unit may exist again
	}
}

func (unitRead) scope(*Loop) scope { return scopeOne }

func (e unitRead) apply(l *Loop) {
	l.cache.SetUnit(e.path, e.unit)
	delete(l.status.unitAwaited, e.path)
}

func (unitRead) ownResult() {}

// listed is the result of a listing.
type listed struct{ inventory.Listing }

// formulaFound is the weight formula of the OCI runtime.
type formulaFound struct{ desired.FormulaAnswer }

func (formulaFound) scope(*Loop) scope { return scopeAll }

func (e formulaFound) apply(l *Loop) {
	if l.formula.Take(e.FormulaAnswer) {
		l.log.Info("weight formula", "formula", e.Formula, "oci_runtime", e.Version)
	}
}
