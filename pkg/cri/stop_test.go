package cri_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// running starts a runtime with one running container.
func running(t *testing.T, flavor testnode.Flavor) (*testnode.Runtime, *cri.Client, string) {
	t.Helper()
	r, c := start(t, testnode.RuntimeConfig{Flavor: flavor})
	pod := must[string](t)(r.RunPod(testnode.PodSpec{UID: "u", Name: "p"}))
	id := must[string](t)(r.CreateContainer(pod, testnode.ContainerSpec{Name: "c", Resources: cri.Resources{Shares: 512}}))
	if err := r.StartContainer(id); err != nil {
		t.Fatal(err)
	}
	return r, c, id
}

func TestStop(t *testing.T) {
	t.Parallel()
	for _, flavor := range []testnode.Flavor{testnode.Containerd, testnode.CRIO} {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			r, c, id := running(t, flavor)
			if err := c.Stop(t.Context(), id, -time.Second); err == nil || r.Calls("StopContainer") > 0 {
				t.Errorf("Stop with a negative timeout = %v, %d calls; want an error and none", err, r.Calls("StopContainer"))
			}
			r.Fail("StopContainer", status.Error(codes.Unknown, "the shim does not answer\n"))
			if err := c.Stop(t.Context(), id, 0); err == nil || !strings.Contains(err.Error(), id) || !strings.HasSuffix(err.Error(), "does not answer") {
				t.Errorf("Stop that fails = %v; want the id and the runtime's own words", err)
			}
			r.Fail("StopContainer", status.Error(codes.NotFound, "no such container"))
			if err := c.Stop(t.Context(), id, 0); err != nil {
				t.Errorf("Stop of a container that is gone = %v", err)
			}
			r.Fail("StopContainer", nil)
			for range 2 {
				if err := c.Stop(t.Context(), id, time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if ct := must[cri.Container](t)(c.ContainerStatus(t.Context(), id)); ct.State != cri.Exited {
					t.Errorf("state after Stop = %v; want exited", ct.State)
				}
			}
			if err := c.Stop(t.Context(), "gone", 0); err != nil {
				t.Errorf("Stop of an unknown id = %v", err)
			}
		})
	}
}

func TestUpdateMems(t *testing.T) {
	t.Parallel()
	r, c, id := running(t, testnode.Containerd)
	if err := c.UpdateMems(t.Context(), id, cpuset.Of(0, 1)); err != nil {
		t.Fatal(err)
	}
	ct := must[cri.Container](t)(c.ContainerStatus(t.Context(), id))
	want := cri.Resources{Shares: 512, Mems: "0-1"}
	if got := must[cpuset.Set](t)(ct.RecordedMems()); !got.Equal(cpuset.Of(0, 1)) || ct.Recorded != want || ct.Requested != want {
		t.Errorf("recorded %+v, requested %+v; want %+v", ct.Recorded, ct.Requested, want)
	}
	calls := r.Calls("UpdateContainerResources")
	if err := c.UpdateMems(t.Context(), id, cpuset.Set{}); err == nil || r.Calls("UpdateContainerResources") > calls {
		t.Errorf("UpdateMems with the empty set = %v; want an error, and no call", err)
	}
	if err := c.UpdateMems(t.Context(), "gone", cpuset.Of(0)); !errors.Is(err, cri.ErrNotFound) {
		t.Errorf("UpdateMems of an unknown id = %v; want ErrNotFound", err)
	}
	garbled := cri.Container{ID: "abc", Recorded: cri.Resources{Mems: "3-1"}}
	if _, err := garbled.RecordedMems(); err == nil || !strings.Contains(err.Error(), "abc") {
		t.Errorf("RecordedMems() of %q: error %v; want one that names the container", garbled.Recorded.Mems, err)
	}
}
