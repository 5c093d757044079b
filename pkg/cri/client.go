package cri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/internal/localgrpc"
)

// maxMessage is the maximum size of a reply, in bytes. The list of pods contains their
// annotations, up to 256 KiB for each: 64 MiB are 250 full pods, and half of the memory limit
// of the DaemonSet. CRI-O 1.34 sends up to 80 MiB (pkg/config, defaultGRPCMaxMsgSize),
// containerd 2.4 up to 16 MiB (defaults.DefaultMaxSendMsgSize). A longer list comes as a
// stream; see List.
const maxMessage = 64 << 20

// Client talks to one runtime. It is safe for concurrent use.
type Client struct {
	conn *grpc.ClientConn
	rpc  runtime.RuntimeServiceClient
	keep func(annotation string) bool

	small, large slots // for replies with a status
}

// Dial returns a client of the runtime at endpoint: unix:///path/to/socket, or
// just the absolute path. It does not connect: the first call does, and a
// connection that is lost is made again in the background.
//
// Pods have the annotations whose names keep reports; nil keeps none. Values of more than
// 1 KiB are cut. If a pod has more than 32 KiB of these annotations, their values are replaced
// by an invalid one. The client calls keep from several goroutines.
func Dial(endpoint string, keep func(annotation string) bool) (*Client, error) {
	socket, isURL := strings.CutPrefix(endpoint, "unix://")
	if !isURL && strings.Contains(endpoint, "://") || !path.IsAbs(socket) || strings.ContainsRune(socket, 0) {
		return nil, fmt.Errorf("dial runtime endpoint %q: not a Unix socket: want unix:///path or an absolute path", endpoint)
	}
	if keep == nil {
		keep = func(string) bool { return false }
	}
	conn, err := localgrpc.Dial(path.Clean(socket), maxMessage, func(reply any, from *mem.Reader) ([]byte, bool, error) {
		return trim(reply, from, keep)
	})
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", endpoint, err)
	}
	return &Client{conn: conn, rpc: runtime.NewRuntimeServiceClient(conn), keep: keep, small: make(slots, smallStatuses), large: make(slots, 1)}, nil
}

// Close ends the connection and every call in progress.
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

// A verbose status contains the environment and the annotations of a container or a pod, so its
// author chooses the size. gRPC holds the whole reply before the client decodes it. So the
// client limits the replies that it receives at the same time: 8 of 1 MiB, and one of 32 MiB.
const (
	smallStatus   = 1 << 20
	smallStatuses = 8
	// largeStatus is enough for 6 MiB, the maximum of the kernel for environment and arguments
	// (3/4 of _STK_LIM, fs/exec.c of Linux 6.12), in the configuration and in the OCI spec.
	largeStatus = 32 << 20
)

// slots limits the calls in progress to its capacity.
type slots chan struct{}

// withLimit returns the reply of a call for a status. If the reply exceeds the limit for small
// replies, gRPC discards it after the first 64 KiB, and the call is repeated alone.
func withLimit[R any](ctx context.Context, c *Client, call func(limit grpc.CallOption) (R, error)) (R, error) {
	r, err := within(ctx, c.small, smallStatus, call)
	if isTooLarge(err) {
		r, err = within(ctx, c.large, largeStatus, call)
	}
	if isTooLarge(err) {
		return r, fmt.Errorf("reply is too large: %w; reduce environment, arguments or annotations, or raise the runtime's limit up to %d bytes "+
			"(containerd: max_send_message_size, CRI-O: grpc_max_send_msg_size)", fromGRPC(err), largeStatus)
	}
	return r, fromGRPC(err)
}

// within makes a call with a limit for the reply, in bytes, when a slot is free.
func within[R any](ctx context.Context, s slots, limit int, call func(limit grpc.CallOption) (R, error)) (r R, err error) {
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		return call(grpc.MaxCallRecvMsgSize(limit))
	case <-ctx.Done():
		return r, ctx.Err()
	}
}

// Stop ends a running container: with its stop signal, and after timeout (in whole
// seconds, rounded up; 0 for at once) by force. It waits for the end, so ctx has to
// allow for more than timeout. The kubelet finds the container exited, as if it had
// ended without Stop, and restarts it according to the pod's restartPolicy.
//
// If the container has exited already or no longer exists, Stop returns nil: CRI requires
// the call to be idempotent. For a container that was created and not started, containerd
// returns no error and does nothing.
func (c *Client) Stop(ctx context.Context, id string, timeout time.Duration) error {
	if timeout < 0 {
		return fmt.Errorf("stop container %s: timeout %v is negative", id, timeout)
	}
	_, err := c.rpc.StopContainer(ctx, &runtime.StopContainerRequest{
		ContainerId: id,
		Timeout:     int64((timeout + time.Second - 1) / time.Second),
	})
	if err = fromGRPC(err); err == nil || errors.Is(err, ErrNotFound) {
		return nil
	}
	return fmt.Errorf("stop container %s: %w", id, err)
}

// Errors for decisions of callers. The errors of this package wrap these.
var (
	// ErrNotFound means that the runtime does not know the pod or container, or no longer
	// knows it.
	ErrNotFound = errors.New("not found")
	// ErrNotRunning means that the container exists, but has exited.
	ErrNotRunning = errors.New("not running")
	// ErrNotSupported means that this runtime does not have the call.
	ErrNotSupported = errors.New("not supported by the runtime")
	// ErrUnavailable means that no runtime answers: it is stopped, or it restarts.
	ErrUnavailable = errors.New("the runtime does not answer")
)

// InfoError means that the verbose part of a status, which CRI does not specify,
// is missing or malformed. The Pod or Container that comes with it is valid; fields that
// could not be read are zero.
type InfoError struct {
	Kind  string // "pod" or "container"
	ID    string
	Field string // path in the info document, such as runtimeSpec.linux.cgroupsPath
	Err   error
}

func (e *InfoError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("read verbose info of %s %s: %v", e.Kind, e.ID, e.Err)
	}
	return fmt.Sprintf("read %s in verbose info of %s %s: %v", e.Field, e.Kind, e.ID, e.Err)
}

// Unwrap returns the cause.
func (e *InfoError) Unwrap() error { return e.Err }

// fromGRPC replaces the status codes that callers decide on by the errors of this
// package.
func fromGRPC(err error) error {
	return localgrpc.Error(err, map[codes.Code]error{
		codes.NotFound: ErrNotFound, codes.Unimplemented: ErrNotSupported, codes.Unavailable: ErrUnavailable,
	})
}
