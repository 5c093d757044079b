package daemon

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// errOtherOwner refuses a change that only a start can make: preflight has looked at
// the kubelet's policy for the value before.
var errOtherOwner = errors.New("guaranteed.exclusive is another one: who gives containers CPUs does not change while the daemon runs; restart it, with the kubelet's cpuManagerPolicy to match")

// settings are the configuration in force on the machine that it is for.
type settings struct {
	config   *config.Config
	topology *topology.Topology
	machine  *allocate.Machine // made once of topology
	pools    pools.Pools
	names    workload.Names
	now      accepted // describes pools and machine
	// fits is what is to be remembered of pools that fit this machine; nil when
	// they had to be adapted, and adapted says how.
	fits    *accepted
	adapted []string
}

// fixed are keys of the configuration that are read at the start only, and of
// which old and new differ.
func fixed(old, changed *config.Config) []string {
	var keys []string
	for key, differs := range map[string]bool{
		"mode":                     old.Mode != changed.Mode,
		"containerRuntimeEndpoint": old.RuntimeEndpoint != changed.RuntimeEndpoint,
		"kubeletStateDir":          old.KubeletStateDir != changed.KubeletStateDir,
		"podResourcesSocket":       old.PodResourcesSocket != changed.PodResourcesSocket,
		"nriSocket":                old.NRISocket != changed.NRISocket,
		"stateDir":                 old.StateDir != changed.StateDir,
		"runDir":                   old.RunDir != changed.RunDir,
		"listenAddress":            old.ListenAddress != changed.ListenAddress,
		"node.enabled":             old.Node.Enabled != changed.Node.Enabled,
		"node.name":                old.Node.Name != changed.Node.Name,
		"node.kubeconfig":          old.Node.Kubeconfig != changed.Node.Kubeconfig,
		"namespacePermission":      old.NamespacePermission != changed.NamespacePermission,
		"annotationDomain":         old.NamespacePermission == config.PermissionAnnotation && old.AnnotationDomain != changed.AnnotationDomain,
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

// begin makes the settings of a daemon that starts. It does not refuse pools that do
// not fit the machine: a node that boots must not wait for somebody to correct a
// file, and a lost journal cannot tell what was right before. What is wrong comes
// back, and the pools in force are what of them can be had.
func (s *settings) begin(c *config.Config, t *topology.Topology) (unfit, err error) {
	err = s.set(c, t, func(_ accepted, why error) bool {
		unfit = why
		return true
	})
	return unfit, err
}

// change replaces the settings, or leaves them as they are if the configuration
// does not fit the machine. One whose pools did fit another machine, before, is
// adapted, and so is one with those that are in force.
func (s *settings) change(c *config.Config, t *topology.Topology, before *accepted) error {
	if s.config != nil && s.config.Pools.Guaranteed.Kubelet != c.Pools.Guaranteed.Kubelet {
		return errOtherOwner
	}
	return s.set(c, t, func(now accepted, _ error) bool {
		return before.elsewhere(now) || s.config != nil && s.now.Pools == now.Pools
	})
}

// set replaces the settings. Pools that do not fit the machine are an error, unless
// adapt lets them be adapted.
func (s *settings) set(c *config.Config, t *topology.Topology, adapt func(now accepted, unfit error) bool) error {
	now, err := acceptedOn(c, t)
	if err != nil {
		return fmt.Errorf("digest of the pools: %w", err)
	}
	next := settings{config: c, topology: t, machine: s.machine, names: c.Names(), now: now}
	if next.pools, err = c.Resolve(t); err == nil {
		next.fits = &now
	} else {
		if t.Online.IsEmpty() || !adapt(now, err) {
			return err
		}
		var differences []error
		next.pools, differences = c.Pools.Adapt(t)
		for _, d := range differences {
			next.adapted = append(next.adapted, d.Error())
		}
	}
	if next.machine == nil || s.topology != t {
		next.machine = allocate.New(t)
	}
	*s = next
	return nil
}

// unitNames are the systemd units of the configuration: those with a place of their
// own, and those of host services.
func (s *settings) unitNames() []string { return slices.Concat(s.placedNames(), s.hostUnits()) }

// placedNames are those with a place of their own.
func (s *settings) placedNames() []string {
	names := make([]string, len(s.pools.Units))
	for i, u := range s.pools.Units {
		names[i] = u.Name
	}
	return names
}

// offline are the CPUs that pools would have if they were online.
func (s *settings) offline() cpuset.Set { return s.pools.Offline.Union(s.pools.Away) }

// nodes are the IDs of the NUMA nodes that CPUs are in.
func (s *settings) nodes(cpus cpuset.Set) cpuset.Set {
	var ids []int
	for _, n := range s.topology.Nodes {
		if n.CPUs.Overlaps(cpus) {
			ids = append(ids, n.ID)
		}
	}
	return cpuset.Of(ids...)
}

// housekeeping are the CPUs of all who have none of their own.
func (s *settings) housekeeping() cpuset.Set {
	cpus := s.pools.Shared
	for _, part := range s.pools.Partitions {
		cpus = cpus.Union(part.CPUs)
	}
	return cpus
}
