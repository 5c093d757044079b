package cgroup

import (
	"fmt"
	"math"
	"strings"

	godbus "github.com/godbus/dbus/v5"
	"github.com/opencontainers/cgroups/systemd"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Property is a setting of a unit (systemd.resource-control(5)) in text: CPUs and
// NUMA nodes as a list, weights as numbers, the quota as microseconds a second or
// ValueInf. The empty value is "not set". For UnitCPUs and UnitMems kernels before
// 7.0 then keep the value of a cgroup with tasks: see [Systemd.Revert].
type Property struct {
	Name, Value string
}

// unset is systemd's value for weights that are not set and for no quota
// (CGROUP_WEIGHT_INVALID, USEC_INFINITY).
const unset = math.MaxUint64

// encode returns what systemd wants on the wire. CPUs that are not possible are
// left out: the kernel would refuse the whole list for them.
func (p Property) encode(possible cpuset.Set) (v godbus.Variant, err error) {
	value, err := p.wire(possible)
	if err != nil {
		return v, fmt.Errorf("encode %s=%s: %w", p.Name, abbreviate(p.Value), err)
	}
	return godbus.MakeVariant(value), nil
}

func (p Property) wire(possible cpuset.Set) (any, error) {
	switch p.Name {
	case UnitCPUs:
		return wireSet(p.Value, possible)
	case UnitMems:
		return wireSet(p.Value, cpuset.Set{})
	case UnitWeight:
		if p.Value == "" {
			return uint64(unset), nil
		}
		w, err := parseUint(p.Value)
		if err != nil || w < minWeight || w > maxWeight {
			return nil, fmt.Errorf("want a weight from %d to %d", minWeight, maxWeight)
		}
		return w, nil
	case UnitQuota:
		if p.Value == "" || p.Value == ValueInf {
			return uint64(unset), nil
		}
		quota, err := parsePositive(p.Value)
		if err != nil {
			return nil, fmt.Errorf("want microseconds a second, or %s", ValueInf)
		}
		return uint64(quota), nil
	}
	return nil, fmt.Errorf("not a property that is set here")
}

// wireSet is systemd's mask, see decodeCPUs.
func wireSet(value string, possible cpuset.Set) ([]byte, error) {
	if value == "" {
		return []byte{}, nil
	}
	set, err := cpuset.Parse(value)
	if err != nil {
		return nil, err
	}
	if !possible.IsEmpty() {
		set = set.Intersection(possible)
	}
	if set.IsEmpty() {
		return nil, fmt.Errorf("none of these is possible (%s)", possible)
	}
	return systemd.RangeToBits(set.String())
}

// decodeCPUs reads systemd's mask: bit j of byte i is CPU, or NUMA node, 8i+j
// (src/shared/cpu-set-util.c).
func decodeCPUs(mask []byte) (cpuset.Set, error) {
	var cpus []int
	for i, b := range mask {
		for j := range 8 {
			if b&(1<<j) == 0 {
				continue
			}
			cpu := 8*i + j
			if cpu >= cpuset.MaxCPUs {
				return cpuset.Set{}, fmt.Errorf("number %d is above %d", cpu, cpuset.MaxCPUs-1)
			}
			cpus = append(cpus, cpu)
		}
	}
	return cpuset.Of(cpus...), nil
}

// unitInterface is the D-Bus interface that has the settings of a unit.
func unitInterface(unit string) (string, error) {
	switch {
	case strings.HasSuffix(unit, ".slice"):
		return "Slice", nil
	case strings.HasSuffix(unit, ".scope"):
		return "Scope", nil
	case strings.HasSuffix(unit, ".service"):
		return "Service", nil
	}
	return "", fmt.Errorf("unit %s is neither slice, scope nor service: it has no cgroup", abbreviate(unit))
}
