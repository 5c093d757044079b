package preview

import (
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Owner is an owner of exclusive CPUs, and the mode that keeps other tasks off them.
type Owner struct {
	Pod  string `json:"pod,omitempty"` // namespace/name; empty for a unit
	Name string `json:"name"`          // of the container or unit
	noise.Report
	// Wanted is the mode that the daemon would bring about; Report has the mode in force.
	Wanted noise.Mode `json:"wanted"`
	// Why is the reason for which the kernel does not allow the wanted mode.
	Why string `json:"why,omitempty"`
}

// owners returns the owners of the plan, and the cgroups whose partition ends.
func (s *survey) owners() (all []Owner, ends []cgroup.Path, err error) {
	w := s.partitions()
	view, err := s.host.Cgroups.ReadPartitions(w.leaves)
	if err != nil {
		return nil, nil, err
	}
	for p, of := range w.former {
		if n, there := view.Nodes[p]; of && there && !n.State.Is(cgroup.MemberPartition) {
			ends = append(ends, p)
		}
	}
	slices.Sort(ends)
	if n := view.Nodes[cgroup.Parking]; n.State.Valid() { // parking ends before an owner takes CPUs
		view.Root = view.Root.Union(n.Effective)
		delete(view.Nodes, cgroup.Parking)
		delete(view.Nodes, cgroup.ParkingTop)
	}
	settings := &s.input.Settings
	outcomes := cgroup.PlanPartitions(cgroup.PartitionInput{
		Kernel: s.host.Kernel, Online: s.host.Online(), Housekeeping: settings.Housekeeping(), Desired: w.possible, View: view,
	}).Outcomes
	for _, owner := range s.Owners {
		o := Owner{Pod: owner.Pod, Name: owner.Name, Wanted: noise.CPUSet}
		mode := noise.CPUSet
		if part, placed := w.wanted[owner.ID]; placed && !owner.Unit {
			if st := view.Nodes[part.Path].State; st.Valid() {
				mode = noise.Mode("partition-" + string(st.Type))
			}
			if part.Type != "" {
				o.Wanted = noise.Mode("partition-" + string(part.Type))
			}
			o.Why = w.mixed[owner.ID]
			if end := outcomes[part.Path]; end.Phase == cgroup.PartitionRefused || end.Phase == cgroup.PartitionWaits {
				o.Why = end.Why
			}
		}
		o.Report = settings.MachineOf(s.host.Boot).Of(owner.CPUs, mode)
		all = append(all, o)
	}
	return all, ends, nil
}

type desiredPartitions struct {
	wanted   map[string]cgroup.DesiredPartition // By container. The type is empty for no partition.
	mixed    map[string]string                  // By container: the reason for no partition.
	possible []cgroup.DesiredPartition          // Of containers that are on their CPUs.
	former   map[cgroup.Path]bool               // True for a partition that the plan ends.
	leaves   []cgroup.Path                      // All present and planned partitions.
}

func (s *survey) partitions() desiredPartitions {
	settings := &s.input.Settings
	on, _ := settings.Partitions(s.host.Kernel)
	w := desiredPartitions{wanted: make(map[string]cgroup.DesiredPartition), mixed: make(map[string]string), former: make(map[cgroup.Path]bool)}
	for k := range s.input.Originals.Keys() {
		w.former[k.Path] = w.former[k.Path] || k.File == cgroup.FilePartition
	}
	w.former[cgroup.Parking] = true // also after the journal was lost
	w.leaves = slices.Collect(maps.Keys(w.former))
	if on && settings.Config.Park {
		delete(w.former, cgroup.Parking)
	}
	for _, t := range s.want {
		if !t.Exclusive || t.Container == "" {
			continue
		}
		part := cgroup.DesiredPartition{Path: t.Path, Container: t.Container, CPUs: t.CPUs}
		switch {
		case !on:
		case !t.Partitionable():
			w.mixed[t.Container] = t.Unpartitionable()
		default:
			part.Type = settings.PartitionType(s.input.Objects, t, s.host.Kernel)
			delete(w.former, t.Path)
			if s.cgroups.Current(t.Path).CPUs.Equal(t.CPUs) {
				w.possible = append(w.possible, part)
			}
		}
		w.wanted[t.Container] = part
		w.leaves = append(w.leaves, t.Path)
	}
	return w
}
