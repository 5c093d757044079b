package hostslices

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// State is what becomes of a unit.
type State string

// The states. In all but the first the unit is left alone.
const (
	// Confined has, or is to get, the CPUs of host services.
	Confined State = "confined"
	// Foreign has CPUs that an administrator has given it.
	Foreign State = "foreign"
	// Inside lies in another unit that is placed, and is bounded by it.
	Inside State = "inside"
	// HoldsPods has pods in it, which would be bounded.
	HoldsPods State = "holds-pods"
	// Absent cannot be started: nothing runs in it.
	Absent State = "absent"
	// Unknown is one that systemd has not told about.
	Unknown State = "unknown"
)

// Unit is what is known of a unit of host services.
type Unit struct {
	// Name is what the configuration calls it.
	Name string
	// Unit is what systemd knows; its own Name is empty until it has told.
	Unit cgroup.Unit
	// Files is what the administrator's files say.
	Files Setting
	// Ours says that cpupoold has set its CPUs.
	Ours bool
}

// Placed is a unit that has a place of its own.
type Placed struct {
	Name string
	Path cgroup.Path
	CPUs cpuset.Set
	// Had are the CPUs that systemd has for it until it gets these; empty if it has none.
	Had cpuset.Set
}

// Verdict is what becomes of a unit.
type Verdict struct {
	Name  string      `json:"name"` // as configured
	Unit  string      `json:"unit"` // its own
	Path  cgroup.Path `json:"path"`
	State State       `json:"state"`
	// CPUs are those that it is to have when it is Confined, Also of them those that
	// units in it have, whose names are in Has.
	CPUs cpuset.Set `json:"cpus"`
	Also cpuset.Set `json:"also"`
	Has  []string   `json:"has,omitempty"`
	// Why is the reason for other states, a sentence without its end.
	Why string `json:"why,omitempty"`
}

// Decide says what becomes of the units of host services that are to run on cpus, in
// the order of their names. Placed are other units that have CPUs of their own or a
// pool, and pods the cgroups that pods are in. The kernel bounds what is in a slice by
// it, without an error: so a slice has what placed units in it have, besides, and one
// around pods is left alone.
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
			v.State, v.Why = Unknown, "systemd has not told what it is"
		case !u.Unit.Loaded() || v.Path == "":
			v.State, v.Why = Absent, fmt.Sprintf("systemd cannot start it (LoadState=%s)", u.Unit.Load)
		case slices.ContainsFunc(placed, outer):
			v.State, v.Why = Inside, "is in "+placed[slices.IndexFunc(placed, outer)].Name
		case slices.ContainsFunc(all, confined):
			v.State, v.Why = Inside, "is in "+all[slices.IndexFunc(all, confined)].Name
		case slices.ContainsFunc(pods, inner):
			v.State, v.Why = HoldsPods, "pods are in it, and would be limited to its CPUs"
		default:
			before := v.allowedBefore(placed)
			v.addPlaced(placed)
			v.keepForeign(u, before)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Verdict) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Remedy says what an administrator can do about it, without a capital and a full stop;
// "" where nothing needs to be done.
func (v Verdict) Remedy() string {
	switch {
	case v.State == Foreign:
		return "to have it confined, remove the setting (systemctl revert, or systemctl set-property --runtime " + v.Unit + " AllowedCPUs=)"
	case v.State == HoldsPods:
		return "name what is in it one by one in hostSlices.units"
	case v.State == Unknown:
		return "run as root; in a container mount the host's /run/systemd and /run/dbus"
	case v.State == Absent:
		return "correct the name, or install the unit and run systemctl daemon-reload"
	case v.State == Inside:
		return "remove it: it is bounded by that"
	case len(v.Has) > 0:
		return "give them a slice of their own (Slice=)"
	}
	return ""
}

// addPlaced adds what placed units in it have.
func (v *Verdict) addPlaced(placed []Placed) {
	for _, p := range placed {
		if more := p.CPUs.Difference(v.CPUs); isWithin(p.Path, v.Path) && !more.IsEmpty() {
			v.Also, v.Has = v.Also.Union(more), append(v.Has, p.Name)
		}
	}
	v.CPUs = v.CPUs.Union(v.Also)
	slices.Sort(v.Has)
}

// allowedBefore are the CPUs that it was given when placed units in it were given what they
// have: with its journal, cpupoold loses who had which CPUs, and may give these units
// others.
func (v *Verdict) allowedBefore(placed []Placed) cpuset.Set {
	cpus := v.CPUs
	for _, p := range placed {
		if isWithin(p.Path, v.Path) {
			cpus = cpus.Union(p.Had)
		}
	}
	return cpus
}

// keepForeign leaves a unit alone that an administrator has given CPUs. What systemd has
// and no file says was set over D-Bus until the next boot: by cpupoold, before it
// lost its journal, if it is what cpupoold would set, or would have set before.
func (v *Verdict) keepForeign(u Unit, before cpuset.Set) {
	switch has := u.Unit.CPUs; {
	case !u.Files.CPUs.IsEmpty():
		v.Why = fmt.Sprintf("%s gives it CPUs %s (AllowedCPUs)", u.Files.File, u.Files.CPUs)
	case !u.Ours && !has.IsEmpty() && !has.Equal(v.CPUs) && !has.Equal(before):
		v.Why = fmt.Sprintf("somebody has given it CPUs %s until the next boot (systemctl set-property --runtime)", has)
	default:
		return
	}
	v.State, v.CPUs, v.Also, v.Has = Foreign, cpuset.Set{}, cpuset.Set{}, nil
}

func isWithin(p, outer cgroup.Path) bool {
	return outer != "" && strings.HasPrefix(string(p), string(outer)+"/")
}
