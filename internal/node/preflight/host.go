package preflight

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/procroot"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/systemd"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Host is the host to examine. All fields but Topology and Changes must be set. [Local] returns the host of
// this process, without Changes.
type Host struct {
	// Root is the file system of the host, rooted at "/".
	Root fs.FS
	// Topology is the topology of the machine; nil reads it from Root.
	Topology *topology.Topology
	// FindRuntime returns the endpoint of the only runtime that answers.
	FindRuntime func(ctx context.Context) (endpoint string, err error)
	// DialRuntime returns a client for an endpoint.
	DialRuntime func(endpoint string) (Runtime, error)
	// SystemdVersion returns an error for versions without AllowedCPUs (before 244).
	SystemdVersion func(ctx context.Context) (int, error)
	// Units returns one answer for each name. A missing unit is a valid answer.
	Units func(ctx context.Context, names []string) []UnitAnswer
	// Writable returns nil if dir is writable, and by no other user, or if dir can be created.
	Writable func(dir string) error
	// LockHolder returns the process that holds a flock(2) on the file, or 0.
	LockHolder func(file string) (pid int, err error)
	// Claims returns the names of the ResourceClaims that the journal of a configuration has.
	Claims func(*config.Config) []string
	// Changes describes the running containers whose CPUs a daemon would change, in a bounded
	// number of lines. It is called only if runtime and systemd answer and no daemon runs.
	Changes func(ctx context.Context) ([]string, error)
}

// UnitAnswer is the state of a unit, or the error of the query.
type UnitAnswer struct {
	Unit systemd.Unit
	Err  error
}

// Runtime queries a container runtime. *cri.Client implements it.
type Runtime interface {
	// Version returns the name of the runtime ("containerd", "cri-o") and its version.
	Version(ctx context.Context) (name, version string, err error)
	// CgroupDriver returns cri.ErrNotSupported if the runtime does not report it.
	CgroupDriver(ctx context.Context) (cri.Driver, error)
	// List returns the pods and containers of the runtime.
	List(ctx context.Context) ([]cri.Pod, []cri.Container, error)
	Close() error
}

// Configuration is the result of config.Load.
type Configuration struct {
	// File is the name of the file, for messages; empty without a file.
	File string
	// Config is nil if Err is set.
	Config *config.Config
	// Err is the error of the file. It becomes findings. Run then examines the host with the
	// default configuration, and skips the pools.
	Err error
}

// readFile reads a file; name is absolute.
func readFile(root fs.FS, name string) ([]byte, error) {
	return procroot.ReadFile(root, relative(name))
}

// relative returns the name below Root for an absolute path of the host.
func relative(name string) string {
	if rel := strings.TrimPrefix(path.Clean("/"+name), "/"); rel != "" {
		return rel
	}
	return "."
}

// cause returns the innermost message of a file error: findings name the file already.
func cause(err error) string {
	if perr, ok := errors.AsType[*fs.PathError](err); ok {
		return perr.Err.Error()
	}
	return err.Error()
}
