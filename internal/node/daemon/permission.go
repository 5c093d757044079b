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

// permission is what is known of the namespaces' annotations; the zero value is that
// nobody asks for them.
type permission struct {
	follower *nodestatus.Namespaces // nil: nobody
	allowed  nodestatus.Allowed
}

// askNamespaces makes the goroutine's part ready that follows namespaces. What an
// earlier daemon has heard is known before the first pass: it must not take from pods
// that run what they were given.
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
		o.Log.Warn("namespaces that are not listed allow nothing until the API server answers", "error", err)
	}
	l.permission = permission{follow, follow.Known()}
	return nil
}

// watchNamespaces follows them until ctx ends.
func (l *Loop) watchNamespaces(ctx context.Context) {
	if f := l.permission.follower; f != nil {
		f.Run(ctx, func(a nodestatus.Allowed) { l.box.Post(permissionsChanged{a}) })
	}
}

// permissionsChanged is what namespaces allow now.
type permissionsChanged struct{ nodestatus.Allowed }

func (permissionsChanged) scope(*Loop) scope { return scopeAll }

func (e permissionsChanged) apply(l *Loop) { l.permission.allowed = e.Allowed }

// rights are what pools need of it.
func (p *permission) rights() pools.NamespaceRights {
	return pools.NamespaceRights{Asked: p.follower != nil, Permissions: p.allowed.Permissions, Current: p.allowed.Current}
}

// state is how the source fares, false where there is none.
func (p *permission) state() (telemetry.SourceState, bool) {
	switch {
	case p.follower == nil:
		return "", false
	case p.allowed.Current:
		return telemetry.SourceOK, true
	}
	return telemetry.SourceLost, true
}
