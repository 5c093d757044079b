package preview

import (
	"context"
	"log/slog"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// # A lost journal
//
// The values before the daemon's first write are in the journal alone. After the loss of the
// journal, a value that equals the planned one counts as the daemon's. Its original is the
// value of a node without cpupoold. For cgroups that is the kernel's default: all CPUs, all
// NUMA nodes, no quota, weight 100. For units it is a property that is not set, and for
// containers the request of the kubelet.

// Presume returns the originals of a node whose journal of this boot is lost.
func Presume(ctx context.Context, h *hostenv.Host, c *config.Config, t *topology.Topology, bootID string, log *slog.Logger) ([]undo.Original, error) {
	var settings desired.Settings
	if err := settings.Change(c, t, nil); err != nil {
		return nil, err
	}
	s, err := read(ctx, h, settings, undo.Document{BootID: bootID}, rights(c, log))
	if err != nil {
		return nil, err
	}
	return s.originals(), nil
}

// originals returns an original for each value that equals the planned one.
func (s *survey) originals() []undo.Original {
	all := []undo.Original{}
	online := s.host.Online()
	quotas := s.quotas()
	for _, t := range s.want {
		if t.Unit != "" {
			all = append(all, s.unitOriginals(t)...)
			continue
		}
		c := s.cgroups.Current(t.Path)
		if !c.Exists {
			continue
		}
		add := func(st *cgroup.State, file, value string, is bool) {
			if !is {
				return
			}
			o := undo.Original{Path: st.Path, File: file, Value: value}
			if st.Path == t.Path {
				o.Container = t.Container
			}
			all = append(all, o)
		}
		quota := quotas[t.Path]
		for _, st := range []*cgroup.State{&c.State, c.Inner} {
			if st != nil {
				add(st, cgroup.FileCPUs, "", st.CPUs.Equal(t.CPUs) && !t.CPUs.IsEmpty() && !online.IsSubsetOf(t.CPUs))
				add(st, cgroup.FileMems, "", st.Mems.Equal(t.Mems) && !t.Mems.IsEmpty() && !s.host.Nodes.IsSubsetOf(t.Mems))
				add(st, cgroup.FileMax, cgroup.FormatMax(quota, 100_000), t.Unlimited && st.HasCPU && st.Quota < 0 && quota > 0)
			}
		}
		weight := s.requestedWeight(t)
		add(&c.State, cgroup.FileWeight, strconv.FormatUint(weight, 10), t.Weight != 0 && c.Weight == t.Weight && weight != t.Weight)
		add(&c.State, cgroup.FileMax, cgroup.FormatMax(-1, 100_000), t.Quota > 0 && c.Quota == t.Quota && c.Period == t.Period) // the limit of an annotation
		if t.Exclusive && c.Partition.Type != "" && !c.Partition.Is(cgroup.MemberPartition) {
			add(&c.State, cgroup.FilePartition, string(cgroup.MemberPartition), true)
			for p := t.Path; p != ""; p = p.Parent() {
				all = append(all, undo.Original{Path: p, File: cgroup.FileExclusive})
			}
		}
	}
	slices.SortFunc(all, undo.Original.Compare)
	return slices.Compact(all)
}

// unitOriginals skips properties in an administrator's files, which have no target.
func (s *survey) unitOriginals(t cgroup.Target) (all []undo.Original) {
	e := s.input.Objects.Units().Get(s.input.Objects.Units().At(t.Path))
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

// requestedWeight returns the kubelet's weight from the runtime or systemd, or the default.
func (s *survey) requestedWeight(t cgroup.Target) uint64 {
	if e := s.input.Objects.Container(t.Container); e != nil {
		if w := s.input.Formula.Weight(e.Container.Requested.Shares); w != 0 {
			return w
		}
	}
	for _, pod := range s.Plan.Pods {
		if t.Container != "" || s.input.Objects.SliceOf(pod) != t.Path {
			continue
		}
		var shares uint64
		for _, c := range pod.Containers {
			if e := s.input.Objects.Container(c.ID); e != nil && c.State != pools.Exited && e.Container.Requested.Shares > 2 {
				shares += e.Container.Requested.Shares
			}
		}
		return cgroup.WeightLinear(max(shares, 2))
	}
	const kernelDefault = 100
	return kernelDefault
}

// quotas returns the kubelet's quotas in microseconds per 100 ms, of containers and slices.
func (s *survey) quotas() map[cgroup.Path]int64 {
	all := make(map[cgroup.Path]int64)
	for _, pod := range s.Plan.Pods {
		sum, whole := int64(0), true
		for _, c := range pod.Containers {
			e := s.input.Objects.Container(c.ID)
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
		if slice := s.input.Objects.SliceOf(pod); slice != "" && whole {
			all[slice] = sum
		}
	}
	return all
}
