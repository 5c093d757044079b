package nri

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

func absurd() *api.LinuxResources {
	return &api.LinuxResources{Cpu: &api.LinuxCPU{
		Shares: api.UInt64(uint64(math.MaxUint64)), Quota: api.Int64(int64(math.MinInt64)), Period: api.UInt64(uint64(math.MaxUint64)),
		Cpus: "9-", Mems: "\x00",
	}}
}

func checkResources(t *testing.T, r cri.Resources) {
	if r.Shares > maxShares || r.Period < 0 {
		t.Errorf("resources = %+v; want the ranges of cri.Resources", r)
	}
}

// FuzzContainer checks that any message of a runtime gives a valid container.
func FuzzContainer(f *testing.F) {
	for _, c := range []*api.Container{
		{Env: []string{"OPENSHIFT_SHARED_CPUS=0-3", "OPENSHIFT_SHARED_CPUS", "=", "OPENSHIFT_SHARED_CPUS==1"}},
		{Env: []string{"DRA_CPUSET_u=0-3", "DRA_CPUSET_"}, CDIDevices: []*api.CDIDevice{nil, {Name: "cpu.cpupoold.io/claim=u"}, {Name: "cpu.cpupoold.io/claim="}}},
		{Id: "c", PodSandboxId: "p", State: 99, CreatedAt: -1, FinishedAt: math.MaxInt64, Pid: math.MaxUint32,
			Linux: &api.LinuxContainer{CgroupsPath: "a:b:c", Resources: absurd()}},
		{Id: "c", State: api.ContainerState_CONTAINER_STOPPED, CreatedAt: 1, FinishedAt: 2, Linux: &api.LinuxContainer{}},
	} {
		data, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c api.Container
		if proto.Unmarshal(data, &c) != nil {
			return
		}
		now := time.Unix(1700000000, 0)
		got := containerOf(&c, now)
		trimmed, _ := proto.Clone(&c).(*api.Container)
		if trimContainer(trimmed); !reflect.DeepEqual(containerOf(trimmed, now), got) {
			t.Errorf("trimmed container = %+v; want %+v", containerOf(trimmed, now), got)
		}
		checkResources(t, got.Requested)
		switch {
		case got.ID != c.GetId() || got.PodID != c.GetPodSandboxId():
			t.Errorf("ids %q, %q; want %q, %q", got.ID, got.PodID, c.GetId(), c.GetPodSandboxId())
		case got.Requested != got.Recorded:
			t.Errorf("requested = %+v, recorded = %+v; want equal values", got.Requested, got.Recorded)
		case len(got.SharedCPUs) > 1100:
			t.Errorf("length of shared CPUs = %d; want at most 1100", len(got.SharedCPUs))
		case got.CreatedAt.IsZero() || c.GetCreatedAt() <= 0 && !got.CreatedAt.Equal(now):
			t.Errorf("creation = %v; want a time", got.CreatedAt)
		case got.State < cri.Unknown || got.State > cri.Exited || !got.FinishedAt.IsZero() && got.State != cri.Exited:
			t.Errorf("state = %v, end = %v; want an end only if exited", got.State, got.FinishedAt)
		}
	})
}

// FuzzPod does the same as FuzzContainer for pods.
func FuzzPod(f *testing.F) {
	for _, p := range []*api.PodSandbox{
		{},
		{Id: "p", Linux: &api.LinuxPodSandbox{PodResources: absurd(), Resources: absurd()}},
		{Id: "p", Linux: &api.LinuxPodSandbox{Resources: absurd()}},
		{Id: "p", Linux: &api.LinuxPodSandbox{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(2)}}}},
	} {
		data, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p api.PodSandbox
		if proto.Unmarshal(data, &p) != nil {
			return
		}
		got := podOf(&p)
		checkResources(t, got.Resources)
		if got.ID != p.GetId() || !got.Ready || !got.Detailed {
			t.Errorf("pod = %+v; want it ready and detailed", got)
		}
		if got.Resources != (cri.Resources{}) && p.GetLinux().GetPodResources() == nil {
			t.Errorf("resources %+v; want none, because the pod has no total", got.Resources)
		}
	})
}
