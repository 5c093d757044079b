//go:build guest

package cri_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/runtimetest"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

func dial(t *testing.T) *cri.Client {
	t.Helper()
	c, err := cri.Dial(readNode(t).Socket, func(string) bool { return true })
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

// crio is the name of the runtime that differs from containerd.
const crio = "cri-o"

func cgroups(t *testing.T) *cgroup.FS {
	t.Helper()
	fs, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// TestRuntime compares the runtime of the unit tests with this one.
func TestRuntime(t *testing.T) {
	node := readNode(t)
	isCRIO := node.Name == crio
	socket := ""
	if node.NRI {
		socket = "/run/nri/nri.sock"
	}
	runtimetest.Run(t, runtimetest.Node{
		Runtime: newKubelet(t), Client: dial(t), Cgroups: cgroups(t), Driver: node.Driver,
		CgroupAtCreate: isCRIO, UpdatesExited: !isCRIO, StopsCreated: isCRIO, QuietSandboxes: isCRIO, NoEvents: !node.Events,
		NRISocket: socket, ShowsAdjusted: isCRIO, StartsRefused: isCRIO,
	})
}

// TestUpdateLasts checks that systemd records an update, so that it survives the events
// that revert a direct write to the file.
func TestUpdateLasts(t *testing.T) {
	k, c := newKubelet(t), dial(t)
	pod, id := runOne(t, k)
	want := cpuset.Range(2, 3)
	if err := c.UpdateCPUs(t.Context(), id, want); err != nil {
		t.Fatal(err)
	}
	ct, err := c.ContainerStatus(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	p, err := cgroup.ContainerPath(ct.CgroupsPath, k.node.Driver)
	if err != nil {
		t.Fatal(err)
	}
	if unit, ok := p.Unit(); ok {
		if got := command(t, "systemctl", "show", "-P", "AllowedCPUs", unit); got != want.String() {
			t.Errorf("AllowedCPUs of %s = %q; want %q", unit, got, want)
		}
	}
	for _, event := range [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "restart", k.node.Unit}} {
		record := want
		if event[1] == "restart" && k.node.Name == crio {
			record = cpuset.Set{} // CRI-O starts from the spec of the creation; systemd has the update
		}
		command(t, event[0], event[1:]...)
		ct, err := c.ContainerStatus(t.Context(), id)
		for err != nil && !errors.Is(err, cri.ErrNotFound) && t.Context().Err() == nil {
			ct, err = c.ContainerStatus(t.Context(), id) // it may still be starting
		}
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := ct.RecordedCPUs()
		if err != nil || !recorded.Equal(record) || ct.State != cri.Running || ct.PodID != pod {
			t.Errorf("after %v: %+v; want it running on the recorded CPUs %q", event, ct, record)
		}
		if s, err := cgroups(t).Read(p); err != nil || !s.Effective.Equal(want) {
			t.Errorf("after %v: effective CPUs %q, %v; want %q", event, s.Effective, err, want)
		}
	}
}

// TestResize checks that the pod's total follows an in-place resize. CRI-O accepts the call and shows the resources of the creation.
// containerd 1.7 does not support it.
func TestResize(t *testing.T) {
	k, c := newKubelet(t), dial(t)
	pod, _ := runOne(t, k)
	want := cri.Resources{Shares: 4096, Quota: 400_000, Period: 100_000}
	ctx, cancel := k.call()
	defer cancel()
	_, err := k.rpc.UpdatePodSandboxResources(ctx, &runtime.UpdatePodSandboxResourcesRequest{PodSandboxId: pod, Resources: resources(want)})
	if status.Code(err) == codes.Unimplemented {
		t.Skip("the runtime does not resize pods")
	}
	if err != nil {
		t.Fatal(err)
	}
	if k.node.Name == crio {
		want = cri.Resources{}
	}
	if got, err := c.PodStatus(t.Context(), pod); err != nil || got.Resources != want {
		t.Errorf("resources after the resize: %+v, %v; want %+v", got.Resources, err, want)
	}
}

// TestWatchReconnects checks that the stream comes back after a restart of the runtime.
func TestWatchReconnects(t *testing.T) {
	k, c := newKubelet(t), dial(t)
	if !k.node.Events {
		t.Skip("the runtime sends no events")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	states, events := make(chan cri.StreamState, 100), make(chan cri.Event, 10_000)
	done := make(chan error, 1)
	go func() {
		done <- c.Watch(ctx, cri.Handler{
			Event: func(e cri.Event) { events <- e },
			Stream: func(s cri.StreamState, err error) {
				t.Logf("stream %v: %v", s, err)
				states <- s
			},
		})
	}()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch() = %v; want its context's error", err)
		}
	}()
	expect := func(want cri.StreamState) {
		t.Helper()
		select {
		case got := <-states:
			if got != want {
				t.Fatalf("stream %v; want %v", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("stream not %v in time", want)
		}
	}
	expect(cri.Connected)
	command(t, "systemctl", "stop", k.node.Unit)
	expect(cri.Lost)
	command(t, "systemctl", "start", k.node.Unit)
	expect(cri.Connected)
	_, id := runOne(t, k)
	for {
		select {
		case e := <-events:
			if e.ContainerID == id && e.Kind == cri.ContainerStarted {
				return
			}
		case <-ctx.Done():
			t.Fatal("no event after the restart")
		}
	}
}

// runOne runs a pod with one running container until the end of the test.
func runOne(t *testing.T, k *kubelet) (pod, id string) {
	t.Helper()
	pod, err := k.RunPod(testnode.PodSpec{UID: "0b0e0000-0001-4002-8003-000000000001", Namespace: "cri", Name: "one", QoS: "burstable"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(k.StopPod(pod), k.RemovePod(pod)); err != nil {
			t.Error(err)
		}
	})
	id, err = k.CreateContainer(pod, testnode.ContainerSpec{Name: "c", Resources: cri.Resources{Shares: 1024}})
	if err == nil {
		err = k.StartContainer(id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod, id
}
