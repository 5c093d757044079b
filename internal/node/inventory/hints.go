package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// PodOf returns an entry of the pod with a UID, nil if there is none.
func (m *Inventory) PodOf(uid string) *Pod {
	for _, e := range m.sandboxes[uid] {
		return e
	}
	return nil
}

// ExclusiveCPUs is the number of CPUs of its own that a container of a Guaranteed
// pod asks for; 0 if it asks for none or does not tell.
func ExclusiveCPUs(r pools.Resources) int {
	const sharesPerCPU = 1024
	if n, known := r.WholeCPUs(); known && r.Shares%sharesPerCPU == 0 {
		return n
	}
	return 0
}
