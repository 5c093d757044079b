package daemon

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// settings are the configuration in force on the machine that it is for.
type settings struct {
	config   *config.Config
	topology *topology.Topology
	machine  *allocate.Machine
	pools    pools.Pools
	names    workload.Names
}

// fixed are keys of the configuration that are read at the start only, and of
// which old and new differ.
func fixed(old, changed *config.Config) []string {
	var keys []string
	for key, differs := range map[string]bool{
		"containerRuntimeEndpoint": old.RuntimeEndpoint != changed.RuntimeEndpoint,
		"stateDir":                 old.StateDir != changed.StateDir,
		"runDir":                   old.RunDir != changed.RunDir,
		"listenAddress":            old.ListenAddress != changed.ListenAddress,
		"logLevel":                 old.LogLevel != changed.LogLevel,
		"logFormat":                old.LogFormat != changed.LogFormat,
	} {
		if differs {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// change replaces the settings, or leaves them as they are if the configuration
// does not fit the machine.
func (s *settings) change(c *config.Config, t *topology.Topology) error {
	p, err := c.Resolve(t)
	if err != nil {
		return err
	}
	machine := s.machine
	if machine == nil || s.topology != t {
		machine = allocate.New(t)
	}
	*s = settings{config: c, topology: t, machine: machine, pools: p, names: workload.Names{Domain: c.AnnotationDomain}}
	return nil
}
