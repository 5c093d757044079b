package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const (
	codeNoPartitions pools.Code = "NoPartitions"
	codeNoPartition  pools.Code = "NoPartition"
	codeLeakedCPUs   pools.Code = "LeakedCPUs"
	codeNoParking    pools.Code = "NoParking" // free CPUs are not parked although configured

	codeForeignPartition pools.Code = "ForeignPartition"
	codeStuckPartition   pools.Code = "StuckPartition"
)

// cpusetsAlone begins the text of the problem of an owner that should be a partition.
const cpusetsAlone = "its CPUs are its own by cpusets alone: "

// Problems returns containers that are not isolated as configured, and lost CPUs.
func (p *Partitions) Problems(targets []cgroup.Target) (all []pools.Problem) {
	add := func(at cgroup.Path, code pools.Code, text string) {
		problem := pools.Problem{Reason: pools.Reason{Code: code, Text: text}}
		if at != "" {
			p.Objects.NameOwner(&problem, at)
		}
		all = append(all, problem)
	}
	on, why := p.Settings.Partitions(p.Host.Kernel)
	if why != "" {
		add("", codeNoPartitions, why)
	}
	if p.Settings.Config.Park && !on {
		why = cmp.Or(why, "with guaranteed.isolation auto this kernel makes no partitions (7.0 and later do)")
		add("", codeNoParking, "guaranteed.park is true, and free CPUs are not parked: "+why)
	}
	if lost := p.unowned.lost; !lost.IsEmpty() {
		add("", codeLeakedCPUs, fmt.Sprintf("CPUs %s are online and in no cgroup: they are not allocated until the machine boots", lost))
	}
	for _, t := range targets {
		if on && t.Exclusive && t.Container != "" && !t.Mixed.IsEmpty() {
			add(t.Path, codeNoPartition, cpusetsAlone+t.Unpartitionable())
		}
		st := p.Cache.Current(t.Path).Partition
		if _, isWanted := p.last[t.Path]; !isWanted && st.Valid() && !p.Journal.Originals.Has(t.Path, cgroup.FilePartition) {
			add(t.Path, codeForeignPartition, fmt.Sprintf("%s is a partition (%s) that is not in cpupoold's journal: its cpuset.cpus has no effect; write member to its %s",
				t.Path, st, cgroup.FilePartition))
		}
	}
	for _, at := range slices.Sorted(maps.Keys(p.stuck)) {
		if p.last[at].Why == "" { // otherwise the outcome is a problem already
			add(at, codeStuckPartition, fmt.Sprintf("the kernel refuses to end the partition %s: %s; its CPUs are missing elsewhere", at, p.stuck[at].why))
		}
	}
	for _, at := range slices.Sorted(maps.Keys(p.last)) {
		switch o := p.last[at]; {
		case o.Phase != cgroup.PartitionRefused && o.Phase != cgroup.PartitionWaits:
		case at == cgroup.Parking:
			add(at, codeNoParking, "free CPUs are not parked: "+o.Why)
		default:
			add(at, codeNoPartition, cpusetsAlone+o.Why)
		}
	}
	return all
}
