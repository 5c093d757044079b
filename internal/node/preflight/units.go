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
)

// unitFacts is what systemd says of a unit of the configuration.
type unitFacts struct {
	spec pools.UnitSpec
	unit cgroup.Unit
	err  error
}

// key is the unit's place in the configuration.
func (u unitFacts) key(e *evidence) string { return e.file + ": units." + u.spec.Name }

// askUnits asks systemd for each unit; the time for all of them together is
// bounded.
func askUnits(ctx context.Context, host Host, specs []pools.UnitSpec) []unitFacts {
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

// checkUnits: a unit that is not there yet is placed when it appears.
func checkUnits(e *evidence) []Finding {
	var findings []Finding
	names := make(map[string]string) // as configured, by the unit's own name
	for _, u := range e.units {
		f := Finding{Severity: Error, Subject: u.key(e)}
		other, twice := names[u.unit.Name]
		inside := e.inside(u)
		switch {
		case u.err != nil:
			f.Found = fmt.Sprintf("systemd does not tell about it: %v", u.err)
			f.Remedy = "run as root; in a container mount the host's /run/systemd and /run/dbus"
		case u.unit.Load == "not-found":
			f.Severity = Warning
			f.Found = "systemd knows no such unit: its CPUs wait for it"
			f.Remedy = "correct the name, or install the unit and run systemctl daemon-reload"
		case !u.unit.Loaded():
			f.Severity = Warning
			f.Found = fmt.Sprintf("the unit cannot be started (LoadState=%s): its CPUs wait for it", u.unit.Load)
			f.Remedy = "see systemctl status " + u.spec.Name
		case inside != "":
			f.Found = fmt.Sprintf("its cgroup %s contains %s: it would limit them to its CPUs, so that cpupoold leaves it alone", u.unit.Path, inside)
			f.Remedy = "name units in it one by one, or remove it"
		case twice:
			f.Found = fmt.Sprintf("is the same unit as %s (%s)", other, u.unit.Name)
			f.Remedy = "keep one of them"
		case u.unit.Name != u.spec.Name:
			f.Severity = Warning
			f.Found = "is an alias of " + u.unit.Name
			f.Remedy = "write " + u.unit.Name
		}
		if u.err == nil {
			names[u.unit.Name] = u.spec.Name
		}
		if f.Found != "" {
			findings = append(findings, f)
		}
	}
	return findings
}

// inside says who is in a unit's cgroup that is placed for himself, "" if nobody is.
func (e *evidence) inside(u unitFacts) string {
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

// ownSettings is where systemd keeps what was set over D-Bus until the next boot,
// by cpupoold among others.
const ownSettings = "/run/systemd/system.control/"

// checkUnitSettings looks for what somebody else has written into a unit about
// the same things. cpupoold's settings go before AllowedCPUs=, but nothing goes
// before the affinity that systemd gives the process itself.
func checkUnitSettings(e *evidence) []Finding {
	keys := []unitKey{{"AllowedCPUs", "CPUs", false}, {"CPUAffinity", "CPUs", true}}
	if e.config.Pools.Guaranteed.BindMemory {
		keys = append(keys, unitKey{"AllowedMemoryNodes", "memory nodes", false}, unitKey{"NUMAMask", "memory nodes", true})
	}
	var findings []Finding
	for _, u := range e.units {
		settings, unread := e.unitSettings(u)
		if len(unread) > 0 {
			findings = append(findings, Finding{
				Severity: Info,
				Subject:  strings.Join(unread, ", "),
				Found:    fmt.Sprintf("cannot be read, so it is not certain that nobody else gives %s CPUs", u.spec.Name),
				Remedy:   "run check on the host",
			})
		}
		for _, key := range keys {
			if s := settings[key.name]; s.value != "" {
				findings = append(findings, key.finding(u, s))
			}
		}
	}
	return findings
}

// unitKey is a key of unit files that is about the same as what cpupoold sets.
type unitKey struct {
	name, of string
	process  bool // what systemd sets for the process and not for its cgroup
}

func (k unitKey) finding(u unitFacts, s setting) Finding {
	f := Finding{
		Severity: Warning,
		Subject:  s.source,
		Found: fmt.Sprintf("sets %s=%s, but cpupoold gives %s its %s: it overrides the line for as long as it runs",
			s.key, s.value, u.spec.Name, k.of),
		Remedy: "remove the line, or the unit from cpupoold's configuration",
	}
	if k.process {
		f.Found = fmt.Sprintf("sets %s=%s, but cpupoold gives %s its %s: its threads keep to those that the line names",
			s.key, s.value, u.spec.Name, k.of)
		f.Remedy = "remove the line"
	}
	return f
}

// unitSettings are the keys in the unit's files by name, of which the last one
// counts, and the files that cannot be read: in a container they are not there.
func (e *evidence) unitSettings(u unitFacts) (settings map[string]setting, unread []string) {
	settings = make(map[string]setting)
	for _, name := range u.unit.Files {
		if strings.HasPrefix(name, ownSettings) {
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

// checkUnitSlices: a unit cannot have what its slice does not have. The kernel
// does not refuse it; it lets the unit run on what is left, or on all that the
// slice has.
func checkUnitSlices(e *evidence) []Finding {
	var findings []Finding
	for _, u := range e.units {
		if !u.unit.Loaded() || u.unit.Path == "" {
			continue
		}
		dir, has := e.effective(path.Dir(string(u.unit.Path)))
		wanted := e.wantedBy(u.spec)
		lacking := wanted.Difference(has)
		if dir == "" || lacking.IsEmpty() {
			continue
		}
		findings = append(findings, Finding{
			Severity: Error,
			Subject:  path.Join(cgroupRoot, dir, "cpuset.cpus.effective"),
			Found:    fmt.Sprintf("is %s: %s in it can never run on CPUs %s", has, u.spec.Name, lacking),
			Remedy:   "widen AllowedCPUs= of the slice, or give the unit a slice of its own (Slice=)",
		})
	}
	return findings
}

// wantedBy are the CPUs that a unit may get.
func (e *evidence) wantedBy(u pools.UnitSpec) cpuset.Set {
	if u.CPUs > 0 {
		return e.pools.Guaranteed
	}
	i := slices.IndexFunc(e.pools.Partitions, func(p pools.Partition) bool { return p.Type == u.Pool })
	if i < 0 {
		return e.pools.Shared
	}
	return e.pools.Partitions[i].CPUs
}

// effective returns what a cgroup's CPUs are limited to, and the cgroup that
// limits them: itself, or the closest above it that has the controller. The root
// limits nothing that Resolve does not know.
func (e *evidence) effective(dir string) (string, cpuset.Set) {
	for ; dir != "." && dir != "/" && dir != ""; dir = path.Dir(dir) {
		b, err := readFile(e.root, path.Join(cgroupRoot, dir, "cpuset.cpus.effective"))
		if err != nil {
			continue
		}
		set, err := cpuset.Parse(strings.TrimSpace(string(b)))
		if err != nil {
			break // not what the kernel writes
		}
		return dir, set
	}
	return "", cpuset.Set{}
}
