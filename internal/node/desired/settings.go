package desired

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// ErrOtherOwner refuses a change that only a start can make: preflight has looked at
// the kubelet's policy for the value before.
var ErrOtherOwner = errors.New("guaranteed.exclusive is another one: who gives containers CPUs does not change while the daemon runs; restart it, with the kubelet's cpuManagerPolicy to match")

// Settings are the configuration in force on the machine that it is for.
type Settings struct {
	Config   *config.Config
	Topology *topology.Topology
	Machine  *allocate.Machine // made once of topology
	Pools    pools.Pools
	Names    workload.Names
	Now      undo.Accepted // describes pools and machine
	// Fits is what is to be remembered of pools that fit this machine; nil when
	// they had to be adapted, and adapted says how.
	Fits    *undo.Accepted
	Adapted []string
}

// Fixed are keys of the configuration that are read at the start only, and of
// which old and new differ.
func Fixed(old, changed *config.Config) []string {
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

// Begin makes the settings of a daemon that starts. It does not refuse pools that do
// not fit the machine: a node that boots must not wait for somebody to correct a
// file, and a lost journal cannot tell what was right before. What is wrong comes
// back, and the pools in force are what of them can be had.
func (s *Settings) Begin(c *config.Config, t *topology.Topology) (unfit, err error) {
	err = s.set(c, t, func(_ undo.Accepted, why error) bool {
		unfit = why
		return true
	})
	return unfit, err
}

// Change replaces the settings, or leaves them as they are if the configuration
// does not fit the machine. One whose pools did fit another machine, before, is
// adapted, and so is one with those that are in force.
func (s *Settings) Change(c *config.Config, t *topology.Topology, before *undo.Accepted) error {
	if s.Config != nil && s.Config.Pools.Guaranteed.Kubelet != c.Pools.Guaranteed.Kubelet {
		return ErrOtherOwner
	}
	return s.set(c, t, func(now undo.Accepted, _ error) bool {
		return before.OnOtherMachine(now) || s.Config != nil && s.Now.Pools == now.Pools
	})
}

// set replaces the settings. Pools that do not fit the machine are an error, unless
// adapt lets them be adapted.
func (s *Settings) set(c *config.Config, t *topology.Topology, adapt func(now undo.Accepted, unfit error) bool) error {
	now, err := undo.AcceptedOn(c, t)
	if err != nil {
		return fmt.Errorf("digest of the pools: %w", err)
	}
	next := Settings{Config: c, Topology: t, Machine: s.Machine, Names: c.Names(), Now: now}
	if next.Pools, err = c.Resolve(t); err == nil {
		next.Fits = &now
	} else {
		if t.Online.IsEmpty() || !adapt(now, err) {
			return err
		}
		var differences []error
		next.Pools, differences = c.Pools.Adapt(t)
		for _, d := range differences {
			next.Adapted = append(next.Adapted, d.Error())
		}
	}
	if next.Machine == nil || s.Topology != t {
		next.Machine = allocate.New(t)
	}
	*s = next
	return nil
}

// UnitNames are the systemd units of the configuration: those with a place of their
// own, and those of host services.
func (s *Settings) UnitNames() []string { return slices.Concat(s.PlacedNames(), s.HostUnits()) }

// PlacedNames are those with a place of their own.
func (s *Settings) PlacedNames() []string {
	names := make([]string, len(s.Pools.Units))
	for i, u := range s.Pools.Units {
		names[i] = u.Name
	}
	return names
}

// Offline are the CPUs that pools would have if they were online.
func (s *Settings) Offline() cpuset.Set { return s.Pools.Offline.Union(s.Pools.Away) }

// Nodes are the IDs of the NUMA nodes that CPUs are in.
func (s *Settings) Nodes(cpus cpuset.Set) cpuset.Set {
	var ids []int
	for _, n := range s.Topology.Nodes {
		if n.CPUs.Overlaps(cpus) {
			ids = append(ids, n.ID)
		}
	}
	return cpuset.Of(ids...)
}

// Housekeeping are the CPUs of all who have none of their own.
func (s *Settings) Housekeeping() cpuset.Set {
	cpus := s.Pools.Shared
	for _, part := range s.Pools.Partitions {
		cpus = cpus.Union(part.CPUs)
	}
	return cpus
}
