// Package permission holds the permissions of namespaces to use workload types. With
// namespacePermission: annotation, a goroutine follows the annotations of the namespaces.
package permission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Permission holds the permissions of namespaces. With the zero value, pools need no permission.
type Permission struct {
	follower *nodestatus.Namespaces // nil: no permission is needed
	allowed  nodestatus.Allowed
}

// Open returns the permissions that the configuration demands. They begin with the permissions that
// an earlier daemon has stored, so that running pods keep their CPUs in the first pass.
func Open(c *config.Config, e nodestatus.Environment, log *slog.Logger) (Permission, error) {
	if c.NamespacePermission != config.PermissionAnnotation {
		return Permission{}, nil
	}
	options, err := nodestatus.OptionsFor(c, e, log)
	if err == nil && options == nil {
		err = errors.New("there is no way to an API server: no service account and no node.kubeconfig, or node.enabled is false; set them, or write list")
	}
	if err != nil {
		return Permission{}, fmt.Errorf("namespacePermission: annotation: %w", err)
	}
	follow, err := nodestatus.NewNamespaces(*options, c.Names(), nodestatus.PermissionsPath(c))
	if err != nil {
		log.Warn("only listed namespaces have permissions until the API server answers", "error", err)
	}
	return New(follow), nil
}

// New returns the permissions that n reports.
func New(n *nodestatus.Namespaces) Permission { return Permission{n, n.Known()} }

// Run follows the namespaces until ctx ends. It passes each change to changed.
func (p *Permission) Run(ctx context.Context, changed func(nodestatus.Allowed)) {
	if p.follower != nil {
		p.follower.Run(ctx, changed)
	}
}

// Take takes a change.
func (p *Permission) Take(a nodestatus.Allowed) { p.allowed = a }

// Rights returns the permissions for the planner.
func (p *Permission) Rights() pools.NamespaceRights {
	return pools.NamespaceRights{Asked: p.follower != nil, Permissions: p.allowed.Permissions, Current: p.allowed.Current}
}

// State returns the state of the watch as a source, and whether it exists.
func (p *Permission) State() (telemetry.SourceState, bool) {
	switch {
	case p.follower == nil:
		return "", false
	case p.allowed.Current:
		return telemetry.SourceOK, true
	}
	return telemetry.SourceLost, true
}
