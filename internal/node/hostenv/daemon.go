package hostenv

import (
	"context"
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const (
	CgroupRoot = "/sys/fs/cgroup"
)

const (
	ProcRoot = "/proc"
)

const (
	SysRoot = "/sys"
)

// JournalPath is the journal's place in the state directory.
func JournalPath(c *config.Config) string { return filepath.Join(c.StateDir, "journal.json") }

// EventSource is the part of the CRI client that watches.
type EventSource interface {
	Watch(ctx context.Context, h cri.Handler) error
}

// ReloadSource is the part of the systemd client that watches.
type ReloadSource interface {
	WatchReload(ctx context.Context, wake func()) error
}
