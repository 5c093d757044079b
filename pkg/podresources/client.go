package podresources

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cpupoold/cpupoold/pkg/internal/localgrpc"
)

// maxMessage bounds a reply. It is the bound of the clients in the kubelet's own
// tests; an entry takes about 200 bytes for each device.
const maxMessage = 16 << 20

// Errors for decisions of callers. The errors of List wrap these.
var (
	// ErrUnavailable means that the kubelet does not answer: the socket does not exist, or no
	// kubelet listens on it. It may come back.
	ErrUnavailable = errors.New("the kubelet does not answer")
	// ErrNotSupported means that this kubelet does not have the call: it is older than 1.20,
	// or another program listens.
	ErrNotSupported = errors.New("not supported by the kubelet")
)

// Client talks to the kubelet. It is safe for concurrent use.
type Client struct {
	socket string
	conn   *grpc.ClientConn
	rpc    v1.PodResourcesListerClient
}

// Dial returns a client of the kubelet's socket, an absolute path such as
// /var/lib/kubelet/pod-resources/kubelet.sock. It does not connect: the first
// call does, and a connection that is lost is made again in the background.
func Dial(socket string) (*Client, error) {
	if !path.IsAbs(socket) || strings.ContainsRune(socket, 0) {
		return nil, fmt.Errorf("dial the kubelet at %q: want the absolute path of its pod-resources socket", socket)
	}
	socket = path.Clean(socket)
	conn, err := localgrpc.Dial(socket, maxMessage, nil)
	if err != nil {
		return nil, fmt.Errorf("dial the kubelet at %s: %w", socket, err)
	}
	return &Client{socket: socket, conn: conn, rpc: v1.NewPodResourcesListerClient(conn)}, nil
}

// Close ends the connection and every call in progress.
func (c *Client) Close() error {
	return c.conn.Close()
}

// List returns the containers of the node's active pods, sorted by namespace, pod
// and name, in one call whatever their number. Ordinary init containers are not
// among them: the kubelet leaves them out. A container that the kubelet has just
// admitted is listed before the runtime knows it.
//
// Callers can test for ErrUnavailable, ErrNotSupported, and the errors of
// ctx. The kubelet answers 100 calls a second and refuses more.
func (c *Client) List(ctx context.Context) ([]Container, error) {
	r, err := c.rpc.List(ctx, &v1.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list pod resources of the kubelet at %s: %w", c.socket,
			localgrpc.Error(err, map[codes.Code]error{codes.Unavailable: ErrUnavailable, codes.Unimplemented: ErrNotSupported}))
	}
	return containers(r), nil
}
