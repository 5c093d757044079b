package view

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const milliPerCPU = 1000

// requestOf returns the CPU request, in thousandths of a CPU, from which the kubelet
// computed shares (kubelet, pkg/kubelet/cm/helpers_linux.go). The request is rounded up. The
// kubelet's minimum of shares means no request, its maximum 256 CPUs or more.
func requestOf(shares uint64) int64 {
	const least, most, perCPU = 2, 262144, 1024
	if shares <= least {
		return 0
	}
	return int64(min(shares, most)*milliPerCPU+perCPU-1) / perCPU
}

// PoolMetrics returns the pools with the CPUs or requests that are allocated. Kubelet are
// the exclusive CPUs that a static kubelet has allocated.
func (n Node) PoolMetrics(kubelet cpuset.Set) []telemetry.Pool {
	p := n.Settings.Pools
	var all []telemetry.Pool
	for _, part := range p.Partitions {
		all = append(all, telemetry.Pool{PoolName: poolName(pools.Management, part.Type), CPUs: part.CPUs})
	}
	own, free := p.Guaranteed.Union(kubelet), p.Guaranteed
	if n.Planned {
		free = n.Plan.Free
	}
	all = append(all,
		telemetry.Pool{PoolName: poolName(pools.Shared, ""), CPUs: n.shared()},
		telemetry.Pool{PoolName: poolName(pools.Guaranteed, ""), CPUs: own, Free: free, Allocated: milliPerCPU * int64(own.Difference(free).Len())})
	if c := inspect.PoolOfClaims(&p, n.Plan); c != nil {
		all = append(all, telemetry.Pool{PoolName: poolName(inspect.ClaimedPool, ""), CPUs: c.CPUs, Free: c.Free, Allocated: milliPerCPU * int64(c.Owned.Len())})
	}
	requested := n.requested()
	for i := range all {
		all[i].Allocated += requested[all[i].PoolName]
	}
	return all
}

// requested returns the CPU requests of containers without exclusive CPUs, in thousandths
// of a CPU, by the pool in which they run.
func (n Node) requested() map[telemetry.PoolName]int64 {
	sums := make(map[telemetry.PoolName]int64)
	for _, c := range n.Plan.Containers() {
		if c.State == pools.Exited || c.Kind == pools.Infra || c.Exclusive || c.Pool == pools.Guaranteed {
			continue
		}
		shares := c.Shares
		if e := n.Objects.Container(c.ID); shares == 0 && e != nil {
			shares = e.Container.Requested.Shares
		}
		sums[poolName(c.Pool, c.Type)] += requestOf(shares)
	}
	return sums
}

func poolName(p pools.Pool, typ string) telemetry.PoolName {
	return telemetry.PoolName{Pool: string(p), Type: typ}
}

// Capacity finds the free capacity. It keeps the result while owners and their pool are the
// same. The zero value is ready for use.
type Capacity struct {
	machine *allocate.Machine
	pool    cpuset.Set
	options allocate.Options
	owned   []pools.Assignment
	room    telemetry.Room
}

// Room returns the largest requests that fit; nil before the first plan, and without a pool
// for owners. Pods returns the pods from which the plan was made.
func (c *Capacity) Room(n Node, pods func() []pools.Pod) *telemetry.Room {
	p, owned := &n.Settings.Pools, n.Plan.Assignments
	if !n.Planned || n.Settings.Machine == nil || p.Guaranteed.IsEmpty() {
		return nil
	}
	pool := n.Plan.Free // without the CPUs that are lost, or that another manager uses
	for i := range owned {
		pool = pool.Union(owned[i].CPUs)
	}
	pool = pool.Intersection(p.Guaranteed)
	same := func(a, b pools.Assignment) bool { return a.Key == b.Key && a.CPUs.Equal(b.CPUs) }
	if c.machine != n.Settings.Machine || !c.pool.Equal(pool) || c.options != p.Options || !slices.EqualFunc(c.owned, owned, same) {
		in := pools.Input{Pods: pods(), Pools: *p}
		r := defrag.Vacant(defrag.Input{Machine: n.Settings.Machine, Pool: pool, Owners: pools.Owners(in, *n.Plan)})
		*c = Capacity{n.Settings.Machine, pool, p.Options, owned, telemetry.Room{Pool: r.Free, Node: r.OnNode, L3: r.InL3, WholeCores: r.InWholeCores}}
	}
	limit := n.Plan.Allocatable(*p)
	return &telemetry.Room{Pool: min(c.room.Pool, limit), Node: min(c.room.Node, limit), L3: min(c.room.L3, limit), WholeCores: min(c.room.WholeCores, limit)}
}
