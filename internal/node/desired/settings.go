package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// errOtherOwner refuses a change after preflight has checked the kubelet's policy.
var errOtherOwner = errors.New("guaranteed.exclusive has changed, and is read at the start only; restart the daemon, with a cpuManagerPolicy of the kubelet that matches")

// Settings holds the configuration in force on this machine. Begin and Change replace all fields.
type Settings struct {
	Config   *config.Config
	Topology *topology.Topology
	Machine  *allocate.Machine // of Topology
	Pools    pools.Pools
	Names    workload.Names
	Now      undo.Accepted // digest of the pools and the machine
	// Fits is the digest for the journal if the pools fit the machine, else nil. Adapted
	// describes the differences from the configuration then.
	Fits    *undo.Accepted
	Adapted []string
	specs   poolspec.Spec // configured pools, with the CPUs of cpus: auto
}

// RestartKeys returns the sorted keys with a changed value that needs a restart.
func (s *Settings) RestartKeys(changed *config.Config) []string {
	old := s.Config
	changes := map[string]bool{
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
		"annotationDomain":         old.AnnotationDomain != changed.AnnotationDomain,
		"logLevel":                 old.LogLevel != changed.LogLevel,
		"logFormat":                old.LogFormat != changed.LogFormat,
	}
	maps.DeleteFunc(changes, func(_ string, differs bool) bool { return !differs })
	return slices.Sorted(maps.Keys(changes))
}

// Begin sets the settings at the start. It adapts pools that do not fit the machine, and
// returns in unfit why they do not fit. A node that boots must not wait until its
// configuration is corrected, and after a loss of the journal no earlier one is known. The
// journal has before; nil without one.
func (s *Settings) Begin(c *config.Config, t *topology.Topology, before *undo.Accepted) (unfit, err error) {
	err = s.set(c, t, before, func(_ undo.Accepted, why error) bool {
		unfit = why
		return true
	})
	return unfit, err
}

// Change replaces the settings, unless the configuration does not fit the machine. It adapts
// pools that were accepted on another machine (before), and the pools in force.
func (s *Settings) Change(c *config.Config, t *topology.Topology, before *undo.Accepted) error {
	if s.Config != nil && s.Config.Pools.Guaranteed.Kubelet != c.Pools.Guaranteed.Kubelet {
		return errOtherOwner
	}
	return s.set(c, t, before, func(now undo.Accepted, _ error) bool {
		return before.OnOtherMachine(now) || s.Config != nil && s.Now.Pools == now.Pools
	})
}

// acceptedOn returns the description of a configuration's pools on a machine, without Auto.
func acceptedOn(c *config.Config, t *topology.Topology) (undo.Accepted, error) {
	b, err := json.Marshal(c.Pools)
	if err != nil {
		return undo.Accepted{}, err
	}
	sum := sha256.Sum256(b)
	return undo.Accepted{Pools: hex.EncodeToString(sum[:]), Present: t.Present, Online: t.Online}, nil
}

// set replaces the settings, unless adapt rejects pools that do not fit the machine.
func (s *Settings) set(c *config.Config, t *topology.Topology, before *undo.Accepted, adapt func(now undo.Accepted, unfit error) bool) error {
	now, err := acceptedOn(c, t)
	if err != nil {
		return fmt.Errorf("digest of the pools: %w", err)
	}
	// cpus: auto stays on its CPUs when others go offline or come back, also while no daemon runs.
	next := Settings{Config: c, Topology: t, Machine: s.Machine, Names: c.Names(), specs: c.Pools}
	switch {
	case s.Config != nil && s.Now.Pools == now.Pools:
		next.specs = s.specs
	case s.Config == nil && before != nil && before.Pools == now.Pools:
		next.specs = withAuto(c.Pools, before.Auto)
	}
	next.specs = next.specs.On(t)
	now.Auto = autoOf(next.specs)
	next.Now = now
	if s.Config != nil {
		// The clients of the runtime have dropped annotations with names of another domain.
		next.Names.Domain = s.Names.Domain
	}
	fixed := *c
	fixed.Pools = next.specs
	if next.Pools, err = fixed.Resolve(t); err == nil {
		next.Fits = &now
	} else {
		if t.Online.IsEmpty() || !adapt(now, err) {
			return err
		}
		var differences []error
		next.Pools, differences = fixed.Pools.Adapt(t)
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

func autoOf(s poolspec.Spec) (auto []cpuset.Set) {
	for _, p := range s.Partitions {
		if p.Auto {
			auto = append(auto, p.CPUs)
		}
	}
	return auto
}

func withAuto(s poolspec.Spec, auto []cpuset.Set) poolspec.Spec {
	if len(auto) != len(autoOf(s)) {
		return s
	}
	s.Partitions = slices.Clone(s.Partitions)
	for i := range s.Partitions {
		if s.Partitions[i].Auto {
			s.Partitions[i].CPUs, auto = auto[0], auto[1:]
		}
	}
	return s
}

// Offline returns the configured CPUs that are offline.
func (s *Settings) Offline() cpuset.Set { return s.Pools.Offline.Union(s.Pools.Away) }

// Nodes returns the IDs of the NUMA nodes with any of the CPUs.
func (s *Settings) Nodes(cpus cpuset.Set) cpuset.Set {
	var ids []int
	for _, n := range s.Topology.Nodes {
		if n.CPUs.Overlaps(cpus) {
			ids = append(ids, n.ID)
		}
	}
	return cpuset.Of(ids...)
}

// Housekeeping returns the CPUs of the shared and management pools.
func (s *Settings) Housekeeping() cpuset.Set {
	cpus := s.Pools.Shared
	for _, part := range s.Pools.Partitions {
		cpus = cpus.Union(part.CPUs)
	}
	return cpus
}
