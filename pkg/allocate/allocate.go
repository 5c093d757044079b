// Package allocate chooses CPUs for one owner at a time.
//
// It is a function of the machine, what is free and the request: no clock, no
// state, no order of earlier calls. [Machine] is a topology in the form that the
// search needs, made once and shared; [Supply] is what there is to choose from.
package allocate

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Policy says what NUMA nodes a request may touch, under the kubelet's names for
// its topology manager (KEP-693).
type Policy string

// With None hints count for nothing. BestEffort prefers the hinted nodes;
// Restricted and SingleNUMANode refuse what they cannot give there.
const (
	None           Policy = "none"
	BestEffort     Policy = "best-effort"
	Restricted     Policy = "restricted"
	SingleNUMANode Policy = "single-numa-node"
)

// Wish is how much an attribute of CPUs counts.
type Wish string

// Wishes. The empty one stands for no wish at all.
const (
	Prefer  Wish = "prefer"
	Require Wish = "require"
	Avoid   Wish = "avoid"
)

// CoreType is a kind of core of a hybrid machine.
type CoreType string

// The empty CoreType stands for any.
const (
	Performance CoreType = "performance"
	Efficiency  CoreType = "efficiency"
)

// Options say how CPUs are chosen. The first five and their exclusions are those
// of the kubelet's static CPU manager policy, under its names
// (pkg/kubelet/cm/cpumanager/policy_options.go).
type Options struct {
	FullPCPUsOnly                bool
	DistributeCPUsAcrossNUMA     bool
	AlignBySocket                bool
	DistributeCPUsAcrossCores    bool
	PreferAlignCPUsByUncoreCache bool

	// TopologyPolicy is that of hints; the empty one is BestEffort.
	TopologyPolicy Policy
	// Isolated is the wish for CPUs that the kernel isolates since boot (isolcpus).
	Isolated Wish
	// CoreType, with CoreTypeWish Prefer or Require, chooses the kind of core on a
	// hybrid machine.
	CoreType     CoreType
	CoreTypeWish Wish
	// OneOwnerPerCore leaves the threads of a physical core to one owner: those
	// that it does not ask for stay empty.
	OneOwnerPerCore bool
}


// Request is what one owner asks for.
type Request struct {
	// CPUs is how many more it needs, above 0.
	CPUs int
	// Have are the CPUs that it has already, and Near those of its companions
	// (containers of the same pod): they attract.
	Have, Near cpuset.Set
	// Nodes are the IDs of the NUMA nodes of its devices and memory; empty means
	// that there is no hint.
	Nodes   cpuset.Set
	Options Options
}

// Refusal says why a request cannot be had.
type Refusal struct {
	// Asked and Free are numbers of CPUs; Free those that the options let count.
	Asked, Free int
	// Why says what is in the way, and Code is its stable name.
	Code string
	Why  string
}

// Error says all of it.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%d CPUs asked, %d free: %s", r.Asked, r.Free, r.Why)
}

// Take takes CPUs out of s, or returns a *Refusal and leaves s as it is.
func (s *Supply) Take(r Request) (cpuset.Set, error) {
	if int(s.total.cpus) < r.CPUs {
		return cpuset.Set{}, &Refusal{Asked: r.CPUs, Free: int(s.total.cpus), Code: "TooFew", Why: "there are too few"}
	}
	return s.pick(r.CPUs, r.Have), nil
}
