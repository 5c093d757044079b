package desired_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestUnread checks the targets of containers with unknown resources and without exclusive CPUs. They
// keep their CPUs, but no CPU of an owner. Without a cpuset they get the shared pool.
func TestUnread(t *testing.T) {
	var s desired.Settings
	if err := s.Change(parse(t, nodefixture.PoolsYAML), machine(8), nil); err != nil {
		t.Fatal(err)
	}
	m := inventory.New(cgroup.DriverSystemd)
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true}, Partial: os.ErrDeadlineExceeded})
	kernel := make(map[cgroup.Path]string)
	for name, cpus := range map[string]string{"owner": "4-5", "beside": "2-3,6", "across": "2-5", "under": "5", "new": "", "starting": "-"} {
		c := cri.Container{ID: name, PodID: "p", Name: name, State: cri.Running, CgroupsPath: "x.slice:c:" + name, Requested: nodefixture.WholeCPUs(2)}
		if cpus == "-" {
			c.State = cri.Created
			c.Recorded.CPUs = "4,7"
		}
		m.PutContainer(lookup.ContainerStatus{Container: c})
		kernel[m.Objects().Container(name).Path] = cpus
	}
	read := func(p cgroup.Path) (cgroup.State, error) {
		cpus, err := cpuset.Parse(kernel[p])
		if err != nil {
			return cgroup.State{}, cgroup.ErrGone
		}
		return cgroup.State{Path: p, CPUs: cpus}, nil
	}
	held := []pools.Assignment{{Key: pools.Key{PodUID: "u", Container: "owner"}, CPUs: cpuset.Of(4, 5)}}
	in := desired.Input{Settings: s, Objects: m.Objects(), Pods: m.Objects().Input(time.Now()), Previous: held, Originals: undo.Document{}.Journal().Originals, Read: read, Build: pools.Build}
	d := in.Decide()
	got := make(map[string]string)
	for _, target := range d.Targets {
		got[target.Container] = target.CPUs.String()
	}
	expect := map[string]string{"owner": "4-5", "across": "2-3", "under": "2-3", "new": "2-3", "starting": "7"}
	if diff := cmp.Diff(expect, got); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(held, d.Plan.Assignments); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
	if !d.HasUnread {
		t.Error("the plan has no unread container")
	}
}
