package view

import (
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// sharesPerCPU are the CFS shares of a request of one CPU (kubelet cm MilliCPUToShares).
const sharesPerCPU = 1024

// Containers returns the containers and units for metrics, and how many of them have shared CPUs
// in addition to exclusive ones. Paths holds the existing cgroups by container ID or unit name. Isolation
// returns the isolation of exclusive CPUs in a cgroup.
func (n Node) Containers(paths map[string]cgroup.Path, isolation func(cpuset.Set, cgroup.Path) (noise.Report, map[string]int)) (all []telemetry.Container, mixed int) {
	all = make([]telemetry.Container, 0, len(paths))
	for pod, c := range n.Plan.Containers() {
		if c.State == pools.Exited || c.Kind == pools.Infra {
			continue
		}
		if !c.Mixed.IsEmpty() {
			mixed++
		}
		shown := telemetry.Container{
			PoolName: poolName(c.Pool, c.Type), ID: c.ID, Namespace: pod.Namespace, Pod: pod.Name, Name: c.Name,
			Reason: string(c.Reason.Code), Cgroup: string(paths[c.ID]),
		}
		if c.Pool == pools.Management && c.Shares > workload.MinShares { // the minimum means no request
			shown.Requested = float64(c.Shares) / sharesPerCPU
		}
		if c.Pool == pools.Guaranteed && shown.Cgroup != "" {
			r, counts := isolation(c.CPUs, paths[c.ID])
			shown.Isolation, shown.Noise = string(r.Mode), counts
		}
		all = append(all, shown)
	}
	for _, u := range n.Plan.Units {
		all = append(all, telemetry.Container{
			PoolName: poolName(u.Pool, u.Type), Unit: true, Name: u.Name,
			Reason: string(u.Reason.Code), Cgroup: string(paths[n.Objects.Units().NameOf(u.Name)]),
		})
	}
	return all, mixed
}
