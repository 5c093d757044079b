package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/desired"
)

// askFormula asks the OCI runtime for its version.
func (l *Loop) askFormula() {
	if l.Runtime == nil {
		l.formula.NoteNoRuntime()
		return
	}
	l.workers.Queries.Submit("formula", func(ctx context.Context) event { return formulaFound{desired.FetchFormula(ctx)} })
}

// observeWeights looks for a container that shows the weight formula. It reports whether the
// formula has changed.
func (l *Loop) observeWeights() (changed bool) {
	before := l.formula.Value()
	if id, ok := l.formula.Observe(l.inventory, l.cache.Current, l.journal); ok {
		l.log.Info("weight formula confirmed", "formula", l.formula.Value(), "container", id)
	}
	return l.formula.Value() != before
}

// formulaFound is the weight formula of the OCI runtime.
type formulaFound struct{ desired.FormulaAnswer }

func (e formulaFound) apply(l *Loop) {
	if l.formula.Take(e.FormulaAnswer) {
		l.log.Info("weight formula", "formula", e.Formula, "oci_runtime", e.Version)
	}
}
