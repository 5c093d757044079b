package desired

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Partitions reports whether owners become cpuset partitions, or why not if configured.
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

// PartitionType returns the type of a container's partition. It is isolated if the pod
// disables load balancing, or if all CPUs are in isolcpus=. The kernel does not balance load
// there anyway, and from 7.0 on refuses a root partition (prstate_housekeeping_conflict).
func (s *Settings) PartitionType(m *inventory.Objects, t cgroup.Target, kernel cgroup.PartitionKernel) cgroup.PartitionType {
	if kernel.Settled && t.CPUs.IsSubsetOf(s.Topology.Isolated) {
		return cgroup.IsolatedPartition
	}
	e := m.Container(t.Container)
	pod := e.Pod()
	if pod != nil && s.Names.LoadBalancingOff(pod.Pod.Annotations, e.Container.Name) {
		return cgroup.IsolatedPartition
	}
	return cgroup.RootPartition
}
