// Package noise reports how exclusive CPUs are isolated, and which kernel work remains on them.
// Kernel work that is not disabled at boot remains: no kernel moves the timer tick, RCU callbacks
// or managed interrupts later. For these, the package returns the missing boot arguments. Pure.
package noise

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Mode is the mechanism that excludes other tasks from exclusive CPUs.
type Mode string

// The modes. CPUSet excludes by the cpusets of all others, the other modes by a partition.
const (
	CPUSet   Mode = "cpuset"
	Root     Mode = "partition-root"
	Isolated Mode = "partition-isolated"
)

// Machine holds the CPUs that the kernel isolates since boot.
type Machine struct {
	Boot
	// Isolated and NohzFull contain isolcpus=domain and nohz_full=, from files in sysfs.
	Isolated, NohzFull cpuset.Set
}

// Report describes the exclusive CPUs of one owner.
type Report struct {
	CPUs cpuset.Set `json:"cpus"`
	Mode Mode       `json:"mode"`
	// Balanced contains the CPUs with load balancing: among each other in mode Root, with
	// the rest of the machine in mode CPUSet.
	Balanced cpuset.Set `json:"balanced,omitzero"`
	// Tick contains the CPUs with a timer tick while one thread runs.
	Tick cpuset.Set `json:"tick,omitzero"`
	// RCU contains the CPUs that run RCU callbacks.
	RCU cpuset.Set `json:"rcu,omitzero"`
	// ManagedIRQ contains the CPUs to which drivers may assign managed interrupts.
	ManagedIRQ cpuset.Set `json:"managedIRQ,omitzero"`
}

// Of returns the report of an owner with cpus. nohz_full= includes rcu_nocbs= for its CPUs
// (Documentation/admin-guide/kernel-parameters.txt).
func (m Machine) Of(cpus cpuset.Set, mode Mode) Report {
	r := Report{CPUs: cpus, Mode: mode, Tick: cpus.Difference(m.NohzFull), ManagedIRQ: cpus.Difference(m.ManagedIRQ)}
	r.RCU = cpus.Difference(m.NoCallbacks.Union(m.NohzFull))
	if mode != Isolated {
		r.Balanced = cpus.Difference(m.Isolated)
	}
	return r
}

// Arguments returns the missing kernel arguments: with them, Tick, RCU and ManagedIRQ of
// cpus are empty. Each replaces the present argument of its name, and contains its CPUs.
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

// Balancing returns "off", "own" (the owner's CPUs among each other) or "node".
func (r Report) Balancing() string {
	switch {
	case r.Balanced.IsEmpty():
		return "off"
	case r.Mode == Root:
		return "own"
	}
	return "node"
}

// String returns the report in one line.
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
