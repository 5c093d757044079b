package cri_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

func start(t *testing.T, c testnode.RuntimeConfig) (*testnode.Runtime, *cri.Client) {
	t.Helper()
	r := testnode.StartRuntime(t, c)
	return r, dial(t, r.Endpoint())
}

// keepsTarget selects the annotation that requests a workload type.
func keepsTarget(key string) bool { return strings.HasPrefix(key, "target.workload.openshift.io/") }

func dial(t *testing.T, endpoint string) *cri.Client {
	t.Helper()
	c, err := cri.Dial(endpoint, keepsTarget)
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

// must returns the result of a step of a test's preparation.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestDialRefusesOtherEndpoints(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"", "run/containerd.sock", "tcp://127.0.0.1:1234", "npipe:////./pipe/x", "unix://relative", "unix:///a\x00b"} {
		if _, err := cri.Dial(endpoint, nil); err == nil {
			t.Errorf("Dial(%q) = no error; want one", endpoint)
		} else if !strings.Contains(err.Error(), "unix:///path") {
			t.Errorf("Dial(%q): %v: lacks the expected form", endpoint, err)
		}
	}
}

func TestDialTakesBarePath(t *testing.T) {
	t.Parallel()
	r := testnode.StartRuntime(t, testnode.RuntimeConfig{Flavor: testnode.CRIO})
	c := dial(t, strings.TrimPrefix(r.Endpoint(), "unix://"))
	name, version, err := c.Version(t.Context())
	if err != nil || name != "cri-o" || version != "1.36.3" {
		t.Errorf("Version() = %q, %q, %v; want cri-o 1.36.3", name, version, err)
	}
}

func TestCgroupDriver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config testnode.RuntimeConfig
		want   cri.Driver
		err    error
	}{
		{"systemd", testnode.RuntimeConfig{}, cri.Systemd, nil},
		{"cgroupfs", testnode.RuntimeConfig{Driver: cri.Cgroupfs}, cri.Cgroupfs, nil},
		{"containerd 1.7", testnode.RuntimeConfig{NoRuntimeConfig: true}, "", cri.ErrNotSupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, c := start(t, tt.config)
			got, err := c.CgroupDriver(t.Context())
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("CgroupDriver() = %q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestListAndStatus(t *testing.T) {
	t.Parallel()
	const uid = "0a1b2c3d-1111-2222-3333-444455556666"
	const slice = "kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice"
	for _, tt := range []struct {
		flavor                    testnode.Flavor
		driver                    cri.Driver
		parent, podPath, ctrdPath string // %s is the id
		pidBeforeStart            bool
	}{
		{testnode.Containerd, cri.Systemd, slice, slice + ":cri-containerd:%s", slice + ":cri-containerd:%s", false},
		{testnode.Containerd, cri.Cgroupfs, "/kubepods/burstable/pod" + uid, "/kubepods/burstable/pod" + uid + "/%s", "/kubepods/burstable/pod" + uid + "/%s", false},
		{testnode.CRIO, cri.Systemd, slice, slice + ":crio:%s", slice + ":crio:%s", true},
		{testnode.CRIO, cri.Cgroupfs, "/kubepods/burstable/pod" + uid, "/kubepods/burstable/pod" + uid + "/crio-%s", "/kubepods/burstable/pod" + uid + "/crio-%s", true},
	} {
		t.Run(fmt.Sprintf("%s/%s", tt.flavor, tt.driver), func(t *testing.T) {
			t.Parallel()
			r, c := start(t, testnode.RuntimeConfig{Flavor: tt.flavor, Driver: tt.driver})
			total := cri.Resources{Shares: 2048, Quota: 300_000, Period: 100_000}
			annotations := map[string]string{"target.workload.openshift.io/management": "{}"}
			podID := must[string](t)(r.RunPod(testnode.PodSpec{
				UID: uid, Namespace: "ns", Name: "p", QoS: "burstable", Annotations: annotations, RuntimeHandler: "kata", Resources: total,
			}))
			res := cri.Resources{Shares: 1024, Quota: -1, Period: 50_000, CPUs: "2-3"}
			id := must[string](t)(r.CreateContainer(podID, testnode.ContainerSpec{Name: "main", Attempt: 3, Resources: res}))

			pods, containers, err := c.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wantPod := cri.Pod{
				ID: podID, UID: uid, Namespace: "ns", Name: "p", Ready: true, Annotations: annotations, RuntimeHandler: "kata",
			}
			wantContainer := cri.Container{ID: id, PodID: podID, Name: "main", State: cri.Created}
			noTime := cmp.Options{cmpopts.IgnoreFields(cri.Pod{}, "CreatedAt"), cmpopts.IgnoreFields(cri.Container{}, "CreatedAt")}
			if diff := cmp.Diff([]cri.Pod{wantPod}, pods, noTime); diff != "" {
				t.Errorf("List, pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]cri.Container{wantContainer}, containers, noTime); diff != "" {
				t.Errorf("List, containers (-want +got):\n%s", diff)
			}

			gotPod := must[cri.Pod](t)(c.PodStatus(t.Context(), podID))
			if gotPod.CreatedAt != pods[0].CreatedAt || gotPod.CreatedAt.Unix() == 0 {
				t.Errorf("creation in PodStatus = %v; want %v as in the list", gotPod.CreatedAt, pods[0].CreatedAt)
			}
			wantPod.Detailed, wantPod.CgroupParent, wantPod.Resources, wantPod.PID = true, tt.parent, total, 1
			wantPod.CgroupsPath = fmt.Sprintf(tt.podPath, podID)
			if diff := cmp.Diff(wantPod, gotPod, noTime); diff != "" {
				t.Errorf("PodStatus (-want +got):\n%s", diff)
			}

			got := must[cri.Container](t)(c.ContainerStatus(t.Context(), id))
			wantContainer.Detailed, wantContainer.Requested, wantContainer.Recorded = true, res, res
			wantContainer.CgroupsPath = fmt.Sprintf(tt.ctrdPath, id)
			if (got.PID != 0) != tt.pidBeforeStart {
				t.Errorf("PID before the start = %d; want it only on some runtimes", got.PID)
			}
			wantContainer.PID = got.PID
			if diff := cmp.Diff(wantContainer, got, noTime); diff != "" {
				t.Errorf("ContainerStatus (-want +got):\n%s", diff)
			}
			for _, step := range []struct {
				do   func(string) error
				want cri.State
			}{{r.StartContainer, cri.Running}, {r.StopContainer, cri.Exited}} {
				if err := step.do(id); err != nil {
					t.Fatal(err)
				}
				got := must[cri.Container](t)(c.ContainerStatus(t.Context(), id))
				if got.State != step.want || (got.PID != 0) != (step.want == cri.Running) {
					t.Errorf("ContainerStatus: %v with PID %d; want %v", got.State, got.PID, step.want)
				}
			}
			if err := r.StopPod(podID); err != nil {
				t.Fatal(err)
			}
			if got := must[cri.Pod](t)(c.PodStatus(t.Context(), podID)); got.Ready || got.PID != 0 {
				t.Errorf("PodStatus after StopPod: ready = %v, PID = %d; want neither", got.Ready, got.PID)
			}
		})
	}
}

// A pod may have the annotations in which CRI-O keeps the pod's configuration: they are
// ignored then.
func TestPodStatusBelievesNoForgedAnnotation(t *testing.T) {
	t.Parallel()
	r, c := start(t, testnode.RuntimeConfig{Flavor: testnode.CRIO})
	id := must[string](t)(r.RunPod(testnode.PodSpec{UID: "u", Name: "p", Resources: cri.Resources{Shares: 1024}, Annotations: map[string]string{
		"pod-linux-resources.crio.io": `{"cpu_shares":262144}`, "io.kubernetes.cri-o.CgroupParent": "system.slice",
	}}))
	got := must[cri.Pod](t)(c.PodStatus(t.Context(), id))
	if got.CgroupParent != "" || got.Resources.Shares != 1024 {
		t.Errorf("PodStatus: cgroup parent %q, shares %d; want none, 1024", got.CgroupParent, got.Resources.Shares)
	}
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	for _, flavor := range []testnode.Flavor{testnode.Containerd, testnode.CRIO} {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			_, c := start(t, testnode.RuntimeConfig{Flavor: flavor})
			_, podErr := c.PodStatus(t.Context(), "gone")
			_, containerErr := c.ContainerStatus(t.Context(), "gone")
			for op, err := range map[string]error{
				"PodStatus": podErr, "ContainerStatus": containerErr,
				"UpdateCPUs": c.UpdateCPUs(t.Context(), "gone", cpuset.Of(1)),
			} {
				if !errors.Is(err, cri.ErrNotFound) || !strings.Contains(err.Error(), "gone") {
					t.Errorf("%s of an unknown id: %v; want ErrNotFound and the id", op, err)
				}
			}
		})
	}
}

func TestUpdateCPUs(t *testing.T) {
	t.Parallel()
	for _, flavor := range []testnode.Flavor{testnode.Containerd, testnode.CRIO} {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			r, c := start(t, testnode.RuntimeConfig{Flavor: flavor})
			pod := must[string](t)(r.RunPod(testnode.PodSpec{UID: "u", Name: "p"}))
			before := cri.Resources{Shares: 512, Quota: 50_000, Period: 100_000}
			id := must[string](t)(r.CreateContainer(pod, testnode.ContainerSpec{Name: "c", Resources: before}))
			if err := r.StartContainer(id); err != nil {
				t.Fatal(err)
			}
			want := cpuset.Range(4, 7).Union(cpuset.Of(9))
			if err := c.UpdateCPUs(t.Context(), id, want); err != nil {
				t.Fatal(err)
			}
			ct := must[cri.Container](t)(c.ContainerStatus(t.Context(), id))
			if got := must[cpuset.Set](t)(ct.RecordedCPUs()); !got.Equal(want) {
				t.Errorf("RecordedCPUs() = %q; want %q", got, want)
			}
			before.CPUs = "4-7,9"
			if diff := cmp.Diff(before, ct.Recorded); diff != "" {
				t.Errorf("the update changed more than the cpuset (-want +got):\n%s", diff)
			}

			calls := r.Calls("UpdateContainerResources")
			if err := c.UpdateCPUs(t.Context(), id, cpuset.Set{}); err == nil {
				t.Error("UpdateCPUs with the empty set = no error; want one")
			}
			if n := r.Calls("UpdateContainerResources") - calls; n != 0 {
				t.Errorf("calls of UpdateCPUs with the empty set = %d; want 0", n)
			}

			r.Fail("UpdateContainerResources", status.Error(codes.Unknown, "runc did not like it\n"))
			err := c.UpdateCPUs(t.Context(), id, want)
			if err == nil || errors.Is(err, cri.ErrNotFound) || errors.Is(err, cri.ErrNotRunning) || !strings.HasSuffix(err.Error(), "runc did not like it") {
				t.Errorf("refused update of a running container: %v; want the runtime's own words", err)
			}
			if err := r.StopContainer(id); err != nil {
				t.Fatal(err)
			}
			if err := c.UpdateCPUs(t.Context(), id, want); !errors.Is(err, cri.ErrNotRunning) {
				t.Errorf("refused update of an exited container: %v; want ErrNotRunning", err)
			}
			r.Fail("UpdateContainerResources", nil)
			err = c.UpdateCPUs(t.Context(), id, want)
			if flavor == testnode.CRIO && !errors.Is(err, cri.ErrNotRunning) || flavor == testnode.Containerd && err != nil {
				t.Errorf("update of an exited container: %v", err)
			}
		})
	}
}

func TestRecordedCPUsGarbage(t *testing.T) {
	t.Parallel()
	ct := cri.Container{ID: "abc", Recorded: cri.Resources{CPUs: "3-1"}}
	if _, err := ct.RecordedCPUs(); err == nil || !strings.Contains(err.Error(), "abc") {
		t.Errorf("RecordedCPUs() of %q: error %v; want one that names the container", ct.Recorded.CPUs, err)
	}
}

func TestGarbledInfo(t *testing.T) {
	t.Parallel()
	r, c := start(t, testnode.RuntimeConfig{})
	pod := must[string](t)(r.RunPod(testnode.PodSpec{UID: "u", Namespace: "ns", Name: "p"}))
	id := must[string](t)(r.CreateContainer(pod, testnode.ContainerSpec{Name: "c", Resources: cri.Resources{Shares: 100}}))
	for _, tt := range []struct{ name, doc, field string }{
		{"nothing", "", ""},
		{"not JSON", "pid: 3", ""},
		{"cut off", `{"sandboxID":"x","runtimeSpec":{`, ""},
		{"wrong type", `{"sandboxID":"x","runtimeSpec":{"linux":{"cgroupsPath":7}}}`, "runtimeSpec.linux.cgroupsPath"},
		{"out of range", `{"sandboxID":"x","runtimeSpec":{"linux":{"cgroupsPath":"a","resources":{"cpu":{"shares":-1}}}}}`, "runtimeSpec.linux.resources.cpu.shares"},
		{"no path", `{"sandboxID":"x","runtimeSpec":{"linux":null}}`, "runtimeSpec.linux.cgroupsPath"},
		{"no sandbox", `{"runtimeSpec":{"linux":{"cgroupsPath":"a"}}}`, "sandboxID"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.Garble(id, tt.doc)
			got, err := c.ContainerStatus(t.Context(), id)
			info, ok := errors.AsType[*cri.InfoError](err)
			if !ok || info.Field != tt.field || info.ID != id || info.Kind != "container" {
				t.Fatalf("ContainerStatus: error %v; want an InfoError about %q", err, tt.field)
			}
			if got.ID != id || got.Name != "c" || got.Requested.Shares != 100 {
				t.Errorf("ContainerStatus = %+v; want the values of the status itself", got)
			}
		})
	}
	r.Garble(id, `{"sandboxID":"x","config":{"CDI_devices":[{"name":"example.com/gpu=0"}]},"runtimeSpec":{"linux":{"cgroupsPath":"a"}}}`)
	if got := must[cri.Container](t)(c.ContainerStatus(t.Context(), id)); !got.HasDevices {
		t.Errorf("ContainerStatus = %+v; want a container with CDI devices", got)
	}
	for doc, want := range map[string]bool{
		`{"config":{"linux":{"cgroup_parent":"a","resources":{"cpu_shares":1024}}}}`:                                           false,
		`{"config":{"linux":{"cgroup_parent":"a","resources":{"cpu_shares":1024}}},"resources":{"linux":{"cpu_shares":2048}}}`: true,
	} {
		r.Garble(pod, doc)
		if got, err := c.PodStatus(t.Context(), pod); got.Resized != want {
			t.Errorf("PodStatus = %+v, %v; want resized %t", got, err, want)
		}
	}
	r.Garble(pod, `{"config":{"linux":{"cgroup_parent":[]}}}`)
	got, err := c.PodStatus(t.Context(), pod)
	if info, ok := errors.AsType[*cri.InfoError](err); !ok || info.Field != "config.linux.cgroup_parent" || info.ID != pod || info.Kind != "pod" {
		t.Errorf("PodStatus: error %v; want an InfoError about config.linux.cgroup_parent", err)
	}
	if got.Namespace != "ns" || got.Name != "p" {
		t.Errorf("PodStatus = %+v; want the values of the status itself", got)
	}
}

func TestLargeList(t *testing.T) {
	t.Parallel()
	r, c := start(t, testnode.RuntimeConfig{Events: testnode.EventsOff})
	// More than the default limit of gRPC, 4 MiB, and less than the 16 MiB that containerd sends.
	big := map[string]string{"note": strings.Repeat("x", 8<<10)}
	var want []string
	for i := range 1000 {
		pod := must[string](t)(r.RunPod(testnode.PodSpec{UID: fmt.Sprint(i), Name: "p", Annotations: big}))
		for attempt := range uint32(3) {
			want = append(want, must[string](t)(r.CreateContainer(pod, testnode.ContainerSpec{Name: "c", Attempt: attempt})))
		}
	}
	pods, containers, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ct := range containers {
		got = append(got, ct.ID)
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(pods) != 1000 || !slices.Equal(got, want) {
		t.Errorf("List: %d pods and %d containers; want 1000 and %d", len(pods), len(got), len(want))
	}
	if n := r.Calls("PodSandboxStatus") + r.Calls("ContainerStatus"); n != 0 {
		t.Errorf("status calls of List = %d; want 0", n)
	}
}

func TestHungRuntime(t *testing.T) {
	t.Parallel()
	r, c := start(t, testnode.RuntimeConfig{})
	defer r.Hang("ListContainers")()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, _, err := c.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("List: %v; want it to give up with its context", err)
	}
	if n := r.Calls("ListContainers"); n != 1 {
		t.Errorf("List made %d calls of ListContainers; want 1", n)
	}
}

func TestCallsWorkAfterRestart(t *testing.T) {
	t.Parallel()
	r, c := start(t, testnode.RuntimeConfig{})
	must[string](t)(r.RunPod(testnode.PodSpec{UID: "u", Name: "p"}))
	if _, _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Down()
	if _, _, err := c.List(t.Context()); err == nil {
		t.Error("List without a runtime = no error; want one")
	}
	if err := r.Up(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pods, _, err := c.List(ctx)
	for err != nil && ctx.Err() == nil {
		pods, _, err = c.List(ctx)
	}
	if err != nil || len(pods) != 1 {
		t.Errorf("List after a restart: %d pods, %v; want 1", len(pods), err)
	}
}

func TestDialMissingSocket(t *testing.T) {
	t.Parallel()
	c := dial(t, filepath.Join(t.TempDir(), "none.sock"))
	if _, _, err := c.Version(t.Context()); err == nil || !strings.Contains(err.Error(), "none.sock") {
		t.Errorf("Version without a socket: %v; want an error that names it", err)
	}
}
