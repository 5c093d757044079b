package allocate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Policy selects the NUMA nodes that a request may touch. The names are the kubelet's for
// its topology manager (KEP-693).
type Policy string

// None ignores hints. BestEffort prefers the hinted nodes;
// Restricted and SingleNUMANode refuse requests that do not fit there.
const (
	None           Policy = "none"
	BestEffort     Policy = "best-effort"
	Restricted     Policy = "restricted"
	SingleNUMANode Policy = "single-numa-node"
)

// Preference is how much an attribute of CPUs counts.
type Preference string

// Preferences. The empty one stands for no preference. Prefer and Avoid never refuse a
// request: they have no effect if they cannot be met completely.
const (
	Prefer  Preference = "prefer"
	Require Preference = "require"
	Avoid   Preference = "avoid"
)

// CoreType is a kind of core of a hybrid machine.
type CoreType string

// The empty CoreType stands for any.
const (
	Performance CoreType = "performance"
	Efficiency  CoreType = "efficiency"
)

// Options configure how CPUs are chosen; see docs/explanation/allocation-rules.md. The first five
// and their exclusions are options of the kubelet's static CPU manager policy, under
// its names (pkg/kubelet/cm/cpumanager/policy_options.go).
type Options struct {
	FullPCPUsOnly                bool
	DistributeCPUsAcrossNUMA     bool
	AlignBySocket                bool
	DistributeCPUsAcrossCores    bool
	PreferAlignCPUsByUncoreCache bool

	TopologyPolicy Policy     // policy for hints; the empty one is BestEffort
	Isolated       Preference // preference for CPUs that the kernel isolates since boot (isolcpus)
	// CoreType, with CoreTypePreference Prefer or Require, chooses the kind of core on a
	// hybrid machine. On others it counts for nothing.
	CoreType CoreType
	// The daemon keeps a digest of the encoded options over its upgrades, so this name stays.
	CoreTypePreference Preference `json:"CoreTypeWish"`
	// OneOwnerPerCore reserves the threads of a physical core for one owner: its
	// other threads remain idle.
	OneOwnerPerCore bool
}

// Validate returns an error for each value that is not known and for each two
// options that contradict each other: the exclusions of the kubelet
// (ValidateStaticPolicyOptions and NewStaticPolicyOptions there). Each error names
// the options, their values and what to write instead.
func (o *Options) Validate() []error {
	var errs []error
	for _, x := range [...]struct {
		both      bool
		a, b, why string
	}{
		{o.FullPCPUsOnly && o.DistributeCPUsAcrossCores, "full-pcpus-only: true", "distribute-cpus-across-cores: true",
			"one takes whole cores, the other one thread of each"},
		{o.DistributeCPUsAcrossNUMA && o.DistributeCPUsAcrossCores, "distribute-cpus-across-numa: true", "distribute-cpus-across-cores: true",
			"one spreads over NUMA nodes, the other over cores"},
		{o.PreferAlignCPUsByUncoreCache && o.DistributeCPUsAcrossCores, "prefer-align-cpus-by-uncorecache: true", "distribute-cpus-across-cores: true",
			"one keeps caches together, the other spreads over cores"},
		{o.PreferAlignCPUsByUncoreCache && o.DistributeCPUsAcrossNUMA, "prefer-align-cpus-by-uncorecache: true", "distribute-cpus-across-numa: true",
			"one keeps caches together, the other spreads over NUMA nodes"},
		{o.AlignBySocket && o.TopologyPolicy == SingleNUMANode, "align-by-socket: true", "topology-policy: single-numa-node",
			"a socket may have several NUMA nodes"},
	} {
		if x.both {
			errs = append(errs, fmt.Errorf("%s and %s contradict each other: %s; turn one of them off", x.a, x.b, x.why))
		}
	}
	// Empty values are valid.
	if err := known(cmp.Or(o.TopologyPolicy, BestEffort), None, BestEffort, Restricted, SingleNUMANode); err != nil {
		errs = append(errs, fmt.Errorf("topology-policy: %q %w", o.TopologyPolicy, err))
	}
	if err := known(cmp.Or(o.Isolated, Prefer), Prefer, Require, Avoid); err != nil {
		errs = append(errs, fmt.Errorf("isolated-cpus: %q %w", o.Isolated, err))
	}
	knownType := o.CoreType == "" || o.CoreType == Performance || o.CoreType == Efficiency
	isKnownPreference := o.CoreTypePreference == "" || o.CoreTypePreference == Prefer || o.CoreTypePreference == Require
	if !knownType || !isKnownPreference || (o.CoreType == "") != (o.CoreTypePreference == "") {
		errs = append(errs, fmt.Errorf("core-type: type %q with preference %q is not known; write %s, %s, prefer-%s or prefer-%s",
			o.CoreType, o.CoreTypePreference, Performance, Efficiency, Performance, Efficiency))
	}
	return errs
}

// option is an option as people write it.
type option struct {
	name string
	set  func(value string) error
}

// all returns the options, the kubelet's first.
func (o *Options) all() []option {
	isOn := func(name string, to *bool) option {
		return option{name, func(value string) error {
			if value != "true" && value != "false" {
				return errors.New("is neither true nor false")
			}
			*to = value == "true"
			return nil
		}}
	}
	return []option{
		isOn("full-pcpus-only", &o.FullPCPUsOnly),
		isOn("distribute-cpus-across-numa", &o.DistributeCPUsAcrossNUMA),
		isOn("align-by-socket", &o.AlignBySocket),
		isOn("distribute-cpus-across-cores", &o.DistributeCPUsAcrossCores),
		isOn("prefer-align-cpus-by-uncorecache", &o.PreferAlignCPUsByUncoreCache),
		isOn("one-owner-per-core", &o.OneOwnerPerCore),
		{"topology-policy", func(value string) error {
			return set(&o.TopologyPolicy, value, None, BestEffort, Restricted, SingleNUMANode)
		}},
		{"isolated-cpus", func(value string) error { return set(&o.Isolated, value, Prefer, Require, Avoid, anyValue) }},
		{"core-type", o.setCoreType},
	}
}

// OptionNames returns the names that [Options.Set] knows, in the order of messages. The
// kubelet's names are used for its options.
func OptionNames() []string {
	var names []string
	for _, option := range new(Options).all() {
		names = append(names, option.name)
	}
	return names
}

// Set sets the option of a name to a value in text form. Its error states the invalid name or
// value and the remedy, and leaves o unchanged. Validate checks
// combinations of options.
func (o *Options) Set(name, value string) error {
	for _, option := range o.all() {
		if option.name == name {
			return option.set(value)
		}
	}
	return fmt.Errorf("is not a known option; known are %s", strings.Join(OptionNames(), ", "))
}

// anyValue removes a preference.
const anyValue = "any"

// preferPrefix distinguishes a preferred kind of core from a required one.
const preferPrefix = "prefer-"

func (o *Options) setCoreType(value string) error {
	var kind CoreType
	err := set(&kind, value, Performance, Efficiency, preferPrefix+Performance, preferPrefix+Efficiency, anyValue)
	if err != nil {
		return err
	}
	o.CoreType, o.CoreTypePreference = kind, Require
	if rest, preferred := strings.CutPrefix(value, preferPrefix); preferred {
		o.CoreType, o.CoreTypePreference = CoreType(rest), Prefer
	} else if kind == "" {
		o.CoreTypePreference = ""
	}
	return nil
}

func set[T ~string](to *T, value string, allowed ...T) error {
	if err := known(T(value), allowed...); err != nil {
		return err
	}
	if *to = T(value); value == anyValue {
		*to = ""
	}
	return nil
}

// known returns an error with the allowed values if value is none of them.
func known[T ~string](value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	last := len(names) - 1
	return fmt.Errorf("is not known; write %s or %s", strings.Join(names[:last], ", "), names[last])
}
