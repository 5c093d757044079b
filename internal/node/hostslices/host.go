package hostslices

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// State is the treatment of a unit of host services.
type State string

// The states. The daemon changes only Confined units.
const (
	// Confined is a unit that gets the CPUs of host services.
	Confined State = "confined"
	// Foreign is a unit with CPUs of an administrator, or a cpuset partition of systemd.
	Foreign State = "foreign"
	// Inside is a unit in another placed unit, whose CPUs limit it.
	Inside State = "inside"
	// HoldsPods is a unit with pods, which its CPUs would limit.
	HoldsPods State = "holds-pods"
	// Absent is a unit that systemd cannot start, so that it has no processes.
	Absent State = "absent"
	// Unknown is a unit that systemd has not reported.
	Unknown State = "unknown"
)

// Unit is a unit of host services.
type Unit struct {
	// Name is the configured name.
	Name string
	// Unit is the report of systemd. Its Name is empty before the report.
	Unit systemd.Unit
	// Files holds the CPUs from the administrator's files.
	Files Setting
	// Ours is true if cpupoold has set the CPUs.
	Ours bool
}

// Placed is a unit with exclusive CPUs or a pool.
type Placed struct {
	Name string
	Path cgroup.Path
	CPUs cpuset.Set
	// Had contains the CPUs that systemd has for the unit now. It may be empty.
	Had cpuset.Set
}

// Verdict is the treatment of a unit, with the reason.
type Verdict struct {
	Name  string      `json:"name"` // as configured
	Unit  string      `json:"unit"` // of systemd
	Path  cgroup.Path `json:"path"`
	State State       `json:"state"`
	// CPUs of a Confined unit include Also, for the placed units Has in it.
	CPUs cpuset.Set `json:"cpus"`
	Also cpuset.Set `json:"also"`
	Has  []string   `json:"has,omitempty"`
	// Why is the reason for other states, without a capital and a full stop.
	Why string `json:"why,omitempty"`
	// Partition is the CPUSetPartition that makes the unit Foreign.
	Partition string `json:"partition,omitempty"`
}

// Decide returns the verdicts on units of host services, sorted by name. cpus are the CPUs
// of host services. placed are other units with exclusive CPUs or a pool, pods the cgroups
// of pods.
//
// The kernel limits a cgroup to the CPUs of its parent, without an error. So a slice also
// gets the CPUs of the placed units in it, and a slice with pods is not changed.
func Decide(units []Unit, cpus cpuset.Set, placed []Placed, pods []cgroup.Path) []Verdict {
	sorted := slices.Clone(units)
	slices.SortFunc(sorted, func(a, b Unit) int {
		return cmp.Or(cmp.Compare(a.Unit.Path, b.Unit.Path), cmp.Compare(a.Name, b.Name))
	})
	var all []Verdict
	for _, u := range sorted {
		v := Verdict{Name: u.Name, Unit: u.Unit.Name, Path: u.Unit.Path, State: Confined, CPUs: cpus}
		outer := func(other Placed) bool { return isWithin(v.Path, other.Path) || v.Path == other.Path }
		confined := func(other Verdict) bool {
			return other.State == Confined && (isWithin(v.Path, other.Path) || v.Path == other.Path)
		}
		inner := func(p cgroup.Path) bool { return isWithin(p, v.Path) }
		switch {
		case u.Unit.Name == "":
			v.State, v.Why = Unknown, "systemd has not reported it"
		case !u.Unit.Loaded() || v.Path == "":
			v.State, v.Why = Absent, fmt.Sprintf("systemd cannot start it (LoadState=%s)", u.Unit.Load)
		case slices.ContainsFunc(placed, outer):
			v.State, v.Why = Inside, "is in "+placed[slices.IndexFunc(placed, outer)].Name
		case slices.ContainsFunc(all, confined):
			v.State, v.Why = Inside, "is in "+all[slices.IndexFunc(all, confined)].Name
		case slices.ContainsFunc(pods, inner):
			v.State, v.Why = HoldsPods, "pods are in it, and would be limited to its CPUs"
		default:
			v.keepForeign(u, v.addPlaced(placed))
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Verdict) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Remedy returns an instruction without a capital and a full stop, or "".
func (v Verdict) Remedy() string {
	switch {
	case v.Partition != "":
		return "to have it confined, remove the property (systemctl revert, or systemctl set-property --runtime " + v.Unit + " " + cgroup.UnitPartition + "=)"
	case v.State == Foreign:
		return "to have it confined, remove the setting (systemctl revert, or systemctl set-property --runtime " + v.Unit + " AllowedCPUs=)"
	case v.State == HoldsPods:
		return "name the units in it one by one in hostSlices.units"
	case v.State == Unknown:
		return "run as root; in a container mount the host's /run/systemd and /run/dbus"
	case v.State == Absent:
		return "correct the name, or install the unit and run systemctl daemon-reload"
	case v.State == Inside:
		return "remove it; the CPUs of that unit limit it"
	case len(v.Has) > 0:
		return "give them a slice of their own (Slice=)"
	}
	return ""
}

// addPlaced adds the CPUs of the placed units in the unit. It returns the CPUs that cpupoold set
// while the placed units had their present CPUs: after the loss of its journal, it may plan others.
func (v *Verdict) addPlaced(placed []Placed) (before cpuset.Set) {
	before = v.CPUs
	for _, p := range placed {
		if !isWithin(p.Path, v.Path) {
			continue
		}
		before = before.Union(p.Had)
		if more := p.CPUs.Difference(v.CPUs); !more.IsEmpty() {
			v.Also, v.Has = v.Also.Union(more), append(v.Has, p.Name)
		}
	}
	v.CPUs = v.CPUs.Union(v.Also)
	slices.Sort(v.Has)
	return before
}

// keepForeign makes a unit Foreign if an administrator has set its CPUs, or if systemd makes
// it a cpuset partition. CPUs that systemd
// has without a file were set over D-Bus until the next boot. They are cpupoold's own, from
// before the loss of its journal, if they equal the verdict's CPUs or before.
func (v *Verdict) keepForeign(u Unit, before cpuset.Set) {
	switch has := u.Unit.CPUs; {
	case u.Unit.Partition != "":
		v.Partition = u.Unit.Partition
		v.Why = fmt.Sprintf("systemd sets its cpuset partition (%s=%s)", cgroup.UnitPartition, v.Partition)
	case !u.Files.CPUs.IsEmpty():
		v.Why = fmt.Sprintf("%s gives it CPUs %s (AllowedCPUs)", u.Files.File, u.Files.CPUs)
	case !u.Ours && !has.IsEmpty() && !has.Equal(v.CPUs) && !has.Equal(before):
		v.Why = fmt.Sprintf("another process has set its CPUs to %s until the next boot (systemctl set-property --runtime)", has)
	default:
		return
	}
	v.State, v.CPUs, v.Also, v.Has = Foreign, cpuset.Set{}, cpuset.Set{}, nil
}

func isWithin(p, outer cgroup.Path) bool {
	return outer != "" && strings.HasPrefix(string(p), string(outer)+"/")
}
