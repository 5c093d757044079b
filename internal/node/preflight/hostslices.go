package preflight

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// hostFacts holds systemd's answers about units of host services.
type hostFacts struct {
	units []hostslices.Unit
	errs  map[string]error // by name
}

// queryHostUnits counts CPUs without a file as the daemon's, if a daemon runs.
func queryHostUnits(ctx context.Context, e *evidence) hostFacts {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, pid, _ := e.holder() // checkDaemon reports the error
	f := hostFacts{errs: make(map[string]error)}
	read := hostslices.OfTheHost(func(name string) ([]byte, error) { return readFile(e.root, name) })
	names := e.config.HostUnits()
	for i, a := range e.host.Units(within, names) {
		name, u := names[i], a.Unit
		if a.Err != nil {
			f.errs[name] = a.Err
			u = systemd.Unit{}
		}
		f.units = append(f.units, hostslices.Unit{Name: name, Unit: u, Files: hostslices.Settings(u.Files, u.CPUs, read), Ours: pid != 0})
	}
	return f
}

// checkHostSlices reports host services that may run on CPUs of containers.
func checkHostSlices(e *evidence) {
	key := e.file + ": hostSlices"
	if !e.config.HostSlices.Enabled {
		e.exposedSlices(key+".enabled", e.ownable(), nil,
			"set hostSlices.enabled: true, if the management pool has enough CPUs for them, or AllowedCPUs= in drop-ins of their slices")
		return
	}
	cpus := e.config.HostCPUs(&e.pools, cpuset.Set{})
	if cpus.IsEmpty() {
		e.add(Warning, key+".pool",
			fmt.Sprintf("no management pool %s with a list of CPUs exists: host services run on all CPUs", e.config.HostSlices.Pool),
			"give the pool a list in partitions[].cpus")
		return
	}
	var podPaths []cgroup.Path
	for _, pods := range e.pods {
		podPaths = append(podPaths, cgroup.Path(pods.path))
	}
	pending := make(map[string][]string) // units by their future CPUs
	var known []cgroup.Path
	for _, v := range hostslices.Decide(e.hosts.units, cpus, e.placedUnits(), podPaths) {
		known = append(known, v.Path)
		e.checkHost(key, v)
		if v.State == hostslices.Confined {
			e.checkDisplaced(v)
			if on, there := e.runsOn(string(v.Path)); there && !on.IsSubsetOf(v.CPUs) {
				to := fmt.Sprintf("CPUs %s", cpus)
				if len(v.Has) > 0 { // the guaranteed CPUs of these units are not allocated yet, so their names stand for them
					to += " and the CPUs of " + strings.Join(v.Has, ", ")
				}
				pending[to] = append(pending[to], v.Name)
			}
		}
	}
	for _, to := range slices.Sorted(maps.Keys(pending)) {
		e.add(Info, key, fmt.Sprintf("%s will be confined to %s", strings.Join(pending[to], ", "), to), "")
	}
	e.exposedSlices(key+".units", e.containerCPUs(), known, "name them in hostSlices.units")
}

func (e *evidence) checkHost(key string, v hostslices.Verdict) {
	f := Finding{Severity: Warning, Subject: v.Name, Found: v.Why + ": cpupoold does not change it", Remedy: v.Remedy()}
	configured := slices.Contains(e.config.HostSlices.Units, v.Name)
	switch {
	case v.State == hostslices.Foreign:
		if f.Severity = Info; !e.containerCPUs().Intersection(e.allowedCPUs(v.Path)).IsEmpty() {
			f.Severity = Warning
			f.Found += fmt.Sprintf(", and its services may run on CPUs %s of containers", e.containerCPUs().Intersection(e.allowedCPUs(v.Path)))
		}
	case v.State == hostslices.HoldsPods:
		f.Severity = Error
	case v.State == hostslices.Unknown:
		f.Severity, f.Found = Error, fmt.Sprintf("systemd does not report it: %v", e.hosts.errs[v.Name])
	case v.State == hostslices.Absent && configured:
		f.Subject, f.Found = key+".units", v.Name+": "+v.Why
	case v.State == hostslices.Inside && configured:
		f.Severity, f.Subject, f.Found = Info, key+".units", v.Name+" "+v.Why
	case len(v.Has) > 0:
		f.Found = fmt.Sprintf("contains %s, with exclusive CPUs or a pool: its other services may run there too", strings.Join(v.Has, ", "))
	default:
		return
	}
	e.report(f)
}

// checkDisplaced reports services with CPUs in cpuset.cpus that the daemon will take from their slice.
func (e *evidence) checkDisplaced(v hostslices.Verdict) {
	has := v.CPUs.Difference(v.Also)
	for _, name := range directories(e.root, path.Join(cgroupRoot, string(v.Path))) {
		file := path.Join(cgroupRoot, string(v.Path), name, "cpuset.cpus")
		if cpus := e.cpusIn(file); !cpus.IsEmpty() && !cpus.Overlaps(has) && !slices.Contains(v.Has, name) {
			e.add(Warning, file,
				fmt.Sprintf("is %s, but %s will lose these CPUs: the service will run on the CPUs of the slice", cpus, v.Name),
				"name the service in units, with exclusive CPUs or a pool")
		}
	}
}

// exposedSlices reports cgroups of the host that may run on the CPUs of, except known ones.
func (e *evidence) exposedSlices(subject string, of cpuset.Set, known []cgroup.Path, remedy string) {
	var names []string
	var cpus cpuset.Set
	for _, name := range directories(e.root, cgroupRoot) {
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
		return
	}
	kind := "which belong to containers"
	if own := cpus.Intersection(e.ownable()); !own.IsEmpty() {
		kind = fmt.Sprintf("including CPUs %s for exclusive containers", own)
	}
	e.add(Warning, subject,
		fmt.Sprintf("host services in %s may run on CPUs %s, %s", strings.Join(names, ", "), cpus, kind),
		remedy)
}

// runsOn returns the CPUs of a cgroup that contains processes, directly or below.
func (e *evidence) runsOn(dir string) (cpus cpuset.Set, populated bool) {
	events, _ := readFile(e.root, path.Join(cgroupRoot, dir, "cgroup.events"))
	if !slices.Contains(strings.Split(string(events), "\n"), "populated 1") {
		return cpuset.Set{}, false
	}
	return e.allowedCPUs(cgroup.Path(dir)), true
}

// allowedCPUs returns the CPUs that limit a cgroup: all online CPUs without a limit.
func (e *evidence) allowedCPUs(p cgroup.Path) cpuset.Set {
	if limit, cpus := e.effective(string(p)); limit != "" {
		return cpus
	}
	return e.topology.Online
}

// containerCPUs returns the CPUs of containers, on which host services must not run.
func (e *evidence) containerCPUs() cpuset.Set {
	return e.ownable().Union(e.pools.Shared).Difference(e.config.HostCPUs(&e.pools, cpuset.Set{}))
}

// placedUnits returns the units with CPUs or a pool. Exclusive ones may get any guaranteed CPUs.
func (e *evidence) placedUnits() []hostslices.Placed {
	var all []hostslices.Placed
	for _, u := range e.units {
		if u.unit.Loaded() && u.unit.Path != "" && u.unit.Partition == "" && e.contained(u) == "" {
			all = append(all, hostslices.Placed{Name: u.unit.Name, Path: u.unit.Path, CPUs: e.possibleCPUs(u.spec), Had: u.unit.CPUs})
		}
	}
	return all
}

// cpusIn reads a list of CPUs. It returns an empty set on an error.
func (e *evidence) cpusIn(name string) cpuset.Set {
	b, err := readFile(e.root, name)
	if err != nil {
		return cpuset.Set{}
	}
	set, _ := cpuset.Parse(strings.TrimSpace(string(b)))
	return set
}
