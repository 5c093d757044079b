package deviceplugin_test

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/cpupoold/cpupoold/test/vm/internal/deviceplugin"
)

// registry accepts plugins as a kubelet does.
type registry struct {
	v1.UnimplementedRegistrationServer
	requests chan *v1.RegisterRequest
}

func (r registry) Register(_ context.Context, request *v1.RegisterRequest) (*v1.Empty, error) {
	r.requests <- request
	return &v1.Empty{}, nil
}

func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	r := registry{requests: make(chan *v1.RegisterRequest, 1)}
	server := grpc.NewServer()
	v1.RegisterRegistrationServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	p, err := deviceplugin.Start(t.Context(), dir, deviceplugin.Resource{
		Name: "example.org/nic", Devices: map[string][]int64{"a": {1}, "b": {0, 1}, "c": nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	request := <-r.requests
	if request.GetResourceName() != "example.org/nic" || request.GetVersion() != "v1beta1" {
		t.Errorf("registration = %v; want example.org/nic, v1beta1", request)
	}
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, request.GetEndpoint()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := v1.NewDevicePluginClient(conn)
	stream, err := client.ListAndWatch(t.Context(), &v1.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range list.GetDevices() {
		line := d.GetID() + " " + d.GetHealth()
		if d.GetTopology() == nil {
			line += " unknown"
		}
		for _, n := range d.GetTopology().GetNodes() {
			line += " " + string(rune('0'+n.GetID()))
		}
		got = append(got, line)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a Healthy 1", "b Healthy 0 1", "c Healthy unknown"}, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	answer, err := client.Allocate(t.Context(), &v1.AllocateRequest{ContainerRequests: []*v1.ContainerAllocateRequest{{DevicesIds: []string{"a", "b"}}}})
	if err != nil || answer.GetContainerResponses()[0].GetEnvs()[deviceplugin.Env] != "a,b" {
		t.Errorf("Allocate = %v, %v; want a,b in the environment", answer, err)
	}
	_, err = client.Allocate(t.Context(), &v1.AllocateRequest{ContainerRequests: []*v1.ContainerAllocateRequest{{DevicesIds: []string{"x"}}}})
	if err == nil || !strings.Contains(err.Error(), `no device "x"`) {
		t.Errorf("Allocate of an unknown device = %v; want an error", err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the list of devices outlives the plugin; want its end")
	}
}
