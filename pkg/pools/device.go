package pools

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// ClaimPool are the CPUs of ResourceClaims on a machine.
type ClaimPool struct {
	CPUs cpuset.Set // Online CPUs. No other pool has them.
	Away cpuset.Set // Offline CPUs of the list.
	Lend bool       // The shared pool runs on the CPUs that no claim has at the moment.
}

// Device is a part of the machine of which claims get CPUs. It has the CPUs of the claim pool in one
// NUMA node. If the machine has several types of cores, it has the cores of one type. Its capacity is
// the number of its CPUs.
type Device struct {
	Name     string            // numa0, or numa0-performance on a machine with several types of cores
	Node     int               // ID of the NUMA node
	CoreType topology.CoreKind // Unknown on a machine with one type of cores
	// CPUs are the online CPUs that claims can get. With whole cores, a core with an offline
	// thread is not part of them.
	CPUs cpuset.Set
	// Step is the number of which each amount is a multiple: the threads of a core if the
	// options give whole cores, else 1.
	Step int
}

// Devices returns the devices of the claim pool, by NUMA node and then by type of core.
func (p *Pools) Devices(m *allocate.Machine) []Device {
	t := m.Topology()
	var all []Device
	for id := range p.Claims.CPUs.All() {
		cpu, online := t.CPU(id)
		if !online {
			continue
		}
		d := Device{Name: "numa" + strconv.Itoa(t.Nodes[cpu.Node].ID), Node: t.Nodes[cpu.Node].ID, Step: 1}
		if cpu.Kind != topology.Unknown {
			d.CoreType = cpu.Kind
			d.Name += "-" + cpu.Kind.String()
		}
		i := 0
		for i < len(all) && cmp.Or(cmp.Compare(all[i].Node, d.Node), cmp.Compare(all[i].CoreType, d.CoreType)) < 0 {
			i++
		}
		if i == len(all) || all[i].Name != d.Name {
			all = slices.Insert(all, i, d)
		}
		all[i].CPUs = all[i].CPUs.Union(cpuset.Of(id))
	}
	for i := range all {
		if d := &all[i]; p.Options.FullPCPUsOnly || p.Options.OneOwnerPerCore {
			d.onlyWholeCores(t)
		}
	}
	return all
}

// onlyWholeCores removes the CPUs of cores that lack a thread.
func (d *Device) onlyWholeCores(t *topology.Topology) {
	for id := range d.CPUs.All() {
		d.Step = max(d.Step, t.ThreadSiblings(id).Intersection(d.CPUs).Len())
	}
	for id := range d.CPUs.All() {
		if t.ThreadSiblings(id).Intersection(d.CPUs).Len() < d.Step {
			d.CPUs = d.CPUs.Difference(cpuset.Of(id))
		}
	}
}

// claimOptions returns the options for claims. The scheduler has chosen the node and the type of core, and an
// option that refuses CPUs would contradict the capacity that it has counted.
func (p *Pools) claimOptions() allocate.Options {
	o := p.Options
	o.TopologyPolicy, o.CoreType, o.CoreTypePreference = "", "", ""
	o.DistributeCPUsAcrossNUMA, o.AlignBySocket = false, false
	if o.OneOwnerPerCore { // amounts are whole cores, and threads of other cores would be lost for other claims
		o.FullPCPUsOnly, o.DistributeCPUsAcrossCores = true, false
	}
	if o.Isolated == allocate.Require {
		o.Isolated = allocate.Prefer
	}
	return o
}
