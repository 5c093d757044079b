package daemon

import (
	"github.com/cpupoold/cpupoold/internal/node/clusterstate"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// joinCluster prepares the goroutine that shows the node to its cluster.
func (l *Loop) joinCluster(o Options) error {
	options, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	if err != nil || options == nil {
		return err
	}
	o.Log.Info("the node's pools are shown to its cluster", "node", options.Name, "access", options.Access.String())
	l.cluster = nodestatus.New(*options)
	return nil
}

// permissionsChanged holds the current permissions of the namespaces.
type permissionsChanged struct{ nodestatus.Allowed }

func (e permissionsChanged) apply(l *Loop) { l.permission.Take(e.Allowed) }

// showCluster hands the state of the node to that goroutine. It never waits.
func (l *Loop) showCluster() {
	if l.cluster != nil && l.status.planned {
		facts := l.clusterFacts()
		l.cluster.Show(facts.State())
	}
}

// clusterFacts returns the results of the last pass for the cluster.
func (l *Loop) clusterFacts() clusterstate.Facts {
	return clusterstate.Facts{
		Node: l.node(), Ready: l.status.ready, Observes: l.Observes, Problems: l.problems(), Faults: l.status.faults,
		Runtime: l.status.runtimeErr, Config: l.status.configErr, Unwritten: len(l.status.unwritten),
	}
}

// viewWithCluster returns the published metrics with the present state of the connection to
// the cluster.
func (l *Loop) viewWithCluster() *telemetry.View {
	v := l.snapshot.Load()
	if v == nil || l.cluster == nil {
		return v
	}
	return clusterstate.WithStats(v, l.cluster.Stats())
}

// viewWithAudit returns the published view with the results of the audit.
func (l *Loop) viewWithAudit() *telemetry.View {
	v, found := l.viewWithCluster(), l.auditor.Result()
	if v == nil || found == nil {
		return v
	}
	all := *v
	all.Audit = found
	return &all
}
