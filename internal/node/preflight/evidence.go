package preflight

import (
	"cmp"
	"context"
	"io/fs"
	"path"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// evidence is what more than one check looks at, read once.
type evidence struct {
	root      fs.FS
	host      Host
	file      string
	config    config.Config // the defaults, if configErr is not nil
	configErr error

	mount    cgroupMount
	pods     []kubepodsDir
	runtime  runtimeFacts
	systemd  systemdFacts
	units    []unitFacts
	hosts    hostFacts
	kubelet  kubeletFacts
	crio     managers.CRIO
	tuned    managers.Tuned
	kernel   kernelFacts
	topology *topology.Topology
	pools    pools.Pools

	topologyErr error
	poolsErr    error
}

func gather(ctx context.Context, host Host, c Configuration) *evidence {
	e := &evidence{root: host.Root, host: host, file: cmp.Or(c.File, "defaults"), configErr: c.Err, config: config.Default()}
	if c.Config != nil {
		e.config = *c.Config
	}
	e.mount = readCgroupMount(e.root)
	e.pods = findKubepods(e.root)
	if e.config.HasRuntime() {
		e.runtime = askRuntime(ctx, host, e.config.RuntimeEndpoint)
	}
	e.systemd = askSystemd(ctx, host)
	if e.systemd.err == nil {
		e.units = askUnits(ctx, host, e.config.Pools.Units)
		if e.config.HostSlices.Enabled {
			e.hosts = askHostUnits(ctx, e)
		}
	}
	e.kubelet = readKubelet(e.root, e.config.KubeletStateDir)
	e.tuned = managers.ReadTuned(e.root)
	e.crio = managers.ReadCRIO(e.root)
	e.kernel = readKernel(e.root)
	e.topology, e.topologyErr = readTopology(e.root)
	if e.topologyErr == nil {
		e.pools, e.poolsErr = e.config.Resolve(e.topology)
	}
	return e
}

// driver is the cgroup driver in force: what the runtime says, else what the
// cgroup tree shows; empty when neither tells.
func (e *evidence) driver() cri.Driver {
	if e.runtime.driver != "" {
		return e.runtime.driver
	}
	if len(e.pods) == 1 {
		return e.pods[0].driver
	}
	return ""
}

// usesCRIO says whether CRI-O is the runtime in use. One that does not answer is
// known by its socket.
func (e *evidence) usesCRIO() bool {
	if e.runtime.name != "" {
		return e.runtime.name == "cri-o"
	}
	return path.Base(e.runtime.endpoint) == "crio.sock"
}

// need is something that a check cannot do without.
type need int

const (
	cgroupV2          need = iota // /sys/fs/cgroup is cgroup v2
	kubepods                      // the kubelet's cgroup exists
	runtimeDriver                 // the runtime has told its cgroup driver
	systemdNeeded                 // cgroups are made through systemd, or its units are placed
	systemdAnswers                // systemd has told its version
	kubeletConfigured             // the kubelet's settings are known
	runtimeUsed                   // the configuration does not say that there is none
	configured                    // the configuration could be read
	crioInUse
	kernelVersion
	cpuTopology
	resolvedPools
	exclusiveCPUs // somebody can get CPUs of its own
)

func (e *evidence) has(n need) bool {
	switch n {
	case cgroupV2:
		return e.mount.isV2()
	case kubepods:
		return len(e.pods) > 0
	case runtimeDriver:
		return e.runtime.driver != ""
	case systemdNeeded:
		return e.driver() == cri.Systemd || len(e.config.Pools.Units) > 0 || e.config.HostSlices.Enabled
	case systemdAnswers:
		return e.systemd.err == nil
	case kubeletConfigured:
		return e.kubelet.known && len(e.kubelet.unreadable) == 0
	case runtimeUsed:
		return e.config.HasRuntime()
	case configured:
		return e.configErr == nil
	case crioInUse:
		return e.usesCRIO()
	case kernelVersion:
		return e.kernel.err == nil
	case cpuTopology:
		return e.topologyErr == nil
	case resolvedPools:
		return e.configErr == nil && e.topologyErr == nil && e.poolsErr == nil
	case exclusiveCPUs:
		return e.has(resolvedPools) && !e.pools.Guaranteed.IsEmpty()
	default:
		return false
	}
}
