package daemon

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// countResult counts a write by how it ended.
func (s *status) countResult(w cgroup.Write, result telemetry.Result, err error) {
	s.writes[telemetry.Write{Via: string(w.Via), Result: result}]++
	switch {
	case result == telemetry.Failed:
		s.writeErrors[telemetry.WriteError{Via: string(w.Via), Errno: view.Errno(err)}]++
	case err == nil && w.Property == cgroup.FilePartition:
		s.partitionChanges++
	}
}

// poolView are the pools, with what of them is spoken for.
func (l *Loop) poolView() []telemetry.Pool {
	p := l.settings.Pools
	var all []telemetry.Pool
	for _, part := range p.Partitions {
		all = append(all, telemetry.Pool{PoolName: poolName(pools.Management, part.Type), CPUs: part.CPUs})
	}
	own, free := p.Guaranteed.Union(l.kubelet.CPUs()), l.free()
	all = append(all,
		telemetry.Pool{PoolName: poolName(pools.Shared, ""), CPUs: l.shared()},
		telemetry.Pool{PoolName: poolName(pools.Guaranteed, ""), CPUs: own, Free: free, Allocated: view.MilliPerCPU * int64(own.Difference(free).Len())})
	requested := l.requested()
	for i := range all {
		all[i].Allocated += requested[all[i].PoolName]
	}
	return all
}

// requested are the CPU requests of containers without CPUs of their own, in thousandths
// of a CPU, by the pool that they run in.
func (l *Loop) requested() map[telemetry.PoolName]int64 {
	sums := make(map[telemetry.PoolName]int64)
	for _, pod := range l.status.plan.Pods {
		for _, c := range pod.Containers {
			if c.State == pools.Exited || c.Kind == pools.Infra || c.Exclusive || c.Pool == pools.Guaranteed {
				continue
			}
			shares := c.Shares
			if e := l.inventory.Container(c.ID); shares == 0 && e != nil {
				shares = e.Container.Requested.Shares
			}
			sums[poolName(c.Pool, c.Type)] += view.RequestOf(shares)
		}
	}
	return sums
}

// freeCapacity is what a new owner can have; nil before the first plan, and without a pool for
// owners. It is found anew when owners or their pool have changed.
func (l *Loop) freeCapacity(now time.Time) *telemetry.Room {
	if !l.status.planned || l.settings.Machine == nil || l.settings.Pools.Guaranteed.IsEmpty() {
		return nil
	}
	v, p, owned := &l.status.vacancy, &l.settings.Pools, l.status.plan.Assignments
	pool := l.status.plan.Free // and not what the kernel has lost, or another manager has
	for i := range owned {
		pool = pool.Union(owned[i].CPUs)
	}
	pool = pool.Intersection(p.Guaranteed)
	same := func(a, b pools.Assignment) bool { return a.Key == b.Key && a.CPUs.Equal(b.CPUs) }
	if v.Machine != l.settings.Machine || !v.Pool.Equal(pool) || v.Options != p.Options || !slices.EqualFunc(v.Owned, owned, same) {
		in := pools.Input{Pods: l.inventory.Input(now), Pools: *p}
		r := defrag.Vacant(defrag.Input{Machine: l.settings.Machine, Pool: pool, Owners: pools.Owners(in, l.status.plan)})
		*v = view.Vacancy{Machine: l.settings.Machine, Pool: pool, Options: p.Options, Owned: owned, Room: telemetry.Room{Pool: r.Free, Node: r.OnNode, L3: r.InL3, WholeCores: r.InWholeCores}}
	}
	spare := l.spare()
	return &telemetry.Room{Pool: min(v.Room.Pool, spare), Node: min(v.Room.Node, spare), L3: min(v.Room.L3, spare), WholeCores: min(v.Room.WholeCores, spare)}
}

// spare is how many CPUs can still be given away: none of those of the shared pool's floor.
func (l *Loop) spare() int {
	p, plan := &l.settings.Pools, &l.status.plan
	if !p.FromShared {
		return plan.Free.Len()
	}
	return max(min(plan.Shared.Union(plan.Resting).Len()-max(p.Floor, 1), plan.Free.Len()), 0)
}
