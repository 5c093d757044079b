package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// ContainerAt returns the container whose cgroup is p, or nil.
func (m *Objects) ContainerAt(p cgroup.Path) *Container {
	for _, e := range m.containers {
		if e.Path == p {
			return e
		}
	}
	return nil
}

// PodAt returns the pod whose slice or pause container has the cgroup p, or nil.
func (m *Objects) PodAt(p cgroup.Path) *Pod {
	for _, e := range m.pods {
		if e.Pause == p || e.Slice == p {
			return e
		}
	}
	return nil
}

// PodSlices returns the cgroups of all pods.
func (m *Objects) PodSlices() []cgroup.Path {
	all := make([]cgroup.Path, 0, len(m.pods))
	for _, e := range m.pods {
		if e.Slice != "" {
			all = append(all, e.Slice)
		}
	}
	return all
}

// PodCgroups returns the cgroups of all pods, pause containers and containers.
func (m *Objects) PodCgroups() []cgroup.Path {
	all := m.PodSlices()
	for _, e := range m.pods {
		all = append(all, e.Pause)
	}
	for _, e := range m.containers {
		all = append(all, e.Path)
	}
	return all
}

// CgroupOf returns the cgroup of a planned container, "" if it is unknown.
func (m *Objects) CgroupOf(c *pools.Placement) cgroup.Path {
	if c.Kind == pools.Infra {
		if e := m.pods[c.ID]; e != nil {
			return e.Pause
		}
		return ""
	}
	if e := m.containers[c.ID]; e != nil {
		return e.Path
	}
	return ""
}

// SliceOf returns the cgroup of a planned pod. It belongs to a sandbox with a container that
// has not exited, and is "" without such a sandbox.
func (m *Objects) SliceOf(pod pools.PodPlan) cgroup.Path {
	for _, c := range pod.Containers {
		if c.State == pools.Exited {
			continue
		}
		sandbox := c.ID
		if c.Kind == pools.App {
			e := m.containers[c.ID]
			if e == nil {
				continue
			}
			sandbox = e.Container.PodID
		}
		if e := m.pods[sandbox]; e != nil && e.Slice != "" {
			return e.Slice
		}
	}
	return ""
}

// Recorded returns the values that the runtime or systemd would write again to the cgroup
// of a target. They are unknown for a target without object.
func (m *Objects) Recorded(t cgroup.Target) cgroup.Current {
	if e := m.containers[t.Container]; e != nil {
		if t.NoCRI {
			return cgroup.Current{Recorded: e.unit.CPUs, RecordedKnown: e.unit.Known, Unit: e.unit}
		}
		return e.Record()
	}
	if e := m.units.Get(m.units.At(t.Path)); e != nil {
		return e.Record()
	}
	for _, e := range m.pods {
		switch t.Path {
		case e.Pause:
			return cgroup.Current{Recorded: e.pauseUnit.CPUs, RecordedKnown: e.pauseUnit.Known, Unit: e.pauseUnit}
		case e.Slice:
			return cgroup.Current{Recorded: e.sliceUnit.CPUs, RecordedKnown: e.sliceUnit.Known, Unit: e.sliceUnit}
		}
	}
	return cgroup.Current{}
}

// IsAwaited reports whether the cgroup of a target may be missing because its container or
// unit has not started yet.
func (m *Objects) IsAwaited(t cgroup.Target) bool {
	if t.Unit != "" {
		return true
	}
	e := m.containers[t.Container]
	return e != nil && e.Container.State == cri.Created
}
