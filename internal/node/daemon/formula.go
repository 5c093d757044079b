package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/desired"
)

func (l *loop) askFormula() {
	if l.Runtime == nil {
		l.status.formulaAsked = true // there are no containers to weigh
		return
	}
	l.Asks.Submit("formula", func(ctx context.Context) actor.Event { return desired.AskFormula(ctx) })
}

// guesses says that no container has shown the formula yet, and none is configured.
func (l *loop) guesses() bool {
	return l.settings.Config.WeightFormula == config.WeightAuto && !l.status.formulaSeen
}

// observeWeights settles the question for the formula as soon as a container
// answers it, and says whether it has changed.
func (l *loop) observeWeights() (changed bool) {
	if !l.guesses() {
		return false
	}
	id, f, ok := desired.Witness(l.model, l.tree.Current, l.ledger)
	if !ok {
		return false
	}
	changed = l.formula != f
	l.formula, l.status.formulaSeen = f, true
	l.log.Info("weight formula confirmed", "formula", f, "container", id)
	return changed
}
