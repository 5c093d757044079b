package podresources

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
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
	// ErrNoKubelet is ErrUnavailable without a socket. If there has never been one, the node may have
	// no kubelet.
	ErrNoKubelet = fmt.Errorf("%w: no kubelet serves PodResources here", ErrUnavailable)
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
// Callers can test for ErrUnavailable, ErrNoKubelet, ErrNotSupported, and the errors of
// ctx. The kubelet answers 100 calls a second and refuses more.
func (c *Client) List(ctx context.Context) ([]Container, error) {
	if _, err := os.Stat(c.socket); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list pod resources of the kubelet: %w: %w", ErrNoKubelet, err)
	}
	r, err := c.rpc.List(ctx, &v1.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list pod resources of the kubelet at %s: %w", c.socket,
			localgrpc.Error(err, map[codes.Code]error{codes.Unavailable: ErrUnavailable, codes.Unimplemented: ErrNotSupported}))
	}
	return containers(r), nil
}

// CPUState is the state of the kubelet's CPU manager: its file
// cpu_manager_state (pkg/kubelet/cm/cpumanager/state/checkpoint.go).
type CPUState struct {
	Policy   string     // never empty: static, none, or an unknown policy.
	Default  cpuset.Set // CPUs of all containers without exclusive CPUs; empty with every policy except static.
	Holdings []Holding  // sorted by pod and container, no two of one name
}

// Holding are CPUs that the kubelet has allocated to one container. Container is "" for CPUs
// of a whole pod, whose containers share them (KEP-5526).
type Holding struct {
	PodUID, Container string
	CPUs              cpuset.Set // never empty
}

// cpuData are the fields about CPUs, which versions 2 and 3 of the file have
// at the top and version 4 within data.
type cpuData struct {
	PolicyName    string                     `json:"policyName"`
	DefaultCPUSet string                     `json:"defaultCpuSet"`
	Entries       map[string]json.RawMessage `json:"entries"`
	PodEntries    map[string]struct {
		CPUSet string `json:"cpuSet"`
	} `json:"podEntries"`
}

// ParseCPUState reads a cpu_manager_state of version 2 (Kubernetes 1.18 to 1.36), 3
// (1.36 with PodLevelResourceManagers) or 4 (1.37). In version 4 data counts, and the other
// fields are for older kubelets. Version 1 has containers by their ids; it
// is accepted if it has no containers. The checksums are not verified: they are sums of
// a dump of the kubelet's own types, and the kubelet replaces the file as a whole.
// With an error all values are unknown, including the policy.
func ParseCPUState(b []byte) (CPUState, error) {
	var file struct {
		cpuData
		Data *string `json:"data"`
	}
	const what = "parse CPU manager state: "
	if len(bytes.TrimSpace(b)) == 0 {
		return CPUState{}, errors.New(what + "the file is empty")
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return CPUState{}, fmt.Errorf(what+"%w", err)
	}
	data := file.cpuData
	if file.Data != nil {
		data = cpuData{}
		if err := json.Unmarshal([]byte(*file.Data), &data); err != nil {
			return CPUState{}, fmt.Errorf(what+"data: %w", err)
		}
	}
	if data.PolicyName == "" {
		return CPUState{}, errors.New(what + "policyName is missing")
	}
	s := CPUState{Policy: data.PolicyName}
	var err error
	if s.Default, err = cpuset.Parse(data.DefaultCPUSet); err != nil {
		return CPUState{}, fmt.Errorf(what+"defaultCpuSet: %w", err)
	}
	for uid, raw := range data.Entries {
		var containers map[string]string
		if err := json.Unmarshal(raw, &containers); err != nil {
			return CPUState{}, fmt.Errorf(what+"entries of %q: %w; version 1, of a kubelet before 1.18, cannot be read", uid, err)
		}
		for name, cpus := range containers {
			if name == "" {
				return CPUState{}, fmt.Errorf(what+"entries of %q: a container has no name", uid)
			}
			if err := s.hold(uid, name, cpus); err != nil {
				return CPUState{}, fmt.Errorf(what+"%w", err)
			}
		}
	}
	for uid, pod := range data.PodEntries {
		if err := s.hold(uid, "", pod.CPUSet); err != nil {
			return CPUState{}, fmt.Errorf(what+"%w", err)
		}
	}
	slices.SortFunc(s.Holdings, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container))
	})
	return s, nil
}

// hold adds a holding. A holding without CPUs is ignored: its container had CPUs of init
// containers, which another container has now.
func (s *CPUState) hold(uid, container, cpus string) error {
	set, err := cpuset.Parse(cpus)
	switch {
	case err != nil:
		return fmt.Errorf("CPUs of pod %q, container %q: %w", uid, container, err)
	case uid == "":
		return fmt.Errorf("CPUs %s belong to a pod without a UID", cpus)
	case !set.IsEmpty():
		s.Holdings = append(s.Holdings, Holding{uid, container, set})
	}
	return nil
}
