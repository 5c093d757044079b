package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func checkTopology(e *evidence) {
	if e.topologyErr != nil {
		e.add(Refuse, "/sys/devices/system/cpu", fmt.Sprintf("cannot read the CPUs of the machine: %v", e.topologyErr), "mount sysfs on /sys")
		return
	}
	for _, w := range e.topology.Warnings {
		found, remedy, _ := strings.Cut(w, ". ")
		e.add(Warning, "/sys/devices/system", found, remedy)
	}
}

func (e *evidence) problems(err error, severity Severity) {
	for _, err := range config.Flatten(err) {
		f := Finding{Severity: severity, Subject: e.file, Found: err.Error()}
		if p, ok := errors.AsType[*config.Problem](err); ok {
			f.Subject, f.Found = location(p), p.Reason
			if p.Value != "" {
				f.Found, f.Remedy = strconv.Quote(p.Value), p.Reason
			}
		}
		e.report(f)
	}
}

func location(p *config.Problem) string {
	place := p.File
	if p.Line > 0 {
		place += ":" + strconv.Itoa(p.Line)
	}
	if p.Key != "" {
		place += ": " + p.Key
	}
	return place
}

type pool struct {
	name, key string
	cpus      cpuset.Set
	all       bool // true for a management pool that overlaps the shared pool by its configuration
}

// Keys of the pools for owners.
const (
	guaranteedKey = "guaranteed.cpus"
	claimsKey     = "guaranteed.claims.cpus"
)

// allPools returns the pools that own CPUs, the pools for owners last. Guaranteed CPUs from the shared pool
// count as shared, management CPUs do not.
func (e *evidence) allPools() []pool {
	var list []pool
	shared := e.pools.Shared
	for _, partition := range e.pools.Partitions {
		p := pool{name: "workload type " + partition.Type, key: "partitions", cpus: partition.CPUs}
		for i, spec := range e.config.Pools.Partitions {
			if spec.Type == partition.Type {
				p.key, p.all = fmt.Sprintf("partitions[%d].cpus", i), spec.All
			}
		}
		if rest := shared.Difference(p.cpus); !p.all && !rest.IsEmpty() {
			shared = rest
		}
		list = append(list, p)
	}
	list = append(list, pool{name: "the shared pool", key: "shared.cpus", cpus: shared})
	if !e.pools.Guaranteed.IsEmpty() && !e.pools.FromShared {
		list = append(list, pool{name: "the guaranteed pool", key: guaranteedKey, cpus: e.pools.Guaranteed})
	}
	if !e.pools.Claims.CPUs.IsEmpty() {
		list = append(list, pool{name: "ResourceClaims", key: claimsKey, cpus: e.pools.Claims.CPUs})
	}
	return list
}

// checkOffline reports offline CPUs of pools. They return to their pool when they come online.
func checkOffline(e *evidence) {
	offline := e.pools.Offline.Difference(usablecpus.Of(e.withheld))
	if !offline.IsEmpty() {
		e.add(Warning, e.file,
			fmt.Sprintf("CPUs %s are in a pool, but offline: the pool is smaller than configured", offline),
			"write 1 to /sys/devices/system/cpu/cpuN/online of each, or remove them from the pool")
	}
}

// checkSplitCores reports cores with threads in several pools, which share caches.
func checkSplitCores(e *evidence) {
	list := e.allPools()
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.all || b.all {
				continue
			}
			var inA, inB cpuset.Set
			for _, core := range e.topology.Cores {
				if x, y := core.CPUs.Intersection(a.cpus), core.CPUs.Intersection(b.cpus); !x.IsEmpty() && !y.IsEmpty() {
					inA, inB = inA.Union(x), inB.Union(y)
				}
			}
			if !inA.IsEmpty() {
				e.add(Warning, fmt.Sprintf("%s: %s, %s", e.file, a.key, b.key),
					fmt.Sprintf("CPUs %s of %s and %s of %s are threads of the same cores and slow each other down",
						inA, a.name, inB, b.name),
					"give all threads of a core to one pool")
			}
		}
	}
}

// checkCPU0 reports the boot CPU in a pool for owners: some kernel work stays on it.
func checkCPU0(e *evidence) {
	key, cpus := guaranteedKey, e.pools.Guaranteed
	switch {
	case e.pools.Claims.CPUs.Contains(0):
		key, cpus = claimsKey, e.pools.Claims.CPUs
	case !cpus.Contains(0):
		return
	case e.pools.FromShared:
		key = "guaranteed.from"
	}
	e.add(Warning, e.file+": "+key,
		fmt.Sprintf("%s contains CPU 0, where the kernel runs timekeeping and interrupts that cannot be moved", cpus),
		"move CPU 0 to a management pool")
}

// checkIsolated reports isolcpus= in other pools: threads stay there where they start.
func checkIsolated(e *evidence) {
	for _, p := range e.allPools() {
		isolated := p.cpus.Intersection(e.topology.Isolated)
		if p.key != guaranteedKey && p.key != claimsKey && !isolated.IsEmpty() {
			e.add(Warning, e.file+": "+p.key,
				fmt.Sprintf("CPUs %s of %s are isolated at boot (isolcpus=): the scheduler does not spread threads over them", isolated, p.name),
				"remove them from isolcpus=, or give them to the guaranteed pool")
		}
	}
}

// checkDepletionFloor reports a floor with which the node is always depleted. Offline CPUs count,
// because they may return to the pool.
func checkDepletionFloor(e *evidence) {
	floor, most := e.config.Depletion.Floor, e.pools.Shared.Len()+e.pools.Offline.Len()
	if floor <= most {
		return
	}
	effect := "and accepts no pods without a CPU request"
	switch {
	case !e.config.Depletion.Shows():
		effect = "and reports it as a problem"
	case e.config.Depletion.Action == config.DepletionEvict:
		effect = "accepts no pods without a CPU request, and those on it may be evicted"
	}
	e.add(Warning, e.file+": depletion.floor",
		fmt.Sprintf("is %d, but the shared pool has at most %d CPUs: the node is always depleted, %s", floor, most, effect),
		fmt.Sprintf("write %d or less, or give the shared pool more CPUs", most))
}

// Recommended numbers of hyperthreads for management pods, the host and the kubelet together
// (openshift/enhancements, wide-availability-workload-partitioning).
const (
	controlPlaneThreads = 4
	workerThreads       = 2
)

// managementType is the workload type of the kubelet's static pods and of the control plane.
const managementType = "management"

// staticPods is the usual directory of the control plane's static pods.
const staticPods = "etc/kubernetes/manifests"

// checkManagementSize reports too few management CPUs, which slow down the kubelet and a control
// plane. It counts online CPUs of the pool management, else of all management pools.
func checkManagementSize(e *evidence) {
	var cpus cpuset.Set
	for _, p := range e.config.Pools.Partitions {
		if p.Type == managementType {
			cpus = p.CPUs
			break
		}
		cpus = cpus.Union(p.CPUs)
	}
	cpus = cpus.Intersection(e.topology.Online)
	node, advised := "worker", workerThreads
	if isControlPlane(e.root) {
		node, advised = "control-plane node", controlPlaneThreads
	}
	if !cpus.IsEmpty() && cpus.Len() < advised {
		e.add(Warning, e.file+": partitions",
			fmt.Sprintf("only CPUs %s of the management pools are online, %d in total; OpenShift's wide-availability-workload-partitioning advises at least %d hyperthreads for a %s",
				cpus, cpus.Len(), advised, node),
			"give the management pool more CPUs, in whole cores, unless measurements show that these are enough")
	}
}

func isControlPlane(root fs.FS) bool {
	for _, name := range []string{"kube-apiserver.yaml", "kube-apiserver-pod.yaml"} {
		if _, err := fs.Stat(root, staticPods+"/"+name); err == nil {
			return true
		}
	}
	return false
}

// checkPreparedClaims reports ResourceClaims if a static kubelet would allocate their CPUs to other containers, too.
func checkPreparedClaims(e *evidence) {
	if !e.config.Pools.Guaranteed.Kubelet || e.host.Claims == nil {
		return
	}
	names := e.host.Claims(&e.config)
	if len(names) == 0 {
		return
	}
	severity := Refuse
	if e.config.Mode == config.ModeObserve {
		severity = Warning
	}
	e.add(severity, e.file+": guaranteed.exclusive",
		fmt.Sprintf("is kubelet, and ResourceClaims have CPUs (%s): the kubelet would allocate these CPUs to other containers, too", layout.Few(names, 10)),
		"delete the pods of the claims while the daemon runs with guaranteed.claims; or forget the claims with cpupoold restore --force")
}
