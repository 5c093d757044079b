package cri

import (
	"context"
	"fmt"
	"path"
	"strings"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/internal/localgrpc"
)

// maxMessage bounds a reply. It is the kubelet's bound: a list that exceeds it
// breaks the node before it breaks cpupoold.
const maxMessage = 16 << 20

// Client talks to one runtime. It is safe for concurrent use.
type Client struct {
	conn *grpc.ClientConn
	rpc  runtime.RuntimeServiceClient
}

// Dial returns a client of the runtime at endpoint: unix:///path/to/socket, or
// just the absolute path. It does not connect: the first call does, and a
// connection that is lost is made again in the background.
func Dial(endpoint string) (*Client, error) {
	socket, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := localgrpc.Dial(socket, maxMessage)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", endpoint, err)
	}
	return &Client{conn: conn, rpc: runtime.NewRuntimeServiceClient(conn)}, nil
}

// Close ends the connection and every call that is under way.
func (c *Client) Close() error {
	return c.conn.Close()
}

// Version returns the runtime's name ("containerd", "cri-o") and version.
func (c *Client) Version(ctx context.Context) (name, version string, err error) {
	r, err := c.rpc.Version(ctx, &runtime.VersionRequest{})
	if err != nil {
		return "", "", fmt.Errorf("read runtime version: %w", fromGRPC(err))
	}
	return r.GetRuntimeName(), r.GetRuntimeVersion(), nil
}

// Driver is the way in which the runtime makes cgroups.
type Driver string

// The two drivers of the kubelet and the runtimes.
const (
	Systemd  Driver = "systemd"
	Cgroupfs Driver = "cgroupfs"
)

// CgroupDriver returns the runtime's cgroup driver (CRI RuntimeConfig; KEP-4033).
// containerd before 2.0 and CRI-O before 1.28 do not have the call: the error
// is ErrNotSupported, and the cgroup tree has to tell.
func (c *Client) CgroupDriver(ctx context.Context) (Driver, error) {
	r, err := c.rpc.RuntimeConfig(ctx, &runtime.RuntimeConfigRequest{})
	if err != nil {
		return "", fmt.Errorf("read cgroup driver: %w", fromGRPC(err))
	}
	if r.GetLinux() == nil {
		return "", fmt.Errorf("read cgroup driver: %w: the reply has no linux part", ErrNotSupported)
	}
	switch d := r.GetLinux().GetCgroupDriver(); d {
	case runtime.CgroupDriver_SYSTEMD:
		return Systemd, nil
	case runtime.CgroupDriver_CGROUPFS:
		return Cgroupfs, nil
	default:
		return "", fmt.Errorf("read cgroup driver: %w: driver %d", ErrNotSupported, d)
	}
}

func socketPath(endpoint string) (string, error) {
	p, isURL := strings.CutPrefix(endpoint, "unix://")
	if !isURL && strings.Contains(endpoint, "://") || !path.IsAbs(p) || strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("dial runtime endpoint %q: not a Unix socket: want unix:///path or an absolute path", endpoint)
	}
	return path.Clean(p), nil
}
