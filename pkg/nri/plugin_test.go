package nri_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

var onePod = &api.PodSandbox{
	Id: "p1", Uid: "u1", Namespace: "default", Name: "web", RuntimeHandler: "runc", Pid: 7,
	Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1", "b": "2"},
	Linux: &api.LinuxPodSandbox{
		CgroupParent: "kubepods.slice", CgroupsPath: "kubepods.slice:cri-containerd:p1",
		PodResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(2048), Quota: api.Int64(200000), Period: api.UInt64(100000)}},
		Resources:    &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(2)}},
	},
}

func oneContainer() *api.Container {
	return &api.Container{
		Id: "c1", PodSandboxId: "p1", Name: "main", Env: []string{"A=1", "B=2", "OPENSHIFT_SHARED_CPUS=6-7", "DRA_CPUSET_u=2-3"},
		CDIDevices: []*api.CDIDevice{{Name: "nvidia.com/gpu=0"}, {Name: "cpu.cpupoold.io/claim=u"}},
		Linux: &api.LinuxContainer{
			CgroupsPath: "kubepods.slice:cri-containerd:c1",
			Resources:   &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(1024), Quota: api.Int64(100000), Period: api.UInt64(100000), Mems: "0"}},
		},
	}
}

// Every event reaches its method, once and in order.
func TestEvents(t *testing.T) {
	socket := socketPath(t)
	rt, r := start(t, socket, nil, nil), &recorder{}
	r.update = func(_ context.Context, _ string, asked cri.Resources) (cri.Resources, error) {
		return cri.Resources{CPUs: "4-5"}, nil
	}
	run(t, socket, r).await(nri.Connected)
	rt.taken()
	ctx, ct := t.Context(), oneContainer()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(rt.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: onePod}))
	_, err := rt.CreateContainer(ctx, &api.CreateContainerRequest{Pod: onePod, Container: ct})
	must(err)
	must(rt.StartContainer(ctx, &api.StartContainerRequest{Pod: onePod, Container: ct}))
	up, err := rt.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: onePod, Container: ct,
		LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(512), Cpus: "0-7"}}})
	must(err)
	_, err = rt.StopContainer(ctx, &api.StopContainerRequest{Pod: onePod, Container: ct})
	must(err)
	must(rt.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: onePod, Container: ct}))
	must(rt.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: onePod}))
	must(rt.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: onePod}))

	want := strings.Join([]string{
		"synchronize 0 0", "run p1", "create c1 in p1", "start c1",
		"update c1 {Shares:512 Quota:0 Period:0 CPUs:0-7 Mems:}",
		"stop c1", "remove c1", "stop pod p1", "remove pod p1",
	}, "\n")
	if diff := cmp.Diff(want, r.all()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	wantPod := cri.Pod{
		ID: "p1", UID: "u1", Namespace: "default", Name: "web", RuntimeHandler: "runc", PID: 7, Ready: true, Detailed: true,
		Annotations:  map[string]string{"a": "1"},
		CgroupParent: "kubepods.slice", CgroupsPath: "kubepods.slice:cri-containerd:p1",
		Resources: cri.Resources{Shares: 2048, Quota: 200000, Period: 100000},
	}
	if diff := cmp.Diff([]cri.Pod{wantPod}, r.pods, cmpopts.IgnoreFields(cri.Pod{}, "CreatedAt")); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if age := time.Since(r.pods[0].CreatedAt); age < 0 || age > waitTimeout {
		t.Errorf("the pod was created %v ago; want now", age)
	}
	// The requested values stay, except for the values in the answer.
	last := up.Update[len(up.Update)-1]
	cpu := last.Linux.Resources.Cpu
	if last.ContainerId != "c1" || cpu.Cpus != "4-5" || cpu.Shares.GetValue() != 512 || cpu.Quota != nil || cpu.Mems != "" {
		t.Errorf("update = %v; want CPUs 4-5 and shares 512, and nothing else", last)
	}
}

// The plugin sees the new container as requested, and the runtime gets its answer.
func TestCreate(t *testing.T) {
	socket := socketPath(t)
	rt, r := start(t, socket, nil, nil), &recorder{}
	var seen cri.Container
	r.create = func(_ context.Context, _ cri.Pod, c cri.Container) (nri.Reply, error) {
		seen = c
		return nri.Reply{
			Adjustment: nri.Adjustment{
				CPUs: cpuset.Of(2, 3), Mems: cpuset.Of(1), Shares: 2, Unlimited: true,
				Env: map[string]string{"B": "9", "CPUS": "2-3", "A": ""},
			},
			Updates: []nri.Update{{Container: "c0", CPUs: cpuset.Of(0, 1)}, {Container: "none"}},
		}, nil
	}
	run(t, socket, r).await(nri.Connected)
	rt.taken()
	rpl, err := rt.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: onePod, Container: oneContainer()})
	if err != nil {
		t.Fatal(err)
	}
	asked := cri.Resources{Shares: 1024, Quota: 100000, Period: 100000, Mems: "0"}
	want := cri.Container{ID: "c1", PodID: "p1", Name: "main", State: cri.Created, Detailed: true,
		CgroupsPath: "kubepods.slice:cri-containerd:c1", Requested: asked, Recorded: asked, SharedCPUs: "6-7", HasDevices: true,
		Claims: cri.ClaimRefs{HasDevices: true, Devices: []string{"u"}, Variables: map[string]string{"u": "2-3"}}}
	if diff := cmp.Diff(want, seen, cmpopts.IgnoreFields(cri.Container{}, "CreatedAt")); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	cpu := rpl.Adjust.Linux.Resources.Cpu
	if cpu.Cpus != "2-3" || cpu.Mems != "1" || cpu.Shares.GetValue() != 2 || cpu.Quota.GetValue() != -1 || cpu.Period != nil {
		t.Errorf("adjusted CPU resources = %v; want the handler's", cpu)
	}
	env := map[string]string{}
	for _, kv := range rpl.Adjust.Env {
		env[kv.Key] = kv.Value
	}
	if want := map[string]string{"B": "9", "CPUS": "2-3", "A": ""}; !maps.Equal(env, want) {
		t.Errorf("environment = %v; want %v", env, want)
	}
	if len(rpl.Update) != 1 || rpl.Update[0].ContainerId != "c0" || !rpl.Update[0].IgnoreFailure || rpl.Update[0].Linux.Resources.Cpu.Cpus != "0-1" {
		t.Errorf("updates = %v; want c0 on 0-1, failure ignored", rpl.Update)
	}
}

// A quota comes with its period.
func TestCreateWithQuota(t *testing.T) {
	socket := socketPath(t)
	rt, r := start(t, socket, nil, nil), &recorder{}
	r.create = func(context.Context, cri.Pod, cri.Container) (nri.Reply, error) {
		return nri.Reply{Adjustment: nri.Adjustment{Quota: 50_000, Period: 100_000}}, nil
	}
	run(t, socket, r).await(nri.Connected)
	rt.taken()
	rpl, err := rt.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: onePod, Container: oneContainer()})
	if err != nil {
		t.Fatal(err)
	}
	if cpu := rpl.Adjust.Linux.Resources.Cpu; cpu.Quota.GetValue() != 50_000 || cpu.Period.GetValue() != 100_000 || cpu.Shares != nil || cpu.Cpus != "" {
		t.Errorf("adjusted CPU resources = %v; want a quota of 50000 in 100000 and nothing else", cpu)
	}
}

// An empty answer changes nothing.
func TestZeroAnswers(t *testing.T) {
	socket := socketPath(t)
	rt := start(t, socket, nil, nil)
	run(t, socket, &recorder{}).await(nri.Connected)
	rt.taken()
	rpl, err := rt.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: onePod, Container: oneContainer()})
	if err != nil {
		t.Fatal(err)
	}
	if cpu := rpl.Adjust.Linux.Resources.Cpu; cpu.Cpus+cpu.Mems != "" || cpu.Shares != nil || cpu.Quota != nil || len(rpl.Adjust.Env)+len(rpl.Update) > 0 {
		t.Errorf("answer without changes = %v; want it empty", rpl)
	}
	up, err := rt.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: onePod, Container: oneContainer()})
	if err != nil || slices.ContainsFunc(up.Update, func(u *api.ContainerUpdate) bool { return u != nil }) {
		t.Errorf("update of nothing = %v, %v", up, err)
	}
}

// An error refuses the request, with its text, and the connection stays.
func TestRefusal(t *testing.T) {
	socket := socketPath(t)
	rt, r := start(t, socket, nil, nil), &recorder{}
	refused := errors.New("4 CPUs wanted, 2 free")
	r.create = func(context.Context, cri.Pod, cri.Container) (nri.Reply, error) { return nri.Reply{}, refused }
	r.startCt = func(context.Context, string) error { return fmt.Errorf("start: %w", context.DeadlineExceeded) }
	r.update = func(context.Context, string, cri.Resources) (cri.Resources, error) { return cri.Resources{}, refused }
	run(t, socket, r).await(nri.Connected)
	rt.taken()
	for range 2 {
		if _, err := rt.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: onePod, Container: oneContainer()}); err == nil || !strings.Contains(err.Error(), refused.Error()) {
			t.Errorf("CreateContainer = %v; want %v", err, refused)
		}
		if err := rt.StartContainer(t.Context(), &api.StartContainerRequest{Pod: onePod, Container: oneContainer()}); err == nil {
			t.Error("StartContainer after the handler's deadline = no error; want one")
		}
		if _, err := rt.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: onePod, Container: oneContainer()}); err == nil {
			t.Error("UpdateContainer after an error = no error; want one")
		}
	}
}

// More pods and containers than go into one message arrive in one call. By default the runtime closes the connection to a
// plugin that does not reply within 2 s, as on a busy machine.
func TestSynchronizeMany(t *testing.T) {
	adaptation.SetPluginRegistrationTimeout(waitTimeout)
	adaptation.SetPluginRequestTimeout(waitTimeout)
	t.Cleanup(func() {
		adaptation.SetPluginRegistrationTimeout(adaptation.DefaultPluginRegistrationTimeout)
		adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout)
	})
	socket, r := socketPath(t), &recorder{}
	var pods []*api.PodSandbox
	var cts []*api.Container
	for i := range 2000 {
		pods = append(pods, &api.PodSandbox{Id: fmt.Sprintf("p%d", i), Annotations: map[string]string{"k": strings.Repeat("x", 2000)}})
		ct := oneContainer()
		ct.Id, ct.State, ct.CreatedAt = fmt.Sprintf("c%d", i), api.ContainerState_CONTAINER_RUNNING, 1700000000000000000
		ct.Env = []string{"LONG=" + strings.Repeat("y", 4000)}
		cts = append(cts, ct)
	}
	ids := map[string]bool{}
	r.synchronize = func(_ context.Context, pods []cri.Pod, cts []cri.Container) error {
		for _, p := range pods {
			ids[p.ID] = true
		}
		for _, c := range cts {
			if ids[c.ID] = true; c.State != cri.Running || c.Recorded.Shares != 1024 || c.CreatedAt.Unix() != 1700000000 {
				return fmt.Errorf("container %+v", c)
			}
		}
		return nil
	}
	start(t, socket, pods, cts)
	run(t, socket, r).await(nri.Connected)
	if got, want := r.all(), "synchronize 2000 2000"; got != want {
		t.Errorf("calls = %q; want %q", got, want)
	}
	if len(ids) != 4000 {
		t.Errorf("%d different ids; want 4000", len(ids))
	}
}
