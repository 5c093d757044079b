package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// permission holds the permissions of namespaces. With the zero value, pools need no
// permission.
type permission struct {
	follower *nodestatus.Namespaces // nil: no permission is needed
	allowed  nodestatus.Allowed
}

// askNamespaces prepares the watch of namespaces. It reads the permissions that an earlier
// daemon has stored, so that running pods keep their CPUs in the first pass.
func (l *Loop) askNamespaces(o Options) error {
	if o.Config.NamespacePermission != config.PermissionAnnotation {
		return nil
	}
	options, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	if err == nil && options == nil {
		err = errors.New("there is no way to an API server: no service account and no node.kubeconfig, or node.enabled is false; set them, or write list")
	}
	if err != nil {
		return fmt.Errorf("namespacePermission: annotation: %w", err)
	}
	follow, err := nodestatus.NewNamespaces(*options, o.Config.Names(), nodestatus.PermissionsPath(o.Config))
	if err != nil {
		o.Log.Warn("only listed namespaces have permissions until the API server answers", "error", err)
	}
	l.permission = permission{follow, follow.Known()}
	return nil
}

// watchNamespaces watches the namespaces until ctx ends.
func (l *Loop) watchNamespaces(ctx context.Context) {
	if f := l.permission.follower; f != nil {
		f.Run(ctx, func(a nodestatus.Allowed) { l.box.Post(permissionsChanged{a}) })
	}
}

// permissionsChanged holds the current permissions of the namespaces.
type permissionsChanged struct{ nodestatus.Allowed }

func (e permissionsChanged) apply(l *Loop) { l.permission.allowed = e.Allowed }

// rights returns the permissions for the planner.
func (p *permission) rights() pools.NamespaceRights {
	return pools.NamespaceRights{Asked: p.follower != nil, Permissions: p.allowed.Permissions, Current: p.allowed.Current}
}

// state returns the state of the watch as a source, and whether it exists.
func (p *permission) state() (telemetry.SourceState, bool) {
	switch {
	case p.follower == nil:
		return "", false
	case p.allowed.Current:
		return telemetry.SourceOK, true
	}
	return telemetry.SourceLost, true
}
