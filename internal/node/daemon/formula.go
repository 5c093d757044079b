package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
)

func (l *Loop) askFormula() {
	if l.Runtime == nil {
		l.status.formulaAsked = true // there are no containers to weigh
		return
	}
	l.workers.Queries.Submit("formula", func(ctx context.Context) event { return formulaFound{desired.AskFormula(ctx)} })
}

// guesses says that no container has shown the formula yet, and none is configured.
func (l *Loop) guesses() bool {
	return l.settings.Config.WeightFormula == config.WeightAuto && !l.status.formulaSeen
}

// observeWeights settles the question for the formula as soon as a container
// answers it, and says whether it has changed.
func (l *Loop) observeWeights() (changed bool) {
	if !l.guesses() {
		return false
	}
	id, f, ok := desired.FormulaWitness(l.inventory, l.cache.Current, l.journal)
	if !ok {
		return false
	}
	changed = l.formula != f
	l.formula, l.status.formulaSeen = f, true
	l.log.Info("weight formula confirmed", "formula", f, "container", id)
	return changed
}
