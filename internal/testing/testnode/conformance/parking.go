package conformance

import (
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// parking holds CPUs in a partition without a process, and hands them over.
func (b *bench) parking() {
	_, one, _, ok := b.pod()
	if !ok {
		return
	}
	b.task(one)
	b.write(b.top, cgroup.FileCPUs, "0-3")
	if err := b.fs.MakeParking(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := b.fs.RemoveParking(); err != nil {
			b.Error(err)
		}
	})
	b.park("2-3")
	b.write(cgroup.Parking, cgroup.FilePartition, "isolated")
	b.parked("2-3")
	b.rootHas(cpuset.Of(2, 3), false)

	// Nobody else gets there, whatever he asks for, nor disturbs it.
	b.write(one, cgroup.FileCPUs, "2-3")
	b.runs(one, "2-3", "0-1")
	b.write(b.top, cgroup.FileCPUs, "0-2")
	b.write(b.top, cgroup.FileCPUs, "0-3")
	b.refused(b.top, cgroup.FileExclusive, "3", syscall.EINVAL)
	b.parked("2-3")

	// From the leaf up, and the owner from the top down.
	b.write(cgroup.Parking, cgroup.FileExclusive, "2")
	b.rootHas(cpuset.Of(3), true)
	b.write(cgroup.ParkingTop, cgroup.FileExclusive, "2")
	b.write(one, cgroup.FileCPUs, "3")
	b.runs(one, "3", "3")
	b.grant(one, "3")
	b.write(one, cgroup.FilePartition, "root")
	b.partitioned(one, "root")
	b.parked("2")
	b.runs(one, "3", "3")

	// And back.
	b.write(one, cgroup.FilePartition, "member")
	b.rootHas(cpuset.Of(3), true)
	for p := one; p != ""; p = p.Parent() {
		b.write(p, cgroup.FileExclusive, "\n")
	}
	b.park("2-3")
	b.parked("2-3")
	b.runs(one, "3", "0-1")
	b.write(cgroup.Parking, cgroup.FilePartition, "member")
	b.rootHas(cpuset.Of(2, 3), true)
	b.write(cgroup.Parking, cgroup.FileExclusive, "\n")
	b.write(cgroup.ParkingTop, cgroup.FileExclusive, "\n")
}

// park grants CPUs to the parking, from the top down.
func (b *bench) park(cpus string) {
	b.Helper()
	b.write(cgroup.ParkingTop, cgroup.FileExclusive, cpus)
	b.write(cgroup.Parking, cgroup.FileExclusive, cpus)
}

// parked checks that the parking is in force.
func (b *bench) parked(cpus string) {
	b.Helper()
	b.partitioned(cgroup.Parking, "isolated")
	b.runs(cgroup.Parking, "", cpus)
}
