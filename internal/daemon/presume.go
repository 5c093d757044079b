package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # A lost journal
//
// Without a journal nobody knows what there was before the daemon. But what the daemon
// would write now is known, as it is to `cpupoold plan`; and a value that is exactly that is
// taken to be the daemon's. In its place comes what would be there without cpupoold: the
// kernel's default (all CPUs, all NUMA nodes, no quota, weight 100), systemd's (nothing
// set), or what the kubelet asked the runtime for.

// presumed are originals that stand in for those of a lost journal.
func (h *host) presumed(ctx context.Context, o Options, j Journal) ([]Original, error) {
	var s settings
	if err := s.change(o.Config, o.Topology, nil); err != nil {
		return nil, err
	}
	p, err := preview(ctx, *h, s, Journal{BootID: j.BootID}, peekRights(o), time.Now())
	if err != nil {
		return nil, fmt.Errorf("what the daemon may have changed is not known: %w", err)
	}
	return p.traces.originals(h), nil
}

// traces are what a plan wants and what there is.
type traces struct {
	plan    pools.Plan
	want    []cgroup.Target
	current map[cgroup.Path]cgroup.Current
	model   *model
	formula config.WeightFormula
}

func (x traces) originals(h *host) []Original {
	all := []Original{}
	online := h.online()
	quotas := x.quotas()
	for _, t := range x.want {
		if t.Unit != "" {
			all = append(all, x.ofUnit(t)...)
			continue
		}
		c := x.current[t.Path]
		if !c.Exists {
			continue
		}
		trace := func(file, value string, is bool) {
			if is {
				all = append(all, Original{Path: t.Path, File: file, Container: t.Container, Value: value})
			}
		}
		trace(cgroup.FileCPUs, "", c.CPUs.Equal(t.CPUs) && !t.CPUs.IsEmpty() && !online.IsSubsetOf(t.CPUs))
		trace(cgroup.FileMems, "", c.Mems.Equal(t.Mems) && !t.Mems.IsEmpty() && !h.nodes.IsSubsetOf(t.Mems))
		weight := x.weightOf(t)
		trace(cgroup.FileWeight, strconv.FormatUint(weight, 10), t.Weight != 0 && c.Weight == t.Weight && weight != t.Weight)
		quota := quotas[t.Path]
		trace(cgroup.FileMax, maxValue(quota, 100_000), t.Unlimited && c.Quota < 0 && quota > 0)
		trace(cgroup.FileMax, unlimited, t.Quota > 0 && c.Quota == t.Quota && c.Period == t.Period) // an annotation's
		if t.Exclusive && c.Partition.Type != "" && !c.Partition.Is(cgroup.MemberPartition) {
			trace(cgroup.FilePartition, string(cgroup.MemberPartition), true)
			for p := t.Path; p != ""; p = p.Parent() {
				all = append(all, Original{Path: p, File: cgroup.FileExclusive})
			}
		}
	}
	sortOriginals(all)
	return slices.Compact(all)
}

// ofUnit are those of a unit that somebody who is no administrator has set: his files
// would make it another State, and no target.
func (x traces) ofUnit(t cgroup.Target) (all []Original) {
	e := x.model.units[x.model.unitAt(t.Path)]
	if e == nil {
		return nil
	}
	st := e.unit.UnitState
	for file, is := range map[string]bool{
		cgroup.FileCPUs:   st.CPUs.Equal(t.CPUs) && !st.CPUs.IsEmpty(),
		cgroup.FileMems:   st.Mems.Equal(t.Mems) && !st.Mems.IsEmpty(),
		cgroup.FileWeight: st.Weight == t.Weight && st.Weight != 0,
	} {
		if is {
			all = append(all, Original{Path: t.Path, File: file, Unit: t.Unit})
		}
	}
	return all
}

// weightOf is what the kubelet has asked for: for a container by way of the runtime, for
// the slice of a pod itself. Who is not known gets the kernel's default.
func (x traces) weightOf(t cgroup.Target) uint64 {
	if e := x.model.containers[t.Container]; e != nil {
		if w := containerWeight(x.formula, e.container.Requested.Shares); w != 0 {
			return w
		}
	}
	for _, pod := range x.plan.Pods {
		if t.Container != "" || x.model.sliceOf(pod) != t.Path {
			continue
		}
		var shares uint64
		for _, c := range pod.Containers {
			if e := x.model.containers[c.ID]; e != nil && c.State != pools.Exited && e.container.Requested.Shares > 2 {
				shares += e.container.Requested.Shares
			}
		}
		return cgroup.WeightLinear(max(shares, 2))
	}
	const kernels = 100
	return kernels
}

// quotas are those that the kubelet has asked for, in microseconds in 100 ms, of
// containers and of the slices of pods whose containers all have one.
func (x traces) quotas() map[cgroup.Path]int64 {
	all := make(map[cgroup.Path]int64)
	for _, pod := range x.plan.Pods {
		sum, whole := int64(0), true
		for _, c := range pod.Containers {
			e := x.model.containers[c.ID]
			if e == nil || c.State == pools.Exited {
				continue
			}
			q := e.container.Requested.Quota
			if p := e.container.Requested.Period; p > 0 && q > 0 {
				q = q * 100_000 / p
			}
			all[e.path] = q
			sum, whole = sum+q, whole && q > 0
		}
		if slice := x.model.sliceOf(pod); slice != "" && whole {
			all[slice] = sum
		}
	}
	return all
}

// lostNote says that defaults stand in for a journal.
func lostNote(name string, damage error, o []Original) string {
	switch {
	case damage != nil:
		return fmt.Sprintf("%v: the defaults of kernel, systemd and kubelet stand in for what it said", damage)
	case len(o) == 0:
		return fmt.Sprintf("the journal %s is lost, and no value is as the daemon writes it: there is nothing to put back", name)
	}
	return fmt.Sprintf("the journal %s is lost: for values that are exactly as the daemon writes them, the defaults of kernel, systemd and kubelet stand in for what they were", name)
}
