package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Size is what the kubelet asks for, for a container and its pod.
type Size struct {
	Requested cri.Resources
	Total     pools.Resources
}

// Size is a container's and its pod's.
func (m *Inventory) Size(e *Container) Size {
	s := Size{Requested: e.Container.Requested}
	if pod := m.Pods[e.Container.PodID]; pod != nil {
		s.Total = pod.total
	}
	return s
}

// SizeAgain gives a container another of the sizes that it may have.
func (m *Inventory) SizeAgain(e *Container, from, to Size) {
	if pod := m.Pods[e.Container.PodID]; pod != nil {
		if pod.total == from.Total {
			pod.total = to.Total
		} else { // it has changed since for other reasons
			pod.total = m.totalAfter(pod, e, to.Requested)
		}
	}
	m.Clock++
	e.Container.Requested, e.requestedAt = to.Requested, m.Clock
}
