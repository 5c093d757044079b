package desired

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func (s *Settings) Partitions(kernel cgroup.PartitionKernel) (on bool, why string) {
	switch mode := s.Config.Isolation; {
	case mode == config.IsolationCPUSet:
		return false, ""
	case mode == config.IsolationAuto:
		return kernel.Settled, ""
	case !kernel.Remote:
		return false, "guaranteed.isolation is partition, and the kernel has no remote partitions: 6.11 and later have; exclusive CPUs are kept by cpusets alone"
	}
	return true, ""
}

// Partitionable says that the kernel can keep all others off a target's CPUs: a
// partition has no CPU that somebody else is on.
func Partitionable(t cgroup.Target) bool { return t.Exclusive && t.Mixed.IsEmpty() }

// Unpartitionable is why an owner that shares CPUs is no partition.
func Unpartitionable(t cgroup.Target) string {
	return fmt.Sprintf("it runs on CPUs %s beside its own, which others run on too, and a partition has none such; load balancing stays on", t.Mixed)
}

// PartitionType is isolated for containers whose pod switches load balancing off, and for
// those on CPUs of isolcpus= alone: there is no balancing there anyway, and from kernel
// 7.0 on such CPUs can be in no root partition (prstate_housekeeping_conflict).
func (s *Settings) PartitionType(m *inventory.Inventory, t cgroup.Target, kernel cgroup.PartitionKernel) cgroup.PartitionType {
	if kernel.Settled && t.CPUs.IsSubsetOf(s.Topology.Isolated) {
		return cgroup.IsolatedPartition
	}
	e := m.Container(t.Container)
	pod := m.PodOf(e)
	if pod != nil && s.Names.LoadBalancingOff(pod.Pod.Annotations, e.Container.Name) {
		return cgroup.IsolatedPartition
	}
	return cgroup.RootPartition
}
