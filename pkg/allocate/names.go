package allocate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
	o.CoreType, o.CoreTypeWish = kind, Require
	if rest, preferred := strings.CutPrefix(value, preferPrefix); preferred {
		o.CoreType, o.CoreTypeWish = CoreType(rest), Prefer
	} else if kind == "" {
		o.CoreTypeWish = ""
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
