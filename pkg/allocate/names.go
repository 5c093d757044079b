package allocate

import (
	"errors"
	"fmt"
	"strings"
)

// OptionNames returns the names that [Options.Set] knows: the kubelet's where it
// has the option, in the order in which people are told of them.
func OptionNames() []string {
	return []string{
		"full-pcpus-only",
		"distribute-cpus-across-numa",
		"align-by-socket",
		"distribute-cpus-across-cores",
		"prefer-align-cpus-by-uncorecache",
		"one-owner-per-core",
		"topology-policy",
		"isolated-cpus",
		"core-type",
	}
}

// Set sets the option of a name to a value as people write it. Its error says
// what is wrong with name or value and what to write instead, and leaves o as it
// is. Whether options go together is for Validate.
func (o *Options) Set(name, value string) error {
	switch name {
	case "full-pcpus-only":
		return setBool(&o.FullPCPUsOnly, value)
	case "distribute-cpus-across-numa":
		return setBool(&o.DistributeCPUsAcrossNUMA, value)
	case "align-by-socket":
		return setBool(&o.AlignBySocket, value)
	case "distribute-cpus-across-cores":
		return setBool(&o.DistributeCPUsAcrossCores, value)
	case "prefer-align-cpus-by-uncorecache":
		return setBool(&o.PreferAlignCPUsByUncoreCache, value)
	case "one-owner-per-core":
		return setBool(&o.OneOwnerPerCore, value)
	case "topology-policy":
		return setOneOf(&o.TopologyPolicy, value, None, BestEffort, Restricted, SingleNUMANode)
	case "isolated-cpus":
		return o.setIsolated(value)
	case "core-type":
		return o.setCoreType(value)
	default:
		return fmt.Errorf("is not a known option; known are %s", strings.Join(OptionNames(), ", "))
	}
}

// anyValue takes a wish back.
const anyValue = "any"

func (o *Options) setIsolated(value string) error {
	if value == anyValue {
		o.Isolated = ""
		return nil
	}
	if setOneOf(&o.Isolated, value, Prefer, Require, Avoid) != nil {
		return errors.New("is not known; write prefer, require, avoid or any")
	}
	return nil
}

// setCoreType accepts a kind of core, which is then required, and one that is
// only preferred.
func (o *Options) setCoreType(value string) error {
	if value == anyValue {
		o.CoreType, o.CoreTypeWish = "", ""
		return nil
	}
	wish := Require
	kind, preferred := strings.CutPrefix(value, "prefer-")
	if preferred {
		wish = Prefer
	}
	if setOneOf(&o.CoreType, kind, Performance, Efficiency) != nil {
		return errors.New("is not known; write performance, efficiency, prefer-performance, prefer-efficiency or any")
	}
	o.CoreTypeWish = wish
	return nil
}

func setBool(to *bool, value string) error {
	switch value {
	case "true":
		*to = true
	case "false":
		*to = false
	default:
		return errors.New("is neither true nor false")
	}
	return nil
}

func setOneOf[T ~string](to *T, value string, allowed ...T) error {
	var names []string
	for _, a := range allowed {
		if T(value) == a {
			*to = a
			return nil
		}
		names = append(names, string(a))
	}
	last := len(names) - 1
	return fmt.Errorf("is not known; write %s or %s", strings.Join(names[:last], ", "), names[last])
}
