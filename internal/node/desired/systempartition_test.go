package desired_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// onEightCPUs returns settings for a machine with CPUs 0 to 7, the guaranteed pool 4-6, and CPU 7 for
// ResourceClaims.
func onEightCPUs(stance config.SystemPartition) *desired.Settings {
	s := &desired.Settings{Config: &config.Config{SystemPartition: stance}, Topology: &topology.Topology{Online: cpuset.Range(0, 7)}}
	s.Pools.Guaranteed, s.Pools.Claims.CPUs = cpuset.Range(4, 6), cpuset.Of(7)
	return s
}

// systemRoot is the root of the kubelet's system partition.
const systemRoot = cgroup.Path("kubepods.slice/kubepods-system.slice")

// systemNode returns a node with the pod dns in the kubelet's system partition, whose
// annotation requests the management pool, and with the pod web outside of it.
func systemNode() *inventory.Inventory {
	m := inventory.New(cgroup.DriverSystemd)
	for name, slice := range map[string]string{"dns": "kubepods-system-burstable-poddns.slice", "web": "kubepods-burstable-podweb.slice"} {
		m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p-" + name, UID: name, Name: name, Namespace: "kube-system", Ready: true, CgroupParent: slice,
			CgroupsPath: slice + ":crio:p-" + name, Annotations: map[string]string{"target.workload.openshift.io/management": "{}", "kubernetes.io/config.source": "api"}}})
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: name, PodID: "p-" + name, Name: name, State: cri.Running, CgroupsPath: slice + ":crio:" + name}})
	}
	return m
}

// systemPods is the planner's input of systemNode.
func systemPods() []pools.Pod {
	var all []pools.Pod
	for _, name := range []string{"dns", "web"} {
		all = append(all, pools.Pod{UID: name, Containers: []pools.Container{{ID: name}, {ID: "p-" + name, Kind: pools.Infra}}})
	}
	return all
}

// TestSystemPartition checks which containers in a system partition the kubelet places, on
// which CPUs, and which problems are reported.
func TestSystemPartition(t *testing.T) {
	gone := func(cgroup.Path) (cgroup.State, error) { return cgroup.State{}, cgroup.ErrGone }
	root := func(cpus, effective cpuset.Set) func(cgroup.Path) (cgroup.State, error) {
		return func(p cgroup.Path) (cgroup.State, error) {
			if p != systemRoot {
				return cgroup.State{Path: p, CPUs: cpuset.Of(6), Effective: cpuset.Of(6)}, nil
			}
			return cgroup.State{Path: p, CPUs: cpus, Effective: effective}, nil
		}
	}
	online := cpuset.Range(0, 7)
	for name, c := range map[string]struct {
		stance   config.SystemPartition
		read     func(cgroup.Path) (cgroup.State, error)
		foreign  bool
		cpus     string
		problems []pools.Code
		shown    bool
	}{
		"auto, no root":   {stance: config.SystemPartitionAuto, read: gone},
		"auto, no cpuset": {stance: config.SystemPartitionAuto, read: root(cpuset.Set{}, online), shown: true},
		"auto, cpuset":    {stance: config.SystemPartitionAuto, read: root(cpuset.Of(0, 1), cpuset.Of(0, 1)), foreign: true, cpus: "0-1", problems: []pools.Code{"SystemPartitionAnnotation"}, shown: true},
		"auto, all CPUs":  {stance: config.SystemPartitionAuto, read: root(online, online), foreign: true, cpus: "", problems: []pools.Code{"SystemPartitionAnnotation"}, shown: true},
		"auto, all CPUs, and an owner's partition": {stance: config.SystemPartitionAuto, read: root(online, cpuset.Of(0, 1, 2, 3, 6, 7)), foreign: true, cpus: "", problems: []pools.Code{"SystemPartitionAnnotation"}, shown: true},
		"auto, overlap":         {stance: config.SystemPartitionAuto, read: root(cpuset.Of(3, 4), cpuset.Of(3, 4)), foreign: true, cpus: "3-4", problems: []pools.Code{"SystemPartitionOverlap", "SystemPartitionAnnotation"}, shown: true},
		"auto, CPU of claims":   {stance: config.SystemPartitionAuto, read: root(cpuset.Of(7), cpuset.Of(7)), foreign: true, cpus: "7", problems: []pools.Code{"SystemPartitionOverlap", "SystemPartitionAnnotation"}, shown: true},
		"standDown, no cpuset":  {stance: config.SystemPartitionStandDown, read: root(cpuset.Set{}, online), foreign: true, cpus: "", problems: []pools.Code{"SystemPartitionAnnotation"}, shown: true},
		"standDown, cpuset":     {stance: config.SystemPartitionStandDown, read: root(cpuset.Of(0, 9), cpuset.Of(0)), foreign: true, cpus: "0", problems: []pools.Code{"SystemPartitionAnnotation"}, shown: true},
		"standDown, unreadable": {stance: config.SystemPartitionStandDown, read: func(cgroup.Path) (cgroup.State, error) { return cgroup.State{}, errors.New("unreadable") }, foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, pods, s := systemNode(), systemPods(), onEightCPUs(c.stance)
			var o desired.OtherManagers
			o.Mark(m.Objects(), pods, s, c.read)
			for _, ctr := range pods[0].Containers {
				if (ctr.Foreign != nil) != c.foreign {
					t.Errorf("%s: foreign is %+v; want %t", ctr.ID, ctr.Foreign, c.foreign)
				} else if c.foreign && (ctr.Foreign.CPUs.String() != c.cpus || ctr.Foreign.Manager != "the kubelet's system partition") {
					t.Errorf("%s: foreign is %+v; want CPUs %q", ctr.ID, ctr.Foreign, c.cpus)
				}
			}
			for _, ctr := range pods[1].Containers {
				if ctr.Foreign != nil {
					t.Errorf("%s outside of the partition: foreign is %+v", ctr.ID, ctr.Foreign)
				}
			}
			if got := o.Places(m.Objects().Container("dns")); got != c.foreign || o.Places(m.Objects().Container("web")) {
				t.Errorf("dns is placed: %t; web is placed: %t", got, o.Places(m.Objects().Container("web")))
			}
			if got := o.MayPlace(m.Objects(), systemRoot.Join("kubepods-system-podnew.slice")); got != c.foreign || o.MayPlace(m.Objects(), "kubepods.slice/kubepods-podnew.slice") {
				t.Errorf("a new pod in the partition is placed: %t", got)
			}
			var codes []pools.Code
			for _, p := range o.Problems(m.Objects(), s) {
				codes = append(codes, p.Code)
				if p.Code == "SystemPartitionAnnotation" && (p.Pod != "kube-system/dns" || !strings.HasPrefix(p.Text, "target.workload.openshift.io/management: ")) {
					t.Errorf("problem %+v", p)
				}
			}
			if d := cmp.Diff(c.problems, codes); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
			wantCPUs := c.cpus
			if !c.foreign || strings.Contains(name, "no cpuset") {
				wantCPUs = ""
			}
			if got := o.SystemCPUs(m.Objects(), s); got.String() != wantCPUs {
				t.Errorf("no new owner gets %s; want %q", got, wantCPUs)
			}
			if got := o.SystemPartition(m.Objects()); (got != nil) != c.shown {
				t.Errorf("shown: %+v; want %t", got, c.shown)
			}
		})
	}
}

// TestSystemPartitionAppears checks that the root counts as soon as it exists, and that an
// error keeps the last reading.
func TestSystemPartitionAppears(t *testing.T) {
	m, s := systemNode(), onEightCPUs(config.SystemPartitionAuto)
	var o desired.OtherManagers
	if slice := systemRoot.Join("kubepods-system-poddns.slice"); !o.MayPlace(m.Objects(), slice) {
		t.Error("before the first reading the kubelet may place pods in its partition")
	}
	for i, step := range []struct {
		cpus cpuset.Set
		err  error
		want bool
	}{
		{err: cgroup.ErrGone},
		{cpus: cpuset.Of(0), want: true},
		{err: errors.New("unreadable"), want: true},
		{err: cgroup.ErrGone},
		{cpus: cpuset.Set{}},
	} {
		o.Mark(m.Objects(), nil, s, func(p cgroup.Path) (cgroup.State, error) {
			return cgroup.State{Path: p, CPUs: step.cpus, Effective: step.cpus}, step.err
		})
		if got := o.Places(m.Objects().Container("dns")); got != step.want {
			t.Errorf("step %d: placed: %t; want %t", i, got, step.want)
		}
	}
}
