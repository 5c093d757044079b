package kubelet_test

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/kubernetes-sigs/dra-driver-cpu/pkg/cpuinfo"
	"github.com/kubernetes-sigs/dra-driver-cpu/pkg/cpumanager"
	kubeset "k8s.io/utils/cpuset"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// driver is the allocator of dra-driver-cpu on a machine.
type driver struct {
	topology *cpuinfo.CPUTopology
	free     kubeset.CPUSet
}

// newDriver returns an allocator that may allocate free.
func newDriver(table choice.Table, free cpuset.Set) *driver {
	machine := details(table)
	cpus := cpuinfo.CPUDetails{}
	for cpu, info := range machine.CPUDetails {
		cpus[cpu] = cpuinfo.CPUInfo{
			CpuID: cpu, CoreID: info.CoreID, SocketID: info.SocketID, NUMANodeID: info.NUMANodeID, UncoreCacheID: info.UncoreCacheID,
		}
	}
	return &driver{
		topology: &cpuinfo.CPUTopology{
			NumCPUs: machine.NumCPUs, NumCores: machine.NumCores, NumSockets: machine.NumSockets,
			NumNUMANodes: machine.NumNUMANodes, NumUncoreCache: machine.NumUncoreCache, SMTEnabled: machine.NumCPUs > machine.NumCores,
			CPUDetails: cpus,
		},
		free: toKube(free),
	}
}

// take chooses n CPUs of the machine.
func (d *driver) take(n int) (kubeset.CPUSet, error) { return d.from(d.free, n) }

// takeIn chooses n CPUs of a NUMA node, as the driver does for a claim: the scheduler has
// chosen the node.
func (d *driver) takeIn(node, n int) (kubeset.CPUSet, error) {
	return d.from(d.free.Intersection(d.topology.CPUDetails.CPUsInNUMANodes(node)), n)
}

// from calls the allocator with the arguments that the driver uses for a claim.
func (d *driver) from(free kubeset.CPUSet, n int) (kubeset.CPUSet, error) {
	return cpumanager.TakeByTopologyNUMAPacked(logr.Discard(), d.topology, free, n, cpumanager.CPUSortingStrategyPacked, true)
}

// TestDriver checks that the allocator of dra-driver-cpu, in the machines of the benchmarks,
// chooses free CPUs of whole cores, and that takeIn stays in its NUMA node.
func TestDriver(t *testing.T) {
	for _, size := range sizes() {
		table, top, free := size.shape.halfFull(t)
		d := newDriver(table, free)
		all, err := d.take(cpus)
		must(t, err)
		last := top.Nodes[len(top.Nodes)-1]
		part, err := d.takeIn(last.ID, cpus)
		must(t, err)
		for name, c := range map[string]struct {
			got  kubeset.CPUSet
			from cpuset.Set
		}{"machine": {all, free}, "node": {part, free.Intersection(last.CPUs)}} {
			got := cpuset.Of(c.got.UnsortedList()...)
			if got.Len() != cpus || !got.IsSubsetOf(c.from) {
				t.Errorf("%s, %s: CPUs %s; want %d of %s", size.name, name, got, cpus, c.from)
			}
			for _, core := range top.Cores {
				if n := core.CPUs.Intersection(got).Len(); n != 0 && n != core.CPUs.Len() {
					t.Errorf("%s, %s: CPUs %s split the core %s", size.name, name, got, core.CPUs)
				}
			}
		}
	}
}
