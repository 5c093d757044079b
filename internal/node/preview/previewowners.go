package preview

import (
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// OwnerPreview is who has CPUs of its own, and what keeps them so.
type OwnerPreview struct {
	Pod  string `json:"pod,omitempty"` // namespace/name; empty for a unit
	Name string `json:"name"`          // the container's or the unit's
	noise.Report
	// Wanted is the mode that run is going to bring about; that of Report is in force.
	Wanted noise.Mode `json:"wanted"`
	// Why says why the kernel does not let it be as wanted.
	Why string `json:"why,omitempty"`
}

// previewOwners asks the kernel what is in force, and what would come of the partitions
// that there should be. Ends are those that would be taken away.
func previewOwners(s desired.Input, h *hostenv.Host, plan pools.Plan, want []cgroup.Target, current map[cgroup.Path]cgroup.Current) (all []OwnerPreview, ends []cgroup.Path, err error) {
	on, _ := s.Settings.Partitions(h.Kernel)
	in := cgroup.PartitionInput{Kernel: h.Kernel, Online: h.Online(), Housekeeping: s.Settings.Housekeeping()}
	wanted := make(map[string]cgroup.PartitionWish) // by container
	mixed := make(map[string]string)                // by container: why it is none
	former := make(map[cgroup.Path]bool)
	for k := range s.Ledger.Originals {
		former[k.Path] = former[k.Path] || k.File == cgroup.FilePartition
	}
	former[cgroup.Parking] = true // whether or not the journal knows
	leaves := slices.Collect(maps.Keys(former))
	if on && s.Settings.Config.Park {
		delete(former, cgroup.Parking)
	}
	for _, t := range want {
		if !t.Exclusive || t.Container == "" {
			continue
		}
		if !desired.Partitionable(t) {
			mixed[t.Container] = desired.Unpartitionable(t)
		}
		w := cgroup.PartitionWish{Path: t.Path, Container: t.Container, CPUs: t.CPUs}
		if on && desired.Partitionable(t) {
			w.Type = s.Settings.PartitionType(s.Model, t, h.Kernel)
			delete(former, t.Path)
			if current[t.Path].CPUs.Equal(t.CPUs) {
				in.Wishes = append(in.Wishes, w)
			}
		}
		wanted[t.Container] = w
		leaves = append(leaves, t.Path)
	}
	if in.View, err = h.Cgroups.ReadPartitions(leaves); err != nil {
		return nil, nil, err
	}
	for p, of := range former {
		if n, there := in.View.Nodes[p]; of && there && !n.State.Is(cgroup.MemberPartition) {
			ends = append(ends, p)
		}
	}
	slices.Sort(ends)
	if n := in.View.Nodes[cgroup.Parking]; n.State.Valid() { // it gives way before an owner takes
		in.View.Root = in.View.Root.Union(n.Effective)
		delete(in.View.Nodes, cgroup.Parking)
		delete(in.View.Nodes, cgroup.ParkingTop)
	}
	outcomes := cgroup.PlanPartitions(in).Outcomes
	for _, o := range desired.SoleOwners(plan) {
		p := OwnerPreview{Pod: o.Pod, Name: o.Name, Wanted: noise.CPUSet}
		mode := noise.CPUSet
		if w, placed := wanted[o.Id]; placed && !o.Unit {
			if st := in.View.Nodes[w.Path].State; st.Valid() {
				mode = noise.Mode("partition-" + string(st.Type))
			}
			if w.Type != "" {
				p.Wanted = noise.Mode("partition-" + string(w.Type))
			}
			if why := mixed[o.Id]; on && why != "" {
				p.Why = why
			}
			if end := outcomes[w.Path]; end.Phase == cgroup.PartitionRefused || end.Phase == cgroup.PartitionWaits {
				p.Why = end.Why
			}
		}
		p.Report = s.Settings.MachineOf(h.Boot).Of(o.Cpus, mode)
		all = append(all, p)
	}
	return all, ends, nil
}
