package preflight

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

type unitFacts struct {
	spec pools.UnitSpec
	unit systemd.Unit
	err  error
}

// queryUnits queries systemd for all units, with one timeout for all.
func queryUnits(ctx context.Context, host Host, specs []pools.UnitSpec) []unitFacts {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if len(specs) == 0 {
		return nil
	}
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.Name
	}
	units := make([]unitFacts, len(specs))
	for i, a := range host.Units(within, names) {
		units[i] = unitFacts{spec: specs[i], unit: a.Unit, err: a.Err}
	}
	return units
}

// checkUnits reports units that cpupoold cannot place now. It places missing ones later.
func checkUnits(e *evidence) {
	names := make(map[string]string) // configured name by the unit's own name
	for _, u := range e.units {
		key := e.file + ": units." + u.spec.Name
		other, twice := names[u.unit.Name]
		inside := e.contained(u)
		switch {
		case u.err != nil:
			e.add(Error, key, fmt.Sprintf("systemd does not report it: %v", u.err),
				"run as root; in a container mount the host's /run/systemd and /run/dbus")
		case u.unit.Load == "not-found":
			e.add(Warning, key, "systemd has no such unit: its CPUs stay reserved",
				"correct the name, or install the unit and run systemctl daemon-reload")
		case !u.unit.Loaded():
			e.add(Warning, key, fmt.Sprintf("the unit cannot be started (LoadState=%s): its CPUs stay reserved", u.unit.Load),
				"see systemctl status "+u.spec.Name)
		case inside != "":
			e.add(Error, key, fmt.Sprintf("its cgroup %s contains %s: it would limit them to its CPUs, so cpupoold does not place it", u.unit.Path, inside),
				"name the units in it one by one, or remove it")
		case u.unit.Partition != "":
			e.add(Error, key, fmt.Sprintf("systemd sets its cpuset partition (%s=%s%s), so cpupoold does not place it", cgroup.UnitPartition, u.unit.Partition, e.partitionSource(u)),
				"remove the property from the unit, or the unit from cpupoold's configuration")
		case twice:
			e.add(Error, key, fmt.Sprintf("is the same unit as %s (%s)", other, u.unit.Name), "keep one of them")
		case u.unit.Name != u.spec.Name:
			e.add(Warning, key, "is an alias of "+u.unit.Name, "write "+u.unit.Name)
		}
		if u.err == nil {
			names[u.unit.Name] = u.spec.Name
		}
	}
}

// partitionSource names the file that makes a unit a cpuset partition, if it can be read.
func (e *evidence) partitionSource(u unitFacts) string {
	settings, _ := e.unitSettings(u)
	if s := settings[cgroup.UnitPartition]; s.value == u.unit.Partition {
		return " in " + s.source
	}
	return ""
}

// contained names pods or another configured unit in the cgroup of a unit, or returns "".
func (e *evidence) contained(u unitFacts) string {
	within := func(dir string) bool { return u.unit.Path != "" && strings.HasPrefix(dir, string(u.unit.Path)+"/") }
	for _, pods := range e.pods {
		if within(pods.path) {
			return "the kubelet's pods (" + pods.path + ")"
		}
	}
	for _, other := range e.units {
		if within(string(other.unit.Path)) {
			return other.spec.Name
		}
	}
	return ""
}

// isRuntimeProperty reports whether systemd wrote a file for a property from D-Bus that is
// in force until the next boot, such as cpupoold's. systemd has another directory for units that
// systemd-run makes.
func isRuntimeProperty(name string) bool {
	return strings.HasPrefix(name, "/run/systemd/system.control/") || strings.HasPrefix(name, "/run/systemd/transient/") && strings.Contains(name, ".d/")
}

// checkUnitSettings reports settings of other programs. cpupoold overrides AllowedCPUs=, but not the
// affinity that systemd sets for the process.
func checkUnitSettings(e *evidence) {
	keys := []unitKey{{"AllowedCPUs", "CPUs", false}, {"CPUAffinity", "CPUs", true}}
	if e.config.Pools.Guaranteed.BindMemory {
		keys = append(keys, unitKey{"AllowedMemoryNodes", "memory nodes", false}, unitKey{"NUMAMask", "memory nodes", true})
	}
	for _, u := range e.units {
		if u.unit.Partition != "" {
			continue // cpupoold does not place it
		}
		settings, unread := e.unitSettings(u)
		if len(unread) > 0 {
			e.add(Info, strings.Join(unread, ", "),
				fmt.Sprintf("cannot be read, and may set CPUs of %s", u.spec.Name),
				"run check on the host")
		}
		for _, key := range keys {
			s := settings[key.name]
			effect, remedy := "cpupoold overrides the line while it runs", "remove the line, or the unit from cpupoold's configuration"
			if key.ofProcess {
				effect, remedy = fmt.Sprintf("the unit uses only the %s of the line", key.resource), "remove the line"
			}
			if s.value != "" {
				e.add(Warning, s.source, fmt.Sprintf("sets %s=%s, but cpupoold gives %s its %s: %s", s.key, s.value, u.spec.Name, key.resource, effect), remedy)
			}
		}
	}
}

// unitKey is a key of unit files that sets the same resource as cpupoold.
type unitKey struct {
	name, resource string
	ofProcess      bool // systemd sets it for the process, not for the cgroup
}

// unitSettings returns the last value of each key in a unit's files, and unreadable files.
func (e *evidence) unitSettings(u unitFacts) (settings map[string]setting, unread []string) {
	settings = make(map[string]setting)
	for _, name := range u.unit.Files {
		if isRuntimeProperty(name) {
			continue
		}
		b, err := readFile(e.root, name)
		if err != nil {
			unread = append(unread, name)
			continue
		}
		for _, a := range hostslices.ParseUnitFile(b) {
			settings[a.Key] = setting{a.Value, name, a.Key}
		}
	}
	return settings, unread
}

// checkUnitSlices reports units with CPUs that their slice lacks: the kernel accepts them.
func checkUnitSlices(e *evidence) {
	for _, u := range e.units {
		if !u.unit.Loaded() || u.unit.Path == "" {
			continue
		}
		dir, has := e.effective(path.Dir(string(u.unit.Path)))
		lacking := e.possibleCPUs(u.spec).Difference(has)
		if dir != "" && !lacking.IsEmpty() {
			e.add(Error, path.Join(cgroupRoot, dir, "cpuset.cpus.effective"),
				fmt.Sprintf("is %s: %s in it can never run on CPUs %s", has, u.spec.Name, lacking),
				"widen AllowedCPUs= of the slice, or give the unit its own slice (Slice=)")
		}
	}
}

func (e *evidence) possibleCPUs(u pools.UnitSpec) cpuset.Set {
	if u.CPUs > 0 {
		return e.pools.Guaranteed
	}
	i := slices.IndexFunc(e.pools.Partitions, func(p pools.Partition) bool { return p.Type == u.Pool })
	if i < 0 {
		return e.pools.Shared
	}
	return e.pools.Partitions[i].CPUs
}

// effective returns the CPUs that limit a cgroup, and the cgroup that sets this limit: itself,
// or the nearest ancestor with the controller. The root has no limit beyond the online CPUs.
func (e *evidence) effective(dir string) (string, cpuset.Set) {
	for ; dir != "." && dir != "/" && dir != ""; dir = path.Dir(dir) {
		b, err := readFile(e.root, path.Join(cgroupRoot, dir, "cpuset.cpus.effective"))
		if err != nil {
			continue
		}
		set, err := cpuset.Parse(strings.TrimSpace(string(b)))
		if err != nil {
			break // the kernel does not write such a list
		}
		return dir, set
	}
	return "", cpuset.Set{}
}
