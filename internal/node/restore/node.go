package restore

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// NodeReport holds the resources that were withdrawn from a Node.
type NodeReport struct {
	Name      string   `json:"name"`
	Withdrawn []string `json:"withdrawn"`       // resources
	Error     string   `json:"error,omitempty"` // why some were not
}

// withdraw removes the daemon's resources from the Node. It returns nil if the daemon does
// not report the node to a cluster.
func withdraw(ctx context.Context, o Options) *NodeReport {
	options, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	switch {
	case err != nil:
		return &NodeReport{Name: o.Config.Node.Name, Error: err.Error()}
	case options == nil:
		return nil
	}
	r := &NodeReport{Name: options.Name}
	if r.Withdrawn, err = nodestatus.Withdraw(ctx, *options, o.Config.Names()); err != nil {
		r.Error = err.Error()
	}
	return r
}
