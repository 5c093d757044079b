package daemon

import (
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// newCluster returns the goroutine that shows the node to its cluster, or nil.
func newCluster(o Options) (*nodestatus.Runner, error) {
	options, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	if err != nil || options == nil {
		return nil, err
	}
	o.Log.Info("the node's pools are shown to its cluster", "node", options.Name, "access", options.Access.String())
	return nodestatus.New(*options), nil
}

// permissionsChanged holds the current permissions of the namespaces.
type permissionsChanged struct{ nodestatus.Allowed }

func (e permissionsChanged) apply(l *Loop) { l.planner.Permission.Take(e.Allowed) }
