package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/cpupoold/cpupoold/internal/audit"
	services "github.com/cpupoold/cpupoold/internal/host"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Owners says whose the CPUs of the node are, as DryRun decides it, and what could not be
// read for that. It writes nothing, and a daemon may run or not.
func Owners(ctx context.Context, o Options) (audit.Ownership, []string, error) {
	p, err := DryRun(ctx, o)
	return p.ownership, p.Unread, err
}

// NewWatcher returns who looks at the tasks of this machine.
func NewWatcher() (*audit.Watcher, error) {
	cgroups, err := cgroup.Open(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cgroupRoot, err)
	}
	usage := func(path string) (uint64, error) {
		used, err := cgroups.Usage(cgroup.Path(path))
		return uint64(max(used, 0)), err
	}
	// Not os.Root, which opens each part of a path: nobody but the kernel makes links in /proc.
	return audit.NewWatcher(os.DirFS(procRoot), audit.Affinity, usage), nil
}

// ownership is a plan as the audit sees it. Who has exited has nothing, and pools that
// have all CPUs own none.
func ownership(plan pools.Plan, m *model, hosts []services.Verdict, s *settings) audit.Ownership {
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
	o.Places = make([]audit.Place, 0, containersOf(&plan)+len(plan.Units)+len(hosts))
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		for j := range pod.Containers {
			if c := &pod.Containers[j]; c.State != pools.Exited {
				place(audit.Place{
					PoolName: auditPool(c.Pool, c.Type), Pod: pod.Namespace + "/" + pod.Name, Name: c.Name,
					Cgroup: string(m.cgroupOf(c)), CPUs: c.CPUs, Exclusive: c.Exclusive, Mixed: c.Mixed,
				})
			}
		}
	}
	for _, u := range plan.Units {
		p := audit.Place{PoolName: auditPool(u.Pool, u.Type), Name: u.Name, CPUs: u.CPUs, Exclusive: u.Exclusive}
		if e := m.units[u.Name]; e != nil {
			p.Cgroup = string(e.unit.Path)
		}
		place(p)
	}
	for _, v := range hosts {
		if v.State == services.Confined {
			place(audit.Place{PoolName: auditPool(pools.Management, s.config.HostSlices.Pool), Name: v.Name, Cgroup: string(v.Path), CPUs: v.CPUs})
		}
	}
	o.Pools = append(o.Pools, audit.Pool{PoolName: auditPool(pools.Guaranteed, ""), CPUs: s.pools.Guaranteed.Difference(plan.Shared).Union(owned)})
	for _, p := range s.pools.Partitions {
		if !s.isAll(p.Type) {
			o.Pools = append(o.Pools, audit.Pool{PoolName: auditPool(pools.Management, p.Type), CPUs: p.CPUs})
		}
	}
	o.Pools = append(o.Pools, audit.Pool{PoolName: auditPool(pools.Shared, ""), CPUs: plan.Shared})
	return o
}

// isAll says that a partition is not a pool of its own: it has all CPUs.
func (s *settings) isAll(typ string) bool {
	return slices.ContainsFunc(s.config.Pools.Partitions, func(p pools.PartitionSpec) bool { return p.Type == typ && p.All })
}

// cgroupOf is the cgroup of a container of a plan, "" if that is not known.
func (m *model) cgroupOf(c *pools.Placement) cgroup.Path {
	if c.Kind == pools.Infra {
		if e := m.pods[c.ID]; e != nil {
			return e.pause
		}
		return ""
	}
	if e := m.containers[c.ID]; e != nil {
		return e.path
	}
	return ""
}

// auditPool names a pool for the audit. What others place and have to themselves belongs
// to nobody's pool but is owned like guaranteed CPUs.
func auditPool(p pools.Pool, typ string) audit.PoolName {
	if p == pools.Other {
		p = pools.Guaranteed
	}
	return audit.PoolName{Pool: string(p), Type: typ}
}
