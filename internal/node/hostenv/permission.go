package hostenv

import (
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

func PermissionsName(c *config.Config) string {
	return filepath.Join(c.StateDir, nodestatus.PermissionsFile)
}
