package daemon

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// ownShared are the CPUs that the shared pool has at the moment and that are its own. One
// that has lost all of them runs on those of others, and is no less depleted for that.
func (l *Loop) ownShared() cpuset.Set {
	configured := l.settings.Config.Pools
	others := l.isolation.leaked.Union(configured.Guaranteed.CPUs)
	for _, u := range l.status.plan.Units {
		if u.Exclusive {
			others = others.Union(u.CPUs)
		}
	}
	if configured.StrictReservation {
		for _, p := range configured.Partitions {
			others = others.Union(p.CPUs)
		}
	}
	return l.shared().Difference(others)
}

// depletion is what the cluster's part decides by. The owner's part is the size alone.
func (l *Loop) depletion() *nodestatus.Depletion {
	d := l.settings.Config.Depletion
	return &nodestatus.Depletion{
		CPUs: l.ownShared().Len(), Floor: d.Floor, ClearAfter: d.ClearAfter, Show: d.Shows(), Evict: d.Action == config.DepletionEvict,
	}
}

// depleted is the problem that the shared pool is depleted; nil when it is not.
func (l *Loop) depleted() *pools.Problem {
	d, own := l.settings.Config.Depletion, l.ownShared()
	if own.Len() >= d.Floor {
		return nil
	}
	text := fmt.Sprintf("the shared pool has %d CPUs of its own, and should have %d (depletion.floor); pods without a CPU request have no others", own.Len(), d.Floor)
	if d.Action != config.DepletionWarn && d.DryRun {
		text += fmt.Sprintf("; with depletion.dryRun: false the node would be tainted (depletion.action: %s)", d.Action)
	}
	return &pools.Problem{Reason: pools.Reason{Code: view.CodeDepleted, Text: text}}
}
