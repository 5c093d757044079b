package podresources_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
)

// kubelet serves the kubelet's API and answers List with its own value.
type kubelet struct {
	v1.UnimplementedPodResourcesListerServer
	list func(context.Context) (*v1.ListPodResourcesResponse, error)
}

func (k kubelet) List(ctx context.Context, _ *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	return k.list(ctx)
}

func answers(r *v1.ListPodResourcesResponse, err error) kubelet {
	return kubelet{list: func(context.Context) (*v1.ListPodResourcesResponse, error) { return r, err }}
}

// serve lets a server answer on a socket until stop is called, at the latest at
// the test's end.
func serve(t *testing.T, socket string, server v1.PodResourcesListerServer) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	v1.RegisterPodResourcesListerServer(s, server)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s.Stop
}

func dial(t *testing.T, socket string) *podresources.Client {
	t.Helper()
	c, err := podresources.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func socket(t *testing.T) string { return filepath.Join(t.TempDir(), "kubelet.sock") }

func at(ids ...int64) *v1.TopologyInfo {
	info := &v1.TopologyInfo{}
	for _, id := range ids {
		info.Nodes = append(info.Nodes, &v1.NUMANode{ID: id})
	}
	return info
}

func device(id string, topology *v1.TopologyInfo) *v1.ContainerDevices {
	return &v1.ContainerDevices{ResourceName: "example.org/nic", DeviceIds: []string{id}, Topology: topology}
}

func memory(kind string, topology *v1.TopologyInfo) *v1.ContainerMemory {
	return &v1.ContainerMemory{MemoryType: kind, Size: 1 << 30, Topology: topology}
}

func pod(namespace, name string, containers ...*v1.ContainerResources) *v1.PodResources {
	return &v1.PodResources{Namespace: namespace, Name: name, Containers: containers}
}

func TestList(t *testing.T) {
	t.Parallel()
	type reply = v1.ListPodResourcesResponse
	one := func(c *v1.ContainerResources) *reply {
		c.Name = "app"
		return &reply{PodResources: []*v1.PodResources{pod("default", "p", c)}}
	}
	app := func(nodes cpuset.Set) []podresources.Container {
		return []podresources.Container{{Namespace: "default", Pod: "p", Name: "app", Nodes: nodes}}
	}
	type devices = []*v1.ContainerDevices
	type memories = []*v1.ContainerMemory
	for _, tt := range []struct {
		name  string
		reply *reply
		want  []podresources.Container
	}{
		{"nothing", &reply{}, []podresources.Container{}},
		{"no device", one(&v1.ContainerResources{}), app(cpuset.Set{})},
		{"CPUs", one(&v1.ContainerResources{CpuIds: []int64{5, 4, -1, 1 << 40}}), []podresources.Container{
			{Namespace: "default", Pod: "p", Name: "app", CPUs: cpuset.Of(4, 5)}}},
		{"device", one(&v1.ContainerResources{Devices: devices{device("a", at(1))}}), app(cpuset.Of(1))},
		{"node 0", one(&v1.ContainerResources{Devices: devices{device("a", at(0))}}), app(cpuset.Of(0))},
		{"devices on one node", one(&v1.ContainerResources{Devices: devices{device("a", at(1)), device("b", at(1))}}), app(cpuset.Of(1))},
		{"devices on two nodes", one(&v1.ContainerResources{Devices: devices{device("a", at(3)), device("b", at(0))}}), app(cpuset.Of(0, 3))},
		{"device near two nodes", one(&v1.ContainerResources{Devices: devices{device("a", at(0, 1))}}), app(cpuset.Of(0, 1))},
		{"device without topology", one(&v1.ContainerResources{Devices: devices{device("a", nil)}}), app(cpuset.Set{})},
		{"device without nodes", one(&v1.ContainerResources{Devices: devices{device("a", at())}}), app(cpuset.Set{})},
		{"device with and without", one(&v1.ContainerResources{Devices: devices{device("a", nil), device("b", at(1))}}), app(cpuset.Of(1))},
		{"device of no node", one(&v1.ContainerResources{Devices: devices{device("a", at(-1)), device("b", at(2))}}), app(cpuset.Of(2))},
		{"highest node", one(&v1.ContainerResources{Devices: devices{device("a", at(1023))}}), app(cpuset.Of(1023))},
		{"hugepages", one(&v1.ContainerResources{Memory: memories{memory("hugepages-1Gi", at(1))}}), app(cpuset.Of(1))},
		{
			"memory and device", one(&v1.ContainerResources{Devices: devices{device("a", at(0))}, Memory: memories{memory("memory", at(1))}}),
			app(cpuset.Of(0, 1)),
		},
		{
			"order", &reply{PodResources: []*v1.PodResources{
				pod("ns2", "a", &v1.ContainerResources{Name: "app"}),
				pod("ns1", "b", &v1.ContainerResources{Name: "z", Devices: devices{device("a", at(1))}}, &v1.ContainerResources{Name: "y"}),
				pod("ns1", "a", &v1.ContainerResources{Name: "app"}),
			}},
			[]podresources.Container{
				{Namespace: "ns1", Pod: "a", Name: "app"},
				{Namespace: "ns1", Pod: "b", Name: "y"},
				{Namespace: "ns1", Pod: "b", Name: "z", Nodes: cpuset.Of(1)},
				{Namespace: "ns2", Pod: "a", Name: "app"},
			},
		},
		{
			"old and new pod of a name", &reply{PodResources: []*v1.PodResources{
				pod("default", "p", &v1.ContainerResources{Name: "app", Devices: devices{device("a", at(0))}}),
				pod("default", "p", &v1.ContainerResources{Name: "app", Devices: devices{device("b", at(1))}}),
			}},
			app(cpuset.Of(0, 1)),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := socket(t)
			serve(t, path, answers(tt.reply, nil))
			got, err := dial(t, path).List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("List (-want +got):\n%s", diff)
			}
		})
	}
}

// TestImpossibleNode checks that one wrong ID removes neither the container's other
// nodes nor other containers.
func TestImpossibleNode(t *testing.T) {
	t.Parallel()
	path := socket(t)
	serve(t, path, answers(&v1.ListPodResourcesResponse{PodResources: []*v1.PodResources{pod("default", "p",
		&v1.ContainerResources{
			Name:    "bad",
			Devices: []*v1.ContainerDevices{device("a", at(1024)), device("b", at(1024)), device("c", at(1))},
			Memory:  []*v1.ContainerMemory{memory("hugepages-2Mi", at(1<<62))},
		},
		&v1.ContainerResources{Name: "good", Devices: []*v1.ContainerDevices{device("d", at(0))}},
	)}}, nil))
	got, err := dial(t, path).List(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatalf("List = %v, %v; want two containers", got, err)
	}
	const want = `NUMA node 1024 of device "example.org/nic" is outside 0-1023; ` +
		`NUMA node 4611686018427387904 of memory "hugepages-2Mi" is outside 0-1023`
	if bad := got[0]; bad.Err == nil || bad.Err.Error() != want || !bad.Nodes.Equal(cpuset.Of(1)) {
		t.Errorf("bad: nodes %v, error %v; want 1 and %s", bad.Nodes, bad.Err, want)
	}
	if good := got[1]; good.Err != nil || !good.Nodes.Equal(cpuset.Of(0)) {
		t.Errorf("good: nodes %v, error %v; want 0 and none", good.Nodes, good.Err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	large := &v1.ListPodResourcesResponse{PodResources: []*v1.PodResources{pod("default", strings.Repeat("p", 17<<20))}}
	for _, tt := range []struct {
		name   string
		server v1.PodResourcesListerServer // none: no socket
		want   error
		words  string
	}{
		{"no socket", nil, podresources.ErrUnavailable, "no such file or directory"},
		{"going away", answers(nil, status.Error(codes.Unavailable, "shutting down")), podresources.ErrUnavailable, "shutting down"},
		{"without the call", v1.UnimplementedPodResourcesListerServer{}, podresources.ErrNotSupported, "List not implemented"},
		{"asked too often", answers(nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")), nil, "rejected by rate limit"},
		{"too large", answers(large, nil), nil, "larger than max"},
		{"its own deadline", answers(nil, context.DeadlineExceeded), nil, "deadline exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := socket(t)
			if tt.server != nil {
				serve(t, path, tt.server)
			}
			got, err := dial(t, path).List(t.Context())
			if err == nil || got != nil || !strings.Contains(err.Error(), tt.words) || !strings.Contains(err.Error(), path) {
				t.Errorf("List = %v, %v; want an error with %q and the socket", got, err, tt.words)
			}
			for _, known := range []error{podresources.ErrUnavailable, podresources.ErrNotSupported} {
				if errors.Is(err, known) != errors.Is(tt.want, known) {
					t.Errorf("errors.Is(%v, %q) = %v; want %v", err, known, errors.Is(err, known), errors.Is(tt.want, known))
				}
			}
		})
	}
}

// TestHungKubelet checks that the caller's context ends a call without an answer.
func TestHungKubelet(t *testing.T) {
	t.Parallel()
	path := socket(t)
	called := make(chan struct{})
	serve(t, path, kubelet{list: func(ctx context.Context) (*v1.ListPodResourcesResponse, error) {
		close(called)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-called
		cancel()
	}()
	if _, err := dial(t, path).List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("List = %v; want %v", err, context.Canceled)
	}
}

// TestKubeletComesBack checks that the client outlives the kubelet.
func TestKubeletComesBack(t *testing.T) {
	t.Parallel()
	path := socket(t)
	client := dial(t, path)
	if _, err := client.List(t.Context()); !errors.Is(err, podresources.ErrUnavailable) {
		t.Fatalf("List before the kubelet is there = %v; want %v", err, podresources.ErrUnavailable)
	}
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for range 2 {
		stop := serve(t, path, answers(&v1.ListPodResourcesResponse{}, nil))
		// The client tries again in the background; until then calls fail at once.
		for ; ; <-retry.C {
			_, err := client.List(t.Context())
			if err == nil {
				break
			}
			if !errors.Is(err, podresources.ErrUnavailable) {
				t.Fatalf("List = %v; want %v or none", err, podresources.ErrUnavailable)
			}
		}
		stop()
		if _, err := client.List(t.Context()); !errors.Is(err, podresources.ErrUnavailable) {
			t.Fatalf("List without the kubelet = %v; want %v", err, podresources.ErrUnavailable)
		}
	}
}

func TestDialRefusesOtherPaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "kubelet.sock", "unix:///run/kubelet.sock", "/run/a\x00b"} {
		if _, err := podresources.Dial(path); err == nil || !strings.Contains(err.Error(), "absolute path") {
			t.Errorf("Dial(%q) = %v; want an error with the expected form", path, err)
		}
	}
}
