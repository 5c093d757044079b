package conformance

import (
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// parking checks that a partition without a process holds CPUs, and that it releases them to an
// owner.
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
	b.awaitRoot(cpuset.Of(2, 3), false)

	// No other cgroup gets the CPUs or changes the parking, whatever it requests.
	b.write(one, cgroup.FileCPUs, "2-3")
	b.checkCPUs(one, "2-3", "0-1")
	b.write(b.top, cgroup.FileCPUs, "0-2")
	b.write(b.top, cgroup.FileCPUs, "0-3")
	b.refused(b.top, cgroup.FileExclusive, "3", syscall.EINVAL)
	b.parked("2-3")

	// The leaf of the parking releases first. The owner gets the CPU from the top down.
	b.write(cgroup.Parking, cgroup.FileExclusive, "2")
	b.awaitRoot(cpuset.Of(3), true)
	b.write(cgroup.ParkingTop, cgroup.FileExclusive, "2")
	b.write(one, cgroup.FileCPUs, "3")
	b.checkCPUs(one, "3", "3")
	b.grant(one, "3")
	b.write(one, cgroup.FilePartition, "root")
	b.checkPartition(one, "root")
	b.parked("2")
	b.checkCPUs(one, "3", "3")

	// The way back.
	b.write(one, cgroup.FilePartition, "member")
	b.awaitRoot(cpuset.Of(3), true)
	for p := one; p != ""; p = p.Parent() {
		b.write(p, cgroup.FileExclusive, "\n")
	}
	b.park("2-3")
	b.parked("2-3")
	b.checkCPUs(one, "3", "0-1")
	b.write(cgroup.Parking, cgroup.FilePartition, "member")
	b.awaitRoot(cpuset.Of(2, 3), true)
	b.write(cgroup.Parking, cgroup.FileExclusive, "\n")
	b.write(cgroup.ParkingTop, cgroup.FileExclusive, "\n")
}

// park grants CPUs to parking, from the top down.
func (b *bench) park(cpus string) {
	b.Helper()
	b.write(cgroup.ParkingTop, cgroup.FileExclusive, cpus)
	b.write(cgroup.Parking, cgroup.FileExclusive, cpus)
}

// parked checks that parking is in force.
func (b *bench) parked(cpus string) {
	b.Helper()
	b.checkPartition(cgroup.Parking, "isolated")
	b.checkCPUs(cgroup.Parking, "", cpus)
}
