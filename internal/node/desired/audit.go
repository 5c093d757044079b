package desired

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// Ownership returns the CPUs of a plan's owners and pools for the audit. Exited containers
// own no CPUs. A pool with all CPUs owns none. CPUs of ResourceClaims count as guaranteed, and
// containers that share a claim as a pod pool. The name of a cgroup in a pod that belongs to no
// container is its kind in parentheses.
func (s *Settings) Ownership(plan pools.Plan, m *inventory.Objects, hosts []hostslices.Verdict, aux []inspect.Auxiliary) audit.Ownership {
	var (
		o     audit.Ownership
		owned cpuset.Set
	)
	place := func(p audit.Place) {
		if p.Cgroup == "" || p.CPUs.IsEmpty() {
			return
		}
		o.Places = append(o.Places, p)
		if p.Exclusive {
			owned = owned.Union(p.CPUs)
		}
	}
	o.Places = make([]audit.Place, 0, countContainers(&plan)+len(plan.Units)+len(hosts))
	for pod, c := range plan.Containers() {
		if c.State != pools.Exited {
			place(audit.Place{
				PoolName: auditPool(c.Pool, c.Type), Pod: pod.Namespace + "/" + pod.Name, Name: c.Name,
				Cgroup: string(m.CgroupOf(c)), CPUs: c.CPUs, Exclusive: c.Exclusive || c.InPodPool(), PodPool: c.InPodPool(), Mixed: c.Mixed,
			})
		}
	}
	for i := range aux {
		g := &aux[i]
		place(audit.Place{
			PoolName: auditPool(g.Pool, g.Type), Pod: g.Pod, Name: "(" + g.Kind + ")",
			Cgroup: g.Cgroup, CPUs: g.CPUs.Difference(g.Mixed), Exclusive: g.Exclusive, Mixed: g.Mixed,
		})
	}
	for _, u := range plan.Units {
		p := audit.Place{PoolName: auditPool(u.Pool, u.Type), Name: u.Name, CPUs: u.CPUs, Exclusive: u.Exclusive}
		if e := m.Units().Get(u.Name); e != nil {
			p.Cgroup = string(e.Unit.Path)
		}
		place(p)
	}
	for _, v := range hosts {
		if v.State == hostslices.Confined {
			place(audit.Place{PoolName: auditPool(pools.Management, s.Config.HostSlices.Pool), Name: v.Name, Cgroup: string(v.Path), CPUs: v.CPUs})
		}
	}
	o.Pools = append(o.Pools, audit.Pool{PoolName: auditPool(pools.Guaranteed, ""), CPUs: s.Pools.Guaranteed.Union(s.Pools.Claims.CPUs).Difference(plan.Shared).Union(owned)})
	for _, p := range s.Pools.Partitions {
		if !slices.ContainsFunc(s.Config.Pools.Partitions, func(c poolspec.Partition) bool { return c.Type == p.Type && c.All }) {
			o.Pools = append(o.Pools, audit.Pool{PoolName: auditPool(pools.Management, p.Type), CPUs: p.CPUs})
		}
	}
	o.Pools = append(o.Pools, audit.Pool{PoolName: auditPool(pools.Shared, ""), CPUs: plan.Shared})
	return o
}

// auditPool returns the pool's name. Exclusive CPUs of other managers count as guaranteed.
func auditPool(p pools.Pool, typ string) audit.PoolName {
	if p == pools.Other {
		p = pools.Guaranteed
	}
	return audit.PoolName{Pool: string(p), Type: typ}
}
