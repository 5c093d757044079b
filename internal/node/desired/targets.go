package desired

import (
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Targets returns the desired state of each cgroup of a plan. Exited containers and those
// with an unknown cgroup have no target. The daemon restores a quota only where it has
// lifted it: other quotas belong to the kubelet.
func (in *Input) Targets(p pools.Plan) []cgroup.Target {
	out := make([]cgroup.Target, 0, len(p.Pods)+countContainers(&p)+len(p.Units))
	for i := range p.Pods {
		pod := &p.Pods[i]
		if t, ok := in.sliceTarget(*pod); ok {
			out = append(out, t)
		}
		for j := range pod.Containers {
			if t, ok := in.containerTarget(&pod.Containers[j]); ok {
				out = append(out, t)
			}
		}
	}
	for _, u := range p.Units {
		if t, ok := unitTarget(u, in.Inventory); ok {
			out = append(out, t)
		}
	}
	return releaseMemory(out, in.Journal, in.Nodes)
}

// countContainers counts the containers of a plan. Most memory of a pass is for slices of
// their length, which do not grow if it is known.
func countContainers(p *pools.Plan) (n int) {
	for i := range p.Pods {
		n += len(p.Pods[i].Containers)
	}
	return n
}

func (in *Input) sliceTarget(pod pools.PodPlan) (cgroup.Target, bool) {
	if !in.Settings.Config.PodSliceWeights {
		pod.Shares = 0
	}
	if pod.Shares == 0 && !pod.Unlimited && pod.Quota == 0 {
		return cgroup.Target{}, false
	}
	slice := in.Inventory.SliceOf(pod)
	if slice == "" {
		return cgroup.Target{}, false
	}
	if !in.Journal.WroteQuota(slice) {
		pod.Quota, pod.Period = 0, 0
	}
	if pod.Shares == 0 && !pod.Unlimited && pod.Quota == 0 {
		return cgroup.Target{}, false
	}
	// Slices compete with other slices, which have the kubelet's linear weights.
	return cgroup.Target{
		Path:      slice,
		Weight:    cgroup.WeightLinear(pod.Shares),
		Unlimited: pod.Unlimited,
		Quota:     pod.Quota,
		Period:    pod.Period,
		Reason:    pod.Reason.Text,
	}, true
}

func (in *Input) containerTarget(c *pools.Placement) (cgroup.Target, bool) {
	t := cgroup.Target{CPUs: c.Runs(), Mems: c.Mems, Exclusive: c.Exclusive, Mixed: c.Mixed, Reason: c.Reason.Text}
	switch {
	case c.State == pools.Exited, c.Pool == pools.Other:
		return t, false
	case c.Kind == pools.App && in.Inventory.Container(c.ID).IsAsked():
		return t, false // the answer to the runtime contains all values
	case c.Kind == pools.Infra:
		t.Path = in.Inventory.Pod(c.ID).Pause
	default:
		e := in.Inventory.Container(c.ID)
		t.Path, t.Container, t.NoCRI = e.Path, c.ID, e.RecordsOthers(t.CPUs)
		if c.State == pools.Created {
			// The OCI runtime makes the scope, and then replaces its device program. If a
			// property is set meanwhile, systemd attaches the program again, and the
			// container does not start.
			break
		}
		t.Weight = in.Formula.Weight(c.Shares)
		if t.Unlimited = c.Unlimited; in.Journal.WroteQuota(t.Path) {
			t.Quota, t.Period = c.Quota, c.Period
		}
		if c.Limit != 0 {
			t.Quota, t.Period = LimitQuota(c)
		}
	}
	return t, t.Path != ""
}

// unitTarget returns the desired state of a unit's cgroup. It returns false for a unit
// that systemd cannot start. The unit keeps its CPUs, because it may be installed at any time.
func unitTarget(u pools.UnitPlan, m *inventory.Inventory) (cgroup.Target, bool) {
	e := m.Unit(u.Name)
	if e == nil || !e.Unit.Loaded() || e.Unit.Path == "" {
		return cgroup.Target{}, false
	}
	return cgroup.Target{
		Path: e.Unit.Path, Unit: e.Unit.Name, CPUs: u.CPUs, Mems: u.Mems, Exclusive: u.Exclusive, Reason: u.Reason.Text,
	}, true
}

// LimitQuota returns the quota of a limit in an annotation and its period, in microseconds.
// The kubelet computes the same for limits.cpu (cm.MilliCPUToQuota).
func LimitQuota(c *pools.Placement) (quota, period int64) {
	const period100ms = 100_000
	return cgroup.MilliCPUToQuota(c.Limit, period100ms), period100ms
}

// releaseMemory returns the targets with nodes for cgroups whose memory is bound and should
// no longer be: the cgroup has lost its CPUs, or memory is no longer bound. They get their
// nodes before the binding, or else all nodes, because runtimes cannot clear the value.
func releaseMemory(want []cgroup.Target, j *undo.Journal, all cpuset.Set) []cgroup.Target {
	for i := range want {
		if want[i].CPUs.IsEmpty() || !want[i].Mems.IsEmpty() {
			continue
		}
		if before, bound := j.NodesBefore(&want[i]); bound {
			released := want[i]
			if released.Mems = before; before.IsEmpty() {
				released.Mems = all
			}
			want[i] = released
		}
	}
	return want
}
