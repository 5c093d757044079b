package preflight

import (
	"cmp"
	"context"
	"io/fs"
	"path"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/procroot"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/internal/nodecheck"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// evidence holds the facts that several checks use. They are read once.
type evidence struct {
	root      fs.FS
	host      Host
	file      string
	hasFile   bool
	config    config.Config // the defaults if configErr is set
	configErr error

	mount    cgroupMount
	pods     []kubepodsDir
	runtime  runtimeFacts
	units    []unitFacts
	hosts    hostFacts
	kubelet  kubeletFacts
	crio     managers.CRIO
	tuned    managers.Tuned
	kernel   nodecheck.Kernel
	topology *topology.Topology // of the usable CPUs
	withheld []usablecpus.Withheld
	pools    pools.Pools
	changes  []string  // of running containers' CPUs
	check    string    // the check that runs
	found    []Finding // of all checks so far; not nil, so that JSON has an empty list

	systemd int // version

	kernelErr, systemdErr, topologyErr, poolsErr, changesErr error
}

func gather(ctx context.Context, host Host, c Configuration) *evidence {
	e := &evidence{root: host.Root, host: host, file: cmp.Or(c.File, "defaults"), hasFile: c.File != "", configErr: c.Err, config: config.Default(), found: []Finding{}}
	if c.Config != nil {
		e.config = *c.Config
	}
	e.mount = readCgroupMount(e.root)
	e.pods = findKubepods(e.root)
	e.kubelet = readKubelet(e.root, e.config.KubeletStateDir)
	if e.config.HasRuntime() { // the daemon finds it in the same order
		e.runtime = queryRuntime(ctx, host, cmp.Or(e.config.RuntimeEndpoint, e.kubelet.endpoint))
	}
	if e.systemd, e.systemdErr = querySystemd(ctx, host); e.systemdErr == nil {
		e.units = queryUnits(ctx, host, e.config.Pools.Units)
		if e.config.HostSlices.Enabled {
			e.hosts = queryHostUnits(ctx, e)
		}
	}
	machine := procroot.Of(e.root, 1) // a pod does not have these files
	e.tuned = managers.ReadTuned(machine)
	e.crio = managers.ReadCRIO(machine)
	e.kernel, e.kernelErr = readKernel(e.root)
	if e.topology = host.Topology; e.topology == nil {
		sys, _ := fs.Sub(e.root, "sys") // the name is valid
		e.topology, e.topologyErr = topology.Read(sys)
	}
	if e.topologyErr == nil {
		// Without the CPUs that the cgroup root lacks. Other checks report errors.
		if m, err := usablecpus.Cut(e.topology, cgroup.New(cgroupFiles{e.root})); err == nil && e.mount.isV2() {
			e.topology, e.withheld = m.Topology, m.Withheld
		}
		e.config.Pools = e.config.Pools.On(e.topology)
		e.pools, e.poolsErr = e.config.Resolve(e.topology)
	}
	e.readChanges(ctx)
	return e
}

// driver returns the driver of the runtime, or the one of the cgroup tree; empty if unknown.
func (e *evidence) driver() cri.Driver {
	if e.runtime.driver == "" && len(e.pods) == 1 {
		return e.pods[0].driver
	}
	return e.runtime.driver
}

// maybeNoRuntime reports whether a refused configuration may be for a machine without a runtime.
func (e *evidence) maybeNoRuntime() bool { return e.configErr != nil && e.runtime.findErr != nil }

// ownable returns the CPUs that owners can have.
func (e *evidence) ownable() cpuset.Set { return e.pools.Guaranteed.Union(e.pools.Claims.CPUs) }

type need func(*evidence) bool

func cgroupV2(e *evidence) bool       { return e.mount.isV2() }
func kubepods(e *evidence) bool       { return len(e.pods) > 0 }
func runtimeDriver(e *evidence) bool  { return e.runtime.driver != "" }
func systemdAnswers(e *evidence) bool { return e.systemdErr == nil }
func runtimeUsed(e *evidence) bool    { return e.config.HasRuntime() && !e.maybeNoRuntime() }
func configured(e *evidence) bool     { return e.configErr == nil }
func kernelVersion(e *evidence) bool  { return e.kernelErr == nil }
func cpuTopology(e *evidence) bool    { return e.topologyErr == nil }
func resolvedPools(e *evidence) bool  { return configured(e) && cpuTopology(e) && e.poolsErr == nil }
func exclusiveCPUs(e *evidence) bool  { return resolvedPools(e) && !e.pools.Guaranteed.IsEmpty() }
func ownedCPUs(e *evidence) bool      { return resolvedPools(e) && !e.ownable().IsEmpty() }

func kubeletConfigured(e *evidence) bool { return e.kubelet.known && len(e.kubelet.unreadable) == 0 }

func systemdNeeded(e *evidence) bool {
	return e.driver() == cri.Systemd || len(e.config.Pools.Units) > 0 || e.config.HostSlices.Enabled
}

// crioInUse reports whether the runtime is CRI-O. If the runtime does not answer, the name of
// its socket decides.
func crioInUse(e *evidence) bool {
	if e.runtime.name != "" {
		return e.runtime.name == "cri-o"
	}
	return path.Base(e.runtime.endpoint) == "crio.sock"
}
