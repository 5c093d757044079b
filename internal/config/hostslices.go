package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// HostSlices (hostSlices) selects the CPUs of host services: systemd's slices with all their
// units.
type HostSlices struct {
	// Enabled (enabled) confines them to a management pool that is a list of CPUs.
	// Default: false, and they run everywhere.
	Enabled bool
	// Pool (pool) is the type of that pool. Default: management.
	Pool string
	// Weight (weight) is the CPUWeight of each, 1..10000; 0 does not change it. Default: 0.
	Weight uint64
	// Units (units) are slices and services that are confined in addition to the standard
	// units: init.scope and the slices machine, system and user.
	Units []string
}

// defaultHostPool is the type of the first management pool, for the host itself.
const defaultHostPool = "management"

func standardSlices() []string {
	return []string{"init.scope", "machine.slice", "system.slice", "user.slice"}
}

// HostUnits returns the sorted units that confine host services, without the units of the key
// units. The result does not depend on Enabled.
func (c *Config) HostUnits() []string {
	names := slices.Concat(standardSlices(), c.HostSlices.Units)
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(c.Pools.Units, func(u pools.UnitSpec) bool { return u.Name == name })
	})
}

// HostCPUs returns the CPUs of host services with the pools of a machine; empty if they run everywhere. While
// their pool has no online CPU, they get offline.
func (c *Config) HostCPUs(p *pools.Pools, offline cpuset.Set) cpuset.Set {
	spec := slices.IndexFunc(c.Pools.Partitions, func(p poolspec.Partition) bool { return p.Type == c.HostSlices.Pool })
	if !c.HostSlices.Enabled || spec < 0 || c.Pools.Partitions[spec].All {
		return cpuset.Set{}
	}
	if i := slices.IndexFunc(p.Partitions, func(p pools.Partition) bool { return p.Type == c.HostSlices.Pool }); i >= 0 {
		return p.Partitions[i].CPUs
	}
	return offline
}

func (d *decoder) hostSlices(key string, n *yaml.Node, c *Config) {
	h := &c.HostSlices
	d.mapping(key, n, []field{
		{"enabled", boolean(d, &h.Enabled)},
		{"pool", d.scalar(func(s string) error { h.Pool = s; return nil })},
		{"weight", d.scalar(func(s string) error {
			return setNumber(&h.Weight, s, 1, 10000, "is not a weight in 1..10000; omit the key to keep the present weights")
		})},
		{"units", func(key string, n *yaml.Node) {
			d.sequence(key, n, d.scalar(func(s string) error {
				earlier := h.Units
				h.Units = append(h.Units, s)
				return checkHostUnit(s, earlier)
			}))
		}},
	})
}

// checkHostUnit returns an error if a unit cannot be confined in addition to the standard slices
// and earlier units.
func checkHostUnit(name string, others []string) error {
	if problem := poolspec.UnitNameProblem(name); problem != "" {
		return errors.New(problem)
	}
	for _, other := range slices.Concat(standardSlices(), others) {
		switch {
		case other == name:
			return errors.New("is confined already; remove it")
		case sliceWithin(name, other):
			return fmt.Errorf("lies in %s, which is confined with all that is in it; remove it", other)
		case sliceWithin(other, name):
			return fmt.Errorf("has %s in it; remove one of the two", other)
		}
	}
	return nil
}

// sliceWithin reports whether the slice inner is below outer.
func sliceWithin(inner, outer string) bool {
	stem, ok := strings.CutSuffix(outer, ".slice")
	return ok && strings.HasSuffix(inner, ".slice") && strings.HasPrefix(inner, stem+"-")
}

// checkHostSlices returns the conflicts of hostSlices with other keys.
func (c *Config) checkHostSlices() []error {
	var problems []error
	const key = "hostSlices.pool"
	known := slices.ContainsFunc(c.Pools.Partitions, func(p poolspec.Partition) bool { return p.Type == c.HostSlices.Pool })
	if c.origins.has(key) && !known {
		problems = append(problems, c.origins.problem(key, c.HostSlices.Pool, "there is no such pool; write the type of a partition"))
	}
	for i, name := range c.HostSlices.Units {
		if slices.ContainsFunc(c.Pools.Units, func(u pools.UnitSpec) bool { return u.Name == name }) {
			problems = append(problems, c.origins.problem(fmt.Sprintf("hostSlices.units[%d]", i), name, "the key units has a place for it, too; remove one of the two"))
		}
	}
	return problems
}
