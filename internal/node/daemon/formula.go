package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/formula"
)

// askFormula asks the OCI runtime for its version.
func (l *Loop) askFormula() {
	if l.Runtime == nil {
		l.planner.Formula.NoteNoRuntime()
		return
	}
	l.workers.Queries.Submit("formula", func(ctx context.Context) event { return formulaFound{formula.Fetch(ctx)} })
}

// formulaFound is the weight formula of the OCI runtime.
type formulaFound struct{ formula.Answer }

func (e formulaFound) apply(l *Loop) {
	if l.planner.Formula.Take(e.Answer) {
		l.log.Info("weight formula", "formula", e.Formula, "oci_runtime", e.Version)
	}
}
