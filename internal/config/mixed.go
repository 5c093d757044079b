package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// mixed decodes which CPUs containers may have beside their own, and whose. What can be
// seen in a pools.Spec is left to Resolve.
func (d *decoder) mixed(key string, n *yaml.Node, m *pools.Mixed) {
	d.mapping(key, n, []field{
		{"cpus", d.cpus(func(s string) error {
			if m.Shared = s == string(pools.Shared); m.Shared {
				return nil
			}
			set, err := parseCPUs(s, string(pools.Shared))
			m.CPUs = set
			return err
		})},
		{"namespaces", func(key string, n *yaml.Node) {
			d.sequence(key, n, d.scalar(func(s string) error {
				m.Namespaces = append(m.Namespaces, s)
				return nil
			}))
		}},
	})
}

// setInfra accepts a pool for pause containers: whether there is such a partition is
// seen by Resolve.
func setInfra(typ *string, s string) error {
	if *typ = s; s == string(pools.Shared) {
		*typ = ""
	}
	return nil
}
