// Package deviceplugin is a device plugin for the kubelet of a test machine. It offers devices that exist only by name, with the NUMA
// nodes that the test chooses, over the real API (k8s.io/kubelet, deviceplugin.v1beta1).
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Env is the environment variable in which a container finds the devices that it was given, with commas between.
const Env = "CPUPOOLD_TEST_DEVICES"

// Resource is one resource of which a container can ask for some devices.
type Resource struct {
	Name string // such as example.org/nic
	// Devices are the NUMA nodes of each device, by its name, which is unique on the machine; without any, the plugin does not tell them.
	Devices map[string][]int64
}

// Plugin offers one resource until Stop.
type Plugin struct {
	v1.UnimplementedDevicePluginServer
	resource Resource
	socket   string
	server   *grpc.Server
	served   chan error
	stopped  chan struct{}
}

// Start offers a resource to the kubelet that listens in dir, v1.DevicePluginPath on a node, and returns when the kubelet has accepted it.
// That it knows the devices takes longer. A kubelet that is restarted forgets them.
func Start(ctx context.Context, dir string, resource Resource) (*Plugin, error) {
	endpoint := strings.NewReplacer("/", "-", ".", "-").Replace(resource.Name) + ".sock"
	p := &Plugin{
		resource: resource,
		socket:   filepath.Join(dir, endpoint),
		server:   grpc.NewServer(),
		served:   make(chan error, 1),
		stopped:  make(chan struct{}),
	}
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		return nil, fmt.Errorf("offer %s: %w", resource.Name, err)
	}
	v1.RegisterDevicePluginServer(p.server, p)
	go func() { p.served <- p.server.Serve(listener) }()
	if err := register(ctx, filepath.Join(dir, filepath.Base(v1.KubeletSocket)), endpoint, resource.Name); err != nil {
		return nil, errors.Join(fmt.Errorf("offer %s: %w", resource.Name, err), p.Stop())
	}
	return p, nil
}

func register(ctx context.Context, kubelet, endpoint, resource string) error {
	conn, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = v1.NewRegistrationClient(conn).Register(ctx, &v1.RegisterRequest{Version: v1.Version, Endpoint: endpoint, ResourceName: resource})
	return err
}

// Stop takes the devices back. Containers keep theirs.
func (p *Plugin) Stop() error {
	close(p.stopped)
	p.server.Stop()
	err := <-p.served
	// The server removes its socket itself, unless the kubelet was first.
	if rerr := os.Remove(p.socket); !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// GetDevicePluginOptions returns no options.
func (p *Plugin) GetDevicePluginOptions(context.Context, *v1.Empty) (*v1.DevicePluginOptions, error) {
	return &v1.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices, which do not change, and keeps the stream open: the kubelet treats its end as the end of the
// devices.
func (p *Plugin) ListAndWatch(_ *v1.Empty, stream grpc.ServerStreamingServer[v1.ListAndWatchResponse]) error {
	var all []*v1.Device
	for id, nodes := range p.resource.Devices {
		d := &v1.Device{ID: id, Health: v1.Healthy}
		if len(nodes) > 0 {
			d.Topology = &v1.TopologyInfo{}
		}
		for _, node := range nodes {
			d.Topology.Nodes = append(d.Topology.Nodes, &v1.NUMANode{ID: node})
		}
		all = append(all, d)
	}
	if err := stream.Send(&v1.ListAndWatchResponse{Devices: all}); err != nil {
		return err
	}
	select {
	case <-p.stopped:
	case <-stream.Context().Done():
	}
	return nil
}

// Allocate passes each container its devices in the environment.
func (p *Plugin) Allocate(_ context.Context, r *v1.AllocateRequest) (*v1.AllocateResponse, error) {
	answer := &v1.AllocateResponse{}
	for _, c := range r.GetContainerRequests() {
		for _, id := range c.GetDevicesIds() {
			if _, ok := p.resource.Devices[id]; !ok {
				return nil, fmt.Errorf("allocate %s: no device %q", p.resource.Name, id)
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses, &v1.ContainerAllocateResponse{
			Envs: map[string]string{Env: strings.Join(c.GetDevicesIds(), ",")},
		})
	}
	return answer, nil
}
