// Package noise reports how exclusive CPUs are isolated, and which kernel work remains on them.
// Kernel work that is not disabled at boot remains: no kernel moves the timer tick, RCU callbacks
// or managed interrupts later. For these, the package returns the missing boot arguments. Pure.
package noise

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Mode is what keeps others off exclusive CPUs.
type Mode string

// With CPUSet it is the sets of all others, with the other two the kernel.
const (
	CPUSet   Mode = "cpuset"
	Root     Mode = "partition-root"
	Isolated Mode = "partition-isolated"
)

// Machine is what the kernel does where it was not told otherwise.
type Machine struct {
	Boot
	// Isolated and NohzFull are what the kernel has made of isolcpus=domain and
	// nohz_full= (sysfs, devices/system/cpu/isolated and nohz_full).
	Isolated, NohzFull cpuset.Set
}

// Report is what one owner of CPUs has.
type Report struct {
	CPUs cpuset.Set `json:"cpus"`
	Mode Mode       `json:"mode"`
	// Balanced are those of its CPUs that the scheduler balances: among each other with
	// Mode Root, with the rest of the machine with CPUSet. Tick are those that keep the
	// timer tick while one thread runs, RCU those that run RCU callbacks, and ManagedIRQ
	// those that a driver's managed interrupts are spread over.
	Balanced   cpuset.Set `json:"balanced,omitzero"`
	Tick       cpuset.Set `json:"tick,omitzero"`
	RCU        cpuset.Set `json:"rcu,omitzero"`
	ManagedIRQ cpuset.Set `json:"managedIRQ,omitzero"`
}

// Of is the report of an owner of CPUs. The kernel offloads RCU callbacks of nohz_full=
// as if rcu_nocbs= had them (Documentation/admin-guide/kernel-parameters.txt).
func (m Machine) Of(cpus cpuset.Set, mode Mode) Report {
	r := Report{CPUs: cpus, Mode: mode, Tick: cpus.Difference(m.NohzFull), ManagedIRQ: cpus.Difference(m.ManagedIRQ)}
	r.RCU = cpus.Difference(m.NoCallbacks.Union(m.NohzFull))
	if mode != Isolated {
		r.Balanced = cpus.Difference(m.Isolated)
	}
	return r
}

// Arguments are those for the kernel's command line with which none of the CPUs has any
// of Tick, RCU and ManagedIRQ, in the place of what it has of these now; none if that is
// so already. The CPUs that an argument concerns already stay in it.
func (m Machine) Arguments(cpus cpuset.Set) []string {
	var args []string
	for _, a := range []struct {
		prefix string
		have   cpuset.Set
		lacks  cpuset.Set
	}{
		{"nohz_full=", m.NohzFull, m.NohzFull},
		{"rcu_nocbs=", m.NoCallbacks, m.NoCallbacks.Union(m.NohzFull)},
		{"isolcpus=managed_irq,", m.ManagedIRQ, m.ManagedIRQ},
	} {
		if !cpus.IsSubsetOf(a.lacks) {
			args = append(args, a.prefix+a.have.Union(cpus).String())
		}
	}
	return args
}

// Balancing is off, own (its CPUs among each other) or node.
func (r Report) Balancing() string {
	switch {
	case r.Balanced.IsEmpty():
		return "off"
	case r.Mode == Root:
		return "own"
	}
	return "node"
}

// String is the report in a few words.
func (r Report) String() string {
	var stays []string
	for _, s := range []struct {
		name string
		cpus cpuset.Set
	}{{"timer tick", r.Tick}, {"RCU callbacks", r.RCU}, {"managed interrupts", r.ManagedIRQ}} {
		switch {
		case s.cpus.Equal(r.CPUs):
			stays = append(stays, s.name)
		case !s.cpus.IsEmpty():
			stays = append(stays, fmt.Sprintf("%s (CPUs %s)", s.name, s.cpus))
		}
	}
	if len(stays) == 0 {
		return fmt.Sprintf("%s, load balancing %s", r.Mode, r.Balancing())
	}
	return fmt.Sprintf("%s, load balancing %s, with %s", r.Mode, r.Balancing(), strings.Join(stays, ", "))
}
