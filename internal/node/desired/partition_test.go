package desired_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestPartitions checks by mode and kernel whether owners become partitions.
func TestPartitions(t *testing.T) {
	remote, settled := cgroup.PartitionKernel{Remote: true}, cgroup.PartitionKernel{Remote: true, Settled: true}
	for _, c := range []struct {
		mode    config.Isolation
		kernel  cgroup.PartitionKernel
		on, why bool
	}{
		{config.IsolationCPUSet, settled, false, false},
		{config.IsolationAuto, remote, false, false},
		{config.IsolationAuto, settled, true, false},
		{config.IsolationPartition, cgroup.PartitionKernel{}, false, true},
		{config.IsolationPartition, remote, true, false},
	} {
		s := desired.Settings{Config: &config.Config{Isolation: c.mode}}
		if on, why := s.Partitions(c.kernel); on != c.on || (why != "") != c.why {
			t.Errorf("%s on %+v: %t, %q", c.mode, c.kernel, on, why)
		}
	}
}

// TestPartitionType checks which containers become isolated partitions.
func TestPartitionType(t *testing.T) {
	const off = "cpu-load-balancing.crio.io"
	settled := cgroup.PartitionKernel{Remote: true, Settled: true}
	for name, c := range map[string]struct {
		annotations map[string]string
		isolated    cpuset.Set
		kernel      cgroup.PartitionKernel
		want        cgroup.PartitionType
	}{
		"default":                  {kernel: settled, want: cgroup.RootPartition},
		"load balancing off":       {annotations: map[string]string{off: "disable"}, kernel: settled, want: cgroup.IsolatedPartition},
		"isolcpus":                 {isolated: cpuset.Range(4, 7), kernel: settled, want: cgroup.IsolatedPartition},
		"some CPUs in isolcpus":    {isolated: cpuset.Of(4), kernel: settled, want: cgroup.RootPartition},
		"isolcpus, earlier kernel": {isolated: cpuset.Range(4, 7), kernel: cgroup.PartitionKernel{Remote: true}, want: cgroup.RootPartition},
	} {
		m := inventory.New(cgroup.DriverSystemd)
		m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Annotations: c.annotations}})
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app"}})
		s := desired.Settings{Config: &config.Config{}, Topology: &topology.Topology{Isolated: c.isolated}}
		if got := s.PartitionType(m.Objects(), cgroup.Target{Container: "c", CPUs: cpuset.Of(4, 5)}, c.kernel); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}
