package allocate

import "fmt"

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

// Wishes. The empty one stands for no wish at all. Prefer and Avoid never refuse
// anything: where they cannot be had in full, they count for nothing.
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

// Options say how CPUs are chosen; see the package comment. The first five and
// their exclusions are those of the kubelet's static CPU manager policy, under
// its names (pkg/kubelet/cm/cpumanager/policy_options.go).
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
	// hybrid machine. On others it counts for nothing.
	CoreType     CoreType
	CoreTypeWish Wish
	// OneOwnerPerCore leaves the threads of a physical core to one owner: those
	// that it does not ask for stay empty.
	OneOwnerPerCore bool
}

// Validate returns an error for each value that is not known and for each two
// options that contradict each other: the exclusions of the kubelet
// (ValidateStaticPolicyOptions and NewStaticPolicyOptions there). Each error names
// the options, their values and what to write instead.
func (o *Options) Validate() []error {
	var errs []error
	for _, pair := range o.exclusions() {
		if pair.a.on && pair.b.on {
			errs = append(errs, fmt.Errorf("%s: %s and %s: %s contradict each other: %s; turn one of them off",
				pair.a.name, pair.a.value, pair.b.name, pair.b.value, pair.why))
		}
	}
	return append(errs, o.validateValues()...)
}

// setting is an option as people write it.
type setting struct {
	name, value string
	on          bool
}

type exclusion struct {
	a, b setting
	why  string
}

func (o *Options) exclusions() [5]exclusion {
	full := setting{"full-pcpus-only", "true", o.FullPCPUsOnly}
	numa := setting{"distribute-cpus-across-numa", "true", o.DistributeCPUsAcrossNUMA}
	socket := setting{"align-by-socket", "true", o.AlignBySocket}
	cores := setting{"distribute-cpus-across-cores", "true", o.DistributeCPUsAcrossCores}
	uncore := setting{"prefer-align-cpus-by-uncorecache", "true", o.PreferAlignCPUsByUncoreCache}
	single := setting{"topology-policy", string(SingleNUMANode), o.TopologyPolicy == SingleNUMANode}
	return [...]exclusion{
		{full, cores, "one takes whole cores, the other one thread of each"},
		{numa, cores, "one spreads over NUMA nodes, the other over cores"},
		{uncore, cores, "one keeps caches together, the other spreads over cores"},
		{uncore, numa, "one keeps caches together, the other spreads over NUMA nodes"},
		{socket, single, "a socket may have several NUMA nodes"},
	}
}

func (o *Options) validateValues() []error {
	var errs []error
	switch o.TopologyPolicy {
	case "", None, BestEffort, Restricted, SingleNUMANode:
	default:
		errs = append(errs, fmt.Errorf("topology-policy: %q is not known; write %s, %s, %s or %s",
			o.TopologyPolicy, None, BestEffort, Restricted, SingleNUMANode))
	}
	switch o.Isolated {
	case "", Prefer, Require, Avoid:
	default:
		errs = append(errs, fmt.Errorf("isolated-cpus: %q is not known; write %s, %s or %s", o.Isolated, Prefer, Require, Avoid))
	}
	knownType := o.CoreType == "" || o.CoreType == Performance || o.CoreType == Efficiency
	knownWish := o.CoreTypeWish == "" || o.CoreTypeWish == Prefer || o.CoreTypeWish == Require
	if !knownType || !knownWish || (o.CoreType == "") != (o.CoreTypeWish == "") {
		errs = append(errs, fmt.Errorf("core-type: type %q with wish %q is not known; write %s, %s, prefer-%s or prefer-%s",
			o.CoreType, o.CoreTypeWish, Performance, Efficiency, Performance, Efficiency))
	}
	return errs
}
