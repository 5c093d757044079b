package nri

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// TestTrim checks that a request keeps the fields that the handler gets, and loses the large
// ones.
func TestTrim(t *testing.T) {
	large := strings.Repeat("x", 256<<10)
	annotations := map[string]string{"a": "1", "b": large}
	linux := &api.LinuxContainer{CgroupsPath: "x", Resources: absurd()}
	pod := func() *api.PodSandbox {
		return &api.PodSandbox{Id: "p", Uid: "u", Annotations: annotations, Labels: map[string]string{"l": large}}
	}
	container := func() *api.Container {
		return &api.Container{Id: "c", PodSandboxId: "p", Name: "n", Annotations: annotations, Labels: map[string]string{"l": large}, Args: []string{large},
			Env: []string{large, "DRA_CPUSET_u=4-5", "OPENSHIFT_SHARED_CPUS=4-7"}, CDIDevices: []*api.CDIDevice{{Name: large}, {Name: "cpu.cpupoold.io/claim=u"}}, Mounts: []*api.Mount{{Source: large}}, Hooks: &api.Hooks{Poststop: []*api.Hook{{Path: large}}}, Linux: linux}
	}
	wantPod := &api.PodSandbox{Id: "p", Uid: "u", Annotations: map[string]string{"a": "1"}}
	wantContainer := &api.Container{Id: "c", PodSandboxId: "p", Name: "n", Env: []string{"DRA_CPUSET_u=4-5", "OPENSHIFT_SHARED_CPUS=4-7"},
		CDIDevices: []*api.CDIDevice{{Name: "cpu.cpupoold.io/claim=u"}}, Linux: linux}
	for _, tt := range []struct{ request, want proto.Message }{
		{&api.SynchronizeRequest{Pods: []*api.PodSandbox{pod(), pod()}, Containers: []*api.Container{container()}, More: true},
			&api.SynchronizeRequest{Pods: []*api.PodSandbox{wantPod, wantPod}, Containers: []*api.Container{wantContainer}, More: true}},
		{&api.RunPodSandboxRequest{Pod: pod()}, &api.RunPodSandboxRequest{Pod: wantPod}},
		{&api.StateChangeEvent{Pod: pod(), Container: container()}, &api.StateChangeEvent{Pod: wantPod, Container: wantContainer}},
		{&api.CreateContainerRequest{Pod: pod(), Container: container()}, &api.CreateContainerRequest{Pod: wantPod, Container: wantContainer}},
		{&api.UpdateContainerRequest{Pod: pod(), Container: container()}, &api.UpdateContainerRequest{Pod: wantPod, Container: wantContainer}},
		{&api.StopContainerRequest{Pod: pod(), Container: container()}, &api.StopContainerRequest{Pod: wantPod, Container: wantContainer}},
		{&api.CreateContainerRequest{}, &api.CreateContainerRequest{}},
		{&api.ConfigureRequest{Config: "c"}, &api.ConfigureRequest{Config: "c"}},
	} {
		trim(tt.request, func(key string) bool { return key == "a" })
		if diff := cmp.Diff(tt.want, tt.request, protocmp.Transform()); diff != "" {
			t.Errorf("%T (-want +got):\n%.2000s", tt.request, diff)
		}
	}
}
