package preview

import (
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// traces are what a plan wants and what there is.
type traces struct {
	plan    pools.Plan
	want    []cgroup.Target
	current map[cgroup.Path]cgroup.Current
	model   *inventory.Inventory
	formula config.WeightFormula
}

func (x traces) Originals(h *hostenv.Host) []undo.Original {
	all := []undo.Original{}
	online := h.Online()
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
				all = append(all, undo.Original{Path: t.Path, File: file, Container: t.Container, Value: value})
			}
		}
		trace(cgroup.FileCPUs, "", c.CPUs.Equal(t.CPUs) && !t.CPUs.IsEmpty() && !online.IsSubsetOf(t.CPUs))
		trace(cgroup.FileMems, "", c.Mems.Equal(t.Mems) && !t.Mems.IsEmpty() && !h.Nodes.IsSubsetOf(t.Mems))
		weight := x.weightOf(t)
		trace(cgroup.FileWeight, strconv.FormatUint(weight, 10), t.Weight != 0 && c.Weight == t.Weight && weight != t.Weight)
		quota := quotas[t.Path]
		trace(cgroup.FileMax, undo.MaxValue(quota, 100_000), t.Unlimited && c.Quota < 0 && quota > 0)
		trace(cgroup.FileMax, undo.Unlimited, t.Quota > 0 && c.Quota == t.Quota && c.Period == t.Period) // an annotation's
		if t.Exclusive && c.Partition.Type != "" && !c.Partition.Is(cgroup.MemberPartition) {
			trace(cgroup.FilePartition, string(cgroup.MemberPartition), true)
			for p := t.Path; p != ""; p = p.Parent() {
				all = append(all, undo.Original{Path: p, File: cgroup.FileExclusive})
			}
		}
	}
	undo.SortOriginals(all)
	return slices.Compact(all)
}

// ofUnit are those of a unit that somebody who is no administrator has set: his files
// would make it another State, and no target.
func (x traces) ofUnit(t cgroup.Target) (all []undo.Original) {
	e := x.model.Unit(x.model.UnitAt(t.Path))
	if e == nil {
		return nil
	}
	st := e.Unit.UnitState
	for file, is := range map[string]bool{
		cgroup.FileCPUs:   st.CPUs.Equal(t.CPUs) && !st.CPUs.IsEmpty(),
		cgroup.FileMems:   st.Mems.Equal(t.Mems) && !st.Mems.IsEmpty(),
		cgroup.FileWeight: st.Weight == t.Weight && st.Weight != 0,
	} {
		if is {
			all = append(all, undo.Original{Path: t.Path, File: file, Unit: t.Unit})
		}
	}
	return all
}

// weightOf is what the kubelet has asked for: for a container by way of the runtime, for
// the slice of a pod itself. Who is not known gets the kernel's default.
func (x traces) weightOf(t cgroup.Target) uint64 {
	if e := x.model.Container(t.Container); e != nil {
		if w := desired.ContainerWeight(x.formula, e.Container.Requested.Shares); w != 0 {
			return w
		}
	}
	for _, pod := range x.plan.Pods {
		if t.Container != "" || x.model.SliceOf(pod) != t.Path {
			continue
		}
		var shares uint64
		for _, c := range pod.Containers {
			if e := x.model.Container(c.ID); e != nil && c.State != pools.Exited && e.Container.Requested.Shares > 2 {
				shares += e.Container.Requested.Shares
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
			e := x.model.Container(c.ID)
			if e == nil || c.State == pools.Exited {
				continue
			}
			q := e.Container.Requested.Quota
			if p := e.Container.Requested.Period; p > 0 && q > 0 {
				q = q * 100_000 / p
			}
			all[e.Path] = q
			sum, whole = sum+q, whole && q > 0
		}
		if slice := x.model.SliceOf(pod); slice != "" && whole {
			all[slice] = sum
		}
	}
	return all
}
