package restore

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// NodeReport says what of a Node was taken back.
type NodeReport struct {
	Name      string   `json:"name"`
	Withdrawn []string `json:"withdrawn"`       // resources
	Error     string   `json:"error,omitempty"` // why not
}

// withdraw takes back what the cluster is shown; nil where it is shown nothing.
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
