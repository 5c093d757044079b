package preview

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// PeekRights are the rights for those who look and do not stay: what the daemon has
// kept.
func PeekRights(o hostenv.Options) pools.NamespaceRights {
	if o.Config.NamespacePermission != config.PermissionAnnotation {
		return pools.NamespaceRights{}
	}
	known, err := nodestatus.ReadPermissions(hostenv.PermissionsName(o.Config), o.Config.Names())
	if err != nil {
		o.Log.Warn("namespaces that are not listed are taken to allow nothing", "error", err)
	}
	return pools.NamespaceRights{Asked: true, Permissions: known, Current: err == nil}
}
