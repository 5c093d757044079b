package hostenv

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/topology"
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

// Options are what the daemon is started with.
type Options struct {
	Config   *config.Config
	Topology *topology.Topology
	// ConfigFile is watched; empty means that there is none.
	ConfigFile string
	// Reload reads the configuration again.
	Reload func() (*config.Config, error)
	// Recheck examines the host again when the runtime was not there at the start,
	// before the first write: what it could not tell then may forbid to write.
	// Its error ends Run. Optional.
	Recheck func(context.Context, *config.Config) error
	// Hangup wakes a reload in addition to the watch (SIGHUP).
	Hangup <-chan os.Signal
	// Environment tells of the cluster, where the node is in one.
	Environment Environment
	Build       telemetry.Build
	Log         *slog.Logger
}

// JournalName is the journal's place in the state directory.
func JournalName(c *config.Config) string { return filepath.Join(c.StateDir, "journal.json") }

// EventSource is the part of the CRI client that watches.
type EventSource interface {
	Watch(ctx context.Context, h cri.Handler) error
}

// ReloadSource is the part of the systemd client that watches.
type ReloadSource interface {
	WatchReload(ctx context.Context, wake func()) error
}
