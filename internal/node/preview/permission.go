package preview

import (
	"log/slog"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// PeekRights are the rights for those who look and do not stay: what the daemon has
// kept.
func PeekRights(c *config.Config, log *slog.Logger) pools.NamespaceRights {
	if c.NamespacePermission != config.PermissionAnnotation {
		return pools.NamespaceRights{}
	}
	known, err := nodestatus.ReadPermissions(nodestatus.PermissionsPath(c), c.Names())
	if err != nil {
		log.Warn("namespaces that are not listed are taken to allow nothing", "error", err)
	}
	return pools.NamespaceRights{Asked: true, Permissions: known, Current: err == nil}
}
