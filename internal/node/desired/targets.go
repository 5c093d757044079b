package desired

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Targets translates a plan into the desired state of each cgroup. Containers
// that have exited, and those whose cgroup is unknown, have none. A quota is put
// back where it has been lifted: elsewhere it is the kubelet's.
func Targets(p pools.Plan, m *inventory.Inventory, f config.WeightFormula, sliceWeights bool, lifted func(cgroup.Path) bool) []cgroup.Target {
	out := make([]cgroup.Target, 0, len(p.Pods)+containersOf(&p)+len(p.Units))
	for i := range p.Pods {
		pod := &p.Pods[i]
		if t, ok := sliceTarget(*pod, m, sliceWeights, lifted); ok {
			out = append(out, t)
		}
		for j := range pod.Containers {
			if t, ok := ContainerTarget(&pod.Containers[j], m, f, lifted); ok {
				out = append(out, t)
			}
		}
	}
	for _, u := range p.Units {
		if t, ok := unitTarget(u, m); ok {
			out = append(out, t)
		}
	}
	return out
}

// containersOf counts the containers of a plan: what is made of them is most of what a pass
// makes, and need not grow.
func containersOf(p *pools.Plan) (n int) {
	for i := range p.Pods {
		n += len(p.Pods[i].Containers)
	}
	return n
}

func sliceTarget(pod pools.PodPlan, m *inventory.Inventory, weights bool, lifted func(cgroup.Path) bool) (cgroup.Target, bool) {
	if !weights {
		pod.Shares = 0
	}
	if pod.Shares == 0 && !pod.Unlimited && pod.Quota == 0 {
		return cgroup.Target{}, false
	}
	slice := m.SliceOf(pod)
	if slice == "" {
		return cgroup.Target{}, false
	}
	if !lifted(slice) {
		pod.Quota, pod.Period = 0, 0
	}
	if pod.Shares == 0 && !pod.Unlimited && pod.Quota == 0 {
		return cgroup.Target{}, false
	}
	// Slices compete with slices, and those have the kubelet's linear weights.
	return cgroup.Target{
		Path:      slice,
		Weight:    cgroup.WeightLinear(pod.Shares),
		Unlimited: pod.Unlimited,
		Quota:     pod.Quota,
		Period:    pod.Period,
		Reason:    pod.Reason.Text,
	}, true
}

func ContainerTarget(c *pools.Placement, m *inventory.Inventory, f config.WeightFormula, lifted func(cgroup.Path) bool) (cgroup.Target, bool) {
	t := cgroup.Target{CPUs: c.Runs(), Mems: c.Mems, Exclusive: c.Exclusive, Mixed: c.Mixed, Reason: c.Reason.Text}
	switch {
	case c.State == pools.Exited, c.Pool == pools.Other:
		return t, false
	case c.Kind == pools.App && m.Container(c.ID).IsAsked():
		return t, false // its answer has all of it
	case c.Kind == pools.Infra:
		t.Path = m.Pod(c.ID).Pause
	default:
		t.Path = m.Container(c.ID).Path
		t.Container = c.ID
		if c.State == pools.Created {
			// The OCI runtime is making the scope, or will. A property that systemd
			// sets meanwhile makes it attach the device program of the scope once more,
			// which the runtime is about to replace: the container would not start.
			break
		}
		t.Weight = ContainerWeight(f, c.Shares)
		if t.Unlimited = c.Unlimited; lifted(t.Path) {
			t.Quota, t.Period = c.Quota, c.Period
		}
		if c.Limit != 0 {
			t.Quota, t.Period = LimitOf(c)
		}
	}
	return t, t.Path != ""
}

// LimitOf is the quota of a limit that an annotation gives, and its period, in
// microseconds: what the kubelet makes of limits.cpu (cm.MilliCPUToQuota).
func LimitOf(c *pools.Placement) (quota, period int64) {
	const period100ms = 100_000
	return cgroup.MilliCPUToQuota(c.Limit, period100ms), period100ms
}

// Unbind gives memory back to those that were bound to nodes and should not be any
// more: who has lost its CPUs, and all of them once memory is not to be bound. They
// get the nodes that they had before, else all, as with restore.
func Unbind(want []cgroup.Target, l *undo.Journal, all cpuset.Set) {
	for i := range want {
		t := &want[i]
		if t.CPUs.IsEmpty() || !t.Mems.IsEmpty() {
			continue
		}
		before, bound := l.NodesBefore(t)
		if !bound {
			continue
		}
		if t.Mems = before; before.IsEmpty() {
			t.Mems = all // runtimes cannot clear it
		}
	}
}
