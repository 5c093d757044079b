package preflight

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// hostFacts is what systemd says of the units of host services.
type hostFacts struct {
	units []hostslices.Unit
	errs  map[string]error // by name
}

// askHostUnits asks for those that are to be confined. That systemd has CPUs for one
// of them that no file tells is the doing of the daemon, if one runs.
func askHostUnits(ctx context.Context, e *evidence) hostFacts {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pid, _ := e.host.LockHolder(path.Join(e.config.RunDir, "lock")) // checkDaemon reports the error
	f := hostFacts{errs: make(map[string]error)}
	read := hostslices.OfTheHost(func(name string) ([]byte, error) { return readFile(e.root, name) })
	names := e.config.HostUnits()
	for i, a := range e.host.Units(within, names) {
		name, u := names[i], a.Unit
		if a.Err != nil {
			f.errs[name] = a.Err
			u = cgroup.Unit{}
		}
		f.units = append(f.units, hostslices.Unit{Name: name, Unit: u, Files: hostslices.Settings(u.Files, u.CPUs, read), Ours: pid != 0})
	}
	return f
}

// hostCPUs are those of the management pool that host services are to run in; empty if
// it has none of its own.
func (e *evidence) hostCPUs() cpuset.Set {
	typ := e.config.HostSlices.Pool
	if slices.ContainsFunc(e.config.Pools.Partitions, func(p pools.PartitionSpec) bool { return p.Type == typ && p.All }) {
		return cpuset.Set{}
	}
	i := slices.IndexFunc(e.pools.Partitions, func(p pools.Partition) bool { return p.Type == typ })
	if i < 0 {
		return cpuset.Set{}
	}
	return e.pools.Partitions[i].CPUs
}

// checkHostSlices: exclusive CPUs are exclusive among containers. Services of the host
// keep off them only if their slices do.
func checkHostSlices(e *evidence) []Finding {
	key := e.file + ": hostSlices"
	if !e.config.HostSlices.Enabled {
		return e.exposed(key+".enabled", e.pools.Guaranteed, nil,
			"set hostSlices.enabled: true, if the management pool has room for them, or AllowedCPUs= in drop-ins of their slices")
	}
	cpus := e.hostCPUs()
	if cpus.IsEmpty() {
		return []Finding{{
			Severity: Warning,
			Subject:  key + ".pool",
			Found:    fmt.Sprintf("there is no management pool %s with a list of CPUs: services of the host run everywhere", e.config.HostSlices.Pool),
			Remedy:   "give the pool a list in partitions[].cpus",
		}}
	}
	verdicts := hostslices.Decide(e.hosts.units, cpus, e.placedUnits(), e.podPaths())
	var findings []Finding
	ahead := make(map[string][]string) // by the CPUs
	var known []cgroup.Path
	for _, v := range verdicts {
		known = append(known, v.Path)
		findings = append(findings, e.hostFinding(key, v)...)
		if v.State == hostslices.Confined {
			findings = append(findings, e.displaced(v)...)
			if on, there := e.runsOn(string(v.Path)); there && !on.IsSubsetOf(v.CPUs) {
				to := confinement(cpus, v)
				ahead[to] = append(ahead[to], v.Name)
			}
		}
	}
	for _, to := range slices.Sorted(maps.Keys(ahead)) {
		findings = append(findings, Finding{
			Severity: Info,
			Subject:  key,
			Found:    fmt.Sprintf("%s will be confined to %s", strings.Join(ahead[to], ", "), to),
		})
	}
	return append(findings, e.exposed(key+".units", e.others(), known, "name them in hostSlices.units")...)
}

// confinement names the CPUs that a unit is to have: those of the pool, and of what is
// in it. Which of the guaranteed CPUs a unit in it gets is not known yet.
func confinement(pool cpuset.Set, v hostslices.Verdict) string {
	if len(v.Has) == 0 {
		return fmt.Sprintf("CPUs %s", pool)
	}
	return fmt.Sprintf("CPUs %s and those of %s", pool, strings.Join(v.Has, ", "))
}

// hostFinding is what is to be said of one unit.
func (e *evidence) hostFinding(key string, v hostslices.Verdict) []Finding {
	f := Finding{Severity: Warning, Subject: v.Name, Found: v.Why + ": cpupoold leaves it alone", Remedy: v.Remedy()}
	configured := slices.Contains(e.config.HostSlices.Units, v.Name)
	switch {
	case v.State == hostslices.Foreign:
		if f.Severity = Info; !e.others().Intersection(e.on(v.Path)).IsEmpty() {
			f.Severity = Warning
			f.Found += fmt.Sprintf(", and its services may run on CPUs %s of containers", e.others().Intersection(e.on(v.Path)))
		}
	case v.State == hostslices.HoldsPods:
		f.Severity = Error
	case v.State == hostslices.Unknown:
		f.Severity, f.Found = Error, fmt.Sprintf("systemd does not tell about it: %v", e.hosts.errs[v.Name])
	case v.State == hostslices.Absent && configured:
		f.Subject, f.Found = key+".units", v.Name+": "+v.Why
	case v.State == hostslices.Inside && configured:
		f.Severity, f.Subject, f.Found = Info, key+".units", v.Name+" "+v.Why
	case len(v.Has) > 0:
		f.Found = fmt.Sprintf("%s in it have CPUs of their own, or a pool: services beside them may run there, too", strings.Join(v.Has, ", "))
	default:
		return nil
	}
	return []Finding{f}
}

// displaced are services that ask for CPUs of which their slice will have none: the
// kernel lets them run on what it has.
func (e *evidence) displaced(v hostslices.Verdict) []Finding {
	entries, err := fs.ReadDir(e.root, relative(path.Join(cgroupRoot, string(v.Path))))
	if err != nil {
		return nil // it is not there
	}
	has := v.CPUs.Difference(v.Also)
	var findings []Finding
	for _, entry := range entries {
		dir := v.Path.Join(entry.Name())
		asks := e.cpusIn(path.Join(cgroupRoot, string(dir), "cpuset.cpus"))
		if asks.IsEmpty() || asks.Overlaps(has) || slices.Contains(v.Has, entry.Name()) {
			continue
		}
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  path.Join(cgroupRoot, string(dir), "cpuset.cpus"),
			Found:    fmt.Sprintf("is %s, and %s will have none of these: it will run on what the slice has", asks, v.Name),
			Remedy:   "name the service in units, with CPUs of its own or a pool",
		})
	}
	return findings
}

// exposed are cgroups of the host that may run on CPUs of containers, without those
// that are known.
func (e *evidence) exposed(subject string, of cpuset.Set, known []cgroup.Path, remedy string) []Finding {
	entries, err := fs.ReadDir(e.root, relative(cgroupRoot))
	if err != nil {
		return nil // there is no tree to speak of
	}
	var names []string
	var cpus cpuset.Set
	for _, entry := range entries {
		name := entry.Name()
		holdsPods := func(pods kubepodsDir) bool { return pods.path == name || strings.HasPrefix(pods.path, name+"/") }
		ofUnit := func(u unitFacts) bool { return string(u.unit.Path) == name }
		on, there := e.runsOn(name)
		on = on.Intersection(of)
		if !there || on.IsEmpty() || slices.Contains(known, cgroup.Path(name)) || slices.ContainsFunc(e.pods, holdsPods) || slices.ContainsFunc(e.units, ofUnit) {
			continue
		}
		names, cpus = append(names, name), cpus.Union(on)
	}
	if len(names) == 0 {
		return nil
	}
	whose := "which are those of containers"
	if own := cpus.Intersection(e.pools.Guaranteed); !own.IsEmpty() {
		whose = fmt.Sprintf("and containers are to have %s for themselves", own)
	}
	return []Finding{{
		Severity: Warning,
		Subject:  subject,
		Found:    fmt.Sprintf("services of the host in %s may run on CPUs %s, %s", strings.Join(names, ", "), cpus, whose),
		Remedy:   remedy,
	}}
}

// runsOn returns the CPUs of a cgroup directly below the root, or deeper, in which
// processes are.
func (e *evidence) runsOn(dir string) (cpus cpuset.Set, there bool) {
	events, err := readWords(e.root, path.Join(cgroupRoot, dir, "cgroup.events"))
	if i := slices.Index(events, "populated"); err != nil || i < 0 || i+1 == len(events) || events[i+1] != "1" {
		return cpuset.Set{}, false
	}
	return e.on(cgroup.Path(dir)), true
}

// on are the CPUs that a cgroup is limited to: all that are online, if nothing limits it.
func (e *evidence) on(p cgroup.Path) cpuset.Set {
	if limit, cpus := e.effective(string(p)); limit != "" {
		return cpus
	}
	return e.topology.Online
}

// others are the CPUs that host services are not to run on.
func (e *evidence) others() cpuset.Set {
	return e.pools.Guaranteed.Union(e.pools.Shared).Difference(e.hostCPUs())
}

// placedUnits are the units that have a place of their own. Which of the guaranteed
// CPUs one gets is not known yet.
func (e *evidence) placedUnits() []hostslices.Placed {
	var all []hostslices.Placed
	for _, u := range e.units {
		if u.unit.Loaded() && u.unit.Path != "" && e.inside(u) == "" {
			all = append(all, hostslices.Placed{Name: u.unit.Name, Path: u.unit.Path, CPUs: e.wantedBy(u.spec), Had: u.unit.CPUs})
		}
	}
	return all
}

func (e *evidence) podPaths() []cgroup.Path {
	var all []cgroup.Path
	for _, pods := range e.pods {
		all = append(all, cgroup.Path(pods.path))
	}
	return all
}

// cpusIn reads a list of CPUs; what cannot be read is none.
func (e *evidence) cpusIn(name string) cpuset.Set {
	b, err := readFile(e.root, name)
	if err != nil {
		return cpuset.Set{}
	}
	set, err := cpuset.Parse(strings.TrimSpace(string(b)))
	if err != nil {
		return cpuset.Set{}
	}
	return set
}
