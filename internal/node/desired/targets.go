package desired

import (
	"cmp"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
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
			if t, ok := in.podTarget(pod, &pod.Containers[j]); ok {
				out = append(out, t)
			}
		}
	}
	for _, u := range p.Units {
		if t, ok := unitTarget(u, in.Objects); ok {
			out = append(out, t)
		}
	}
	return releaseMemory(out, in.Originals, in.Nodes)
}

// countContainers sizes slices: most memory of a pass is for slices of this length.
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
	slice := in.Objects.SliceOf(pod)
	if slice == "" {
		return cgroup.Target{}, false
	}
	if !in.Originals.Has(slice, cgroup.FileMax) {
		pod.Quota, pod.Period = 0, 0
	}
	cpus, reason := in.sliceCPUs(slice, &pod)
	if pod.Shares == 0 && !pod.Unlimited && pod.Quota == 0 && cpus.IsEmpty() {
		return cgroup.Target{}, false
	}
	// Slices compete with other slices, which have the kubelet's linear weights.
	return cgroup.Target{
		Path:      slice,
		CPUs:      cpus,
		Around:    !cpus.IsEmpty(),
		Weight:    cgroup.WeightLinear(pod.Shares),
		Unlimited: pod.Unlimited,
		Quota:     pod.Quota,
		Period:    pod.Period,
		Reason:    cmp.Or(reason, pod.Reason.Text),
	}, true
}

// sliceCPUs returns the CPUs of a pod's slice with the reason. The set is empty if the
// slice keeps its CPUs. While a container of the pod is in a write conflict, the slice has the
// CPUs of all its containers, so that the container cannot run on others. Otherwise, or if the
// CPUs of a container are unknown, the slice gets its CPUs from before, or else all CPUs,
// because kernels before 7.0 refuse to clear the file.
func (in *Input) sliceCPUs(slice cgroup.Path, pod *pools.PodPlan) (cpus cpuset.Set, reason string) {
	before, wrote := in.Originals.CPUsBefore(slice)
	if wrote && before.IsEmpty() {
		before = in.Settings.Topology.Possible
	}
	if !in.isContested(pod) {
		return before, ""
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.State == pools.Exited {
			continue
		}
		if e := in.Objects.Container(c.ID); c.Pool == pools.Other || c.Unread || e != nil && e.IsUnread() {
			return before, "" // its CPUs are not known
		}
		cpus = cpus.Union(c.Runs())
	}
	return cpus, "a container of the pod overwrites its own CPUs"
}

func (in *Input) isContested(pod *pools.PodPlan) bool {
	if in.Contested == nil {
		return false
	}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.State != pools.Exited && in.Contested(in.Objects.CgroupOf(c)) {
			return true
		}
	}
	return false
}

func (in *Input) containerTarget(pod *pools.PodPlan, c *pools.Placement) (cgroup.Target, bool) {
	t := cgroup.Target{CPUs: c.Runs(), Mems: c.Mems, Exclusive: c.Exclusive || c.InPodPool(), Mixed: c.Mixed, Reason: c.Reason.Text}
	if c.InPodPool() {
		t.Group = pod.UID
	}
	switch {
	case c.State == pools.Exited, c.Pool == pools.Other:
		return t, false
	case c.Kind == pools.App && in.Objects.Container(c.ID).IsAsked():
		return t, false // the answer to the runtime contains all values
	case c.Kind == pools.Infra:
		t.Path = in.Objects.Pod(c.ID).Pause
	default:
		e := in.Objects.Container(c.ID)
		t.Path, t.Container, t.NoCRI = e.Path, c.ID, e.RecordsOthers(t.CPUs)
		if c.State == pools.Created {
			// The OCI runtime makes the scope, and then replaces its device program. If a
			// property is set meanwhile, systemd attaches the program again, and the
			// container does not start.
			break
		}
		t.Weight = in.Formula.Weight(c.Shares)
		if t.Unlimited = c.Unlimited; in.Originals.Has(t.Path, cgroup.FileMax) {
			t.Quota, t.Period = c.Quota, c.Period
		}
		if c.Limit != 0 {
			t.Quota, t.Period = cgroup.LimitQuota(c.Limit)
		}
	}
	return t, t.Path != ""
}

// unitTarget returns false for a unit that systemd cannot start. The unit keeps its CPUs.
func unitTarget(u pools.UnitPlan, m *inventory.Objects) (cgroup.Target, bool) {
	e := m.Units().Get(u.Name)
	if e == nil || !e.Unit.Loaded() || e.Unit.Path == "" {
		return cgroup.Target{}, false
	}
	return cgroup.Target{
		Path: e.Unit.Path, Unit: e.Unit.Name, CPUs: u.CPUs, Mems: u.Mems, Exclusive: u.Exclusive, Reason: u.Reason.Text,
	}, true
}

// releaseMemory returns nodes for cgroups whose memory should no longer be bound: their nodes
// before, or all, because runtimes cannot clear the value.
func releaseMemory(want []cgroup.Target, before *undo.Originals, all cpuset.Set) []cgroup.Target {
	for i := range want {
		if want[i].CPUs.IsEmpty() || !want[i].Mems.IsEmpty() {
			continue
		}
		if nodes, bound := before.NodesBefore(&want[i]); bound {
			released := want[i]
			if released.Mems = nodes; nodes.IsEmpty() {
				released.Mems = all
			}
			want[i] = released
		}
	}
	return want
}

// Owner is a container or a unit with exclusive CPUs, which containers of its pod can share.
type Owner struct {
	Pod, Name, ID string
	Unit          bool
	CPUs          cpuset.Set
}

// ownersOf returns the owners of a plan that can run now, in its order.
func ownersOf(plan pools.Plan) []Owner {
	var all []Owner
	for pod, c := range plan.Containers() {
		if (c.Exclusive || c.InPodPool()) && c.State != pools.Exited {
			all = append(all, Owner{Pod: pod.Namespace + "/" + pod.Name, Name: c.Name, ID: c.ID, CPUs: c.CPUs})
		}
	}
	for _, u := range plan.Units {
		if u.Exclusive {
			all = append(all, Owner{Name: u.Name, Unit: true, CPUs: u.CPUs})
		}
	}
	return all
}

// dropUnread drops targets with unknown resources. Their containers keep their CPUs.
func (in *Input) dropUnread(d *Decision, want []cgroup.Target) []cgroup.Target {
	unread := unreadCgroups(in.Objects, d.Plan)
	if d.HasUnread = len(unread) > 0; !d.HasUnread {
		return want
	}
	kept := want[:0]
	for _, t := range want {
		if unread[t.Path] {
			cpus, moves := in.mustLeave(&t, d.Owned)
			if !moves {
				continue
			}
			t.CPUs = cpus
		}
		kept = append(kept, t)
	}
	return kept
}

// mustLeave reports whether an unread cgroup has CPUs of an owner, and returns its other CPUs, or
// the plan's. A cgroup without a cpuset runs on all CPUs.
func (in *Input) mustLeave(t *cgroup.Target, owned cpuset.Set) (cpuset.Set, bool) {
	st, err := in.Read(t.Path)
	if err != nil && !in.Objects.IsAwaited(*t) {
		return cpuset.Set{}, false
	}
	record := in.Objects.Recorded(*t)
	recorded := record.Recorded.Union(record.Unit.CPUs)
	cpus := st.CPUs
	if err != nil {
		cpus = recorded
	}
	if cpus.IsEmpty() {
		return t.CPUs, true
	}
	left := cpus.Difference(owned)
	if left.IsEmpty() {
		left = t.CPUs
	}
	return left, cpus.Union(recorded).Overlaps(owned)
}

// unreadCgroups returns the cgroups of shared containers with unknown resources.
func unreadCgroups(m *inventory.Objects, p pools.Plan) map[cgroup.Path]bool {
	paths := make(map[cgroup.Path]bool)
	for _, c := range p.Containers() {
		switch e := m.Container(c.ID); {
		case c.Pool == pools.Guaranteed:
		case c.Kind == pools.Infra && c.Unread:
			paths[m.Pod(c.ID).Pause] = true
		case e != nil && (c.Unread || e.IsUnread()):
			paths[e.Path] = true
		}
	}
	return paths
}

// auxiliary returns the cgroups in pods that belong to no container, with their CPUs. With a
// static kubelet, only cgroups in management pods have CPUs.
func (in *Input) auxiliary(d *Decision) []inspect.Auxiliary {
	f := auxiliary.Facts{Objects: in.Objects, Plan: &d.Plan, Owned: d.Owned.Union(in.Leaving), Read: in.Read,
		Wrote: func(p cgroup.Path) bool { return in.Originals.Has(p, cgroup.FileCPUs) }}
	if !in.Settings.Pools.Kubelet {
		f.Shared = d.Plan.Shared.Difference(f.Owned)
	}
	return in.Auxiliary.Place(f)
}

// sandbox returns the cgroup of a pause container in which the pod's containers run.
func (in *Input) sandbox(pod *pools.PodPlan, c *pools.Placement) (inspect.Auxiliary, bool) {
	if c.Kind != pools.Infra || c.State == pools.Exited {
		return inspect.Auxiliary{}, false
	}
	e := in.Objects.Pod(c.ID)
	if !e.HostsContainers() || e.Pause == "" || in.Auxiliary.HasSandbox(e) {
		return inspect.Auxiliary{}, false
	}
	g, ok := auxiliary.SandboxOf(in.Objects, pod, c.ID)
	g.Cgroup = string(e.Pause)
	return g, ok
}

// podTarget returns the desired state of a container's cgroup, unless a sandbox hosts it.
func (in *Input) podTarget(pod *pools.PodPlan, c *pools.Placement) (cgroup.Target, bool) {
	if c.Kind == pools.App && in.Objects.Container(c.ID).IsHosted() {
		return cgroup.Target{}, false
	}
	t, ok := in.containerTarget(pod, c)
	if g, hosts := in.sandbox(pod, c); ok && hosts {
		t.CPUs, t.Exclusive, t.Group, t.Mixed, t.Reason = g.CPUs, g.Exclusive, "", g.Mixed, g.Reason
	}
	return t, ok && !t.CPUs.IsEmpty()
}
