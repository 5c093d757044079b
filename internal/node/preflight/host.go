package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Host is the machine that is examined. All fields must be set; [Local] is the
// machine that the process runs on.
type Host struct {
	// Root is the host's file system, rooted at "/".
	Root fs.FS
	// FindRuntime returns the endpoint of the one runtime that answers.
	FindRuntime func(ctx context.Context) (endpoint string, err error)
	// DialRuntime returns a client of the runtime at an endpoint.
	DialRuntime func(endpoint string) (Runtime, error)
	// SystemdVersion asks the manager over D-Bus for its version. A version without
	// AllowedCPUs (before 244) is an error that says so.
	SystemdVersion func(ctx context.Context) (int, error)
	// Units asks the manager what it knows of units, and returns as many answers. A
	// unit that does not exist is no error.
	Units func(ctx context.Context, names []string) []UnitAnswer
	// Writable returns nil when a file can be made in dir, or dir itself can be
	// made.
	Writable func(dir string) error
	// LockHolder returns the process that holds a flock(2) on the file, 0 when
	// there is none. A file that does not exist is held by nobody.
	LockHolder func(file string) (pid int, err error)
}

// UnitAnswer is what the manager knows of a unit, or why it does not tell.
type UnitAnswer struct {
	Unit cgroup.Unit
	Err  error
}

// Runtime is what is asked of a container runtime. *cri.Client is one.
type Runtime interface {
	// Version returns the runtime's name ("containerd", "cri-o") and version.
	Version(ctx context.Context) (name, version string, err error)
	// CgroupDriver returns cri.ErrNotSupported from runtimes that cannot tell.
	CgroupDriver(ctx context.Context) (cri.Driver, error)
	// List returns the pods and containers that there are.
	List(ctx context.Context) ([]cri.Pod, []cri.Container, error)
	Close() error
}

// Configuration is what config.Load returned.
type Configuration struct {
	// File is the name of the file, for messages; empty if there is none.
	File string
	// Config is nil when Err is not.
	Config *config.Config
	// Err is why the file cannot be used. It becomes findings of its own; the host
	// is then examined with the defaults, and the pools are not.
	Err error
}

// maxFile bounds what is read of a file. The largest one known is the kubelet's
// CPU manager state, some 100 bytes a container.
const maxFile = 1 << 20

// readFile reads a whole file of the host; name is absolute. Files of more than
// maxFile bytes are an error.
func readFile(root fs.FS, name string) ([]byte, error) {
	f, err := root.Open(relative(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("read %s: more than %d bytes", name, maxFile)
	}
	return b, nil
}

// readWords reads a file that holds words between blanks, such as
// cgroup.controllers.
func readWords(root fs.FS, name string) ([]string, error) {
	b, err := readFile(root, name)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(b)), nil
}

// relative turns an absolute path of the host into a name below Root.
func relative(name string) string {
	if rel := strings.TrimPrefix(path.Clean("/"+name), "/"); rel != "" {
		return rel
	}
	return "."
}

// cause is the innermost part of a file error, where the message has named the
// file already.
func cause(err error) string {
	if perr, ok := errors.AsType[*fs.PathError](err); ok {
		return perr.Err.Error()
	}
	return err.Error()
}
