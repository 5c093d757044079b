package poolspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// hasInfra reports whether the partition for pause containers exists.
func (s Spec) hasInfra() bool {
	return slices.ContainsFunc(s.Partitions, func(p Partition) bool { return p.Type == s.Infra })
}

// checkInfra checks that pause containers have a partition to be in.
func (r *resolver) checkInfra(s Spec) {
	if s.Infra != "" && !s.hasInfra() {
		r.report(infraKey, s.Infra, "there is no such pool; write shared or the type of a partition")
	}
}

func (r *resolver) checkGuaranteed(g Guaranteed) {
	if g.FromShared && !g.CPUs.IsEmpty() {
		r.report(fromKey, "shared", "guaranteed.cpus is a list; choose one of them")
	}
	percent := strconv.Itoa(g.FloorPercent) + "%"
	switch {
	case g.FloorPercent < 0 || g.FloorPercent > 99:
		r.report(floorKey, percent, "is not a part of the shared pool; write 1%% to 99%%")
	case g.FloorPercent > 0 && g.Floor > 0:
		r.report(floorKey, percent, "a number of CPUs is set too; choose one of them")
	case g.FloorPercent > 0 && !g.FromShared:
		r.report(floorKey, percent, "counts with from: shared only, where containers take CPUs out of the shared pool; remove it")
	case g.Floor < 0:
		r.report(floorKey, strconv.Itoa(g.Floor), "is below 0; write how many CPUs the shared pool keeps, at least 1")
	case g.Floor > 0 && !g.FromShared:
		r.report(floorKey, strconv.Itoa(g.Floor), "counts with from: shared only, where containers take CPUs out of the shared pool; remove it")
	}
	r.checkMixed(g)
	r.checkClaims(g)
	for _, err := range g.Options.Validate() {
		r.report(optionsKey, "", "%v", err)
	}
	if g.PodLevel != "" && !g.PodLevel.Valid() {
		r.report(podLevelKey, string(g.PodLevel), "not a mode; write %s or %s", pools.PodLevelPod, pools.PodLevelContainer)
	}
	known := append(allocate.OptionNames(), pools.PodLevelOption)
	for i, name := range g.Overrides {
		field := fmt.Sprintf("%s[%d]", overridesKey, i)
		switch earlier := slices.Index(g.Overrides, name); {
		case !slices.Contains(known, name):
			r.report(field, name, "not an option; write one of %s", strings.Join(known, ", "))
		case earlier < i:
			r.report(field, name, "listed twice; remove one")
		}
	}
}

func (r *resolver) checkPartition(i int, partitions []Partition) {
	p := partitions[i]
	if p.All && !p.CPUs.IsEmpty() {
		r.report(r.partitionKey(i, "cpus"), p.CPUs.String(), "all and a list at once; choose one of them")
	}
	sameType := func(other Partition) bool { return other.Type == p.Type }
	switch earlier := slices.IndexFunc(partitions, sameType); {
	case !isLabel(p.Type):
		r.report(r.partitionKey(i, "type"), p.Type, "not a DNS label; write 1 to 63 of a-z, 0-9 and -, like management")
	case earlier < i:
		r.report(r.partitionKey(i, "type"), p.Type, "partitions[%d] has this type too; give each type one partition", r.number(earlier))
	case p.Type == string(pools.Shared) || p.Type == string(pools.Guaranteed):
		r.report(r.partitionKey(i, "type"), p.Type, "the name of another pool; choose a different one")
	}
	for j, ns := range p.Namespaces {
		switch earlier := slices.Index(p.Namespaces, ns); {
		case !isLabel(ns):
			r.report(r.partitionKey(i, fmt.Sprintf("namespaces[%d]", j)), ns, "not the name of a namespace; write each name in full")
		case earlier < j:
			r.report(r.partitionKey(i, fmt.Sprintf("namespaces[%d]", j)), ns, "listed twice; remove one")
		}
	}
}

func (r *resolver) checkUnit(i int, s Spec) {
	u := s.Units[i]
	field := unitsKey + "." + u.Name
	if problem := UnitNameProblem(u.Name); problem != "" {
		r.report(unitsKey, u.Name, "%s", problem)
		return
	}
	for _, earlier := range s.Units[:i] {
		switch {
		case earlier.Name == u.Name:
			r.report(field, u.Name, "listed twice; remove one")
		case contains(earlier.Name, u.Name) || contains(u.Name, earlier.Name):
			r.report(field, u.Name, "one of this slice and %s lies in the other, so that they cannot have different CPUs; remove one", earlier.Name)
		}
	}
	ofType := func(p Partition) bool { return p.Type == u.Pool }
	switch {
	case u.Pool == "" && u.CPUs <= 0:
		r.report(field+".cpus", strconv.Itoa(u.CPUs), "not a number of CPUs; write at least 1, or a pool")
	case u.Pool != "" && u.CPUs != 0:
		r.report(field+".pool", u.Pool, "exclusive CPUs and a pool at once; choose one of them")
	case u.Pool != "" && u.Pool != string(pools.Shared) && !slices.ContainsFunc(s.Partitions, ofType):
		r.report(field+".pool", u.Pool, "there is no such pool; write shared or the type of a partition")
	}
}

// UnitNameProblem returns the problem with the name of a unit, "" for a valid name. It
// applies systemd's rules (systemd.unit(5)), and rejects units that can hold
// containers.
func UnitNameProblem(name string) string {
	const longest = 255
	stem, slice := strings.CutSuffix(name, ".slice")
	if !slice {
		stem, _ = strings.CutSuffix(name, ".service")
	}
	badByte := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(`:-_.\@`, c)
	}
	switch {
	case stem == name:
		return "not a service or slice; write the whole name, like du.service"
	case len(name) > longest || stem == "" || strings.ContainsFunc(stem, badByte) || stem[0] == '@' || slice && strings.Contains(stem, "@"):
		return `not the name of a unit; write up to 255 of a-z, A-Z, 0-9 and :-_.\@`
	case strings.HasSuffix(stem, "@"):
		return "a template and not a unit; write the name of an instance, like du@1.service"
	case !slice:
		return ""
	case stem == "-" || stem == "kubepods" || strings.HasPrefix(stem, "kubepods-"):
		return "this slice holds pods, which have pools of their own; choose another unit"
	case stem[0] == '-' || strings.HasSuffix(stem, "-") || strings.Contains(stem, "--"):
		return "not the name of a slice: a dash stands for the slice around it; write a name like radio.slice or radio-du.slice"
	}
	return ""
}

// contains reports whether unit b is a slice within slice a.
func contains(a, b string) bool {
	outer, ok := strings.CutSuffix(a, ".slice")
	return ok && strings.HasSuffix(b, ".slice") && strings.HasPrefix(b, outer+"-")
}

// isLabel reports whether s is a DNS label: RFC 1123, as Kubernetes demands it of
// namespaces.
func isLabel(s string) bool {
	isOther := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' }
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && !strings.ContainsFunc(s, isOther)
}

// checkMixed checks the rules of the key that do not depend on the machine.
func (r *resolver) checkMixed(g Guaranteed) {
	m := &g.Mixed
	switch {
	case m.Shared && !m.CPUs.IsEmpty():
		r.report(mixedCPUsKey, m.CPUs.String(), "shared and a list at once; choose one of them")
	case !m.On() && len(m.Namespaces) > 0:
		r.report(mixedKey, "", "names namespaces and no CPUs; write the shared CPUs for their containers: shared, or a list")
	case m.On() && len(m.Namespaces) == 0:
		r.report(mixedNamespacesKey, "", `names no namespace, so no container gets any; list the namespaces whose pods may request them, or "%s" for all`, pools.EveryNamespace)
	case m.On() && g.CPUs.IsEmpty() && !g.FromShared:
		r.report(mixedKey, "", "is for containers with exclusive CPUs, and no container gets any here; configure guaranteed.cpus or guaranteed.from, or remove it")
	}
	for i, ns := range m.Namespaces {
		field := fmt.Sprintf("%s[%d]", mixedNamespacesKey, i)
		switch earlier := slices.Index(m.Namespaces, ns); {
		case ns != pools.EveryNamespace && !isLabel(ns):
			r.report(field, ns, `not the name of a namespace; write each name in full, or "%s" alone for all`, pools.EveryNamespace)
		case earlier < i:
			r.report(field, ns, "listed twice; remove one")
		case ns == pools.EveryNamespace && len(m.Namespaces) > 1:
			r.report(field, ns, "stands for all namespaces; remove the others")
		}
	}
}

// checkClaims checks the rules for claims that do not depend on the machine.
func (r *resolver) checkClaims(g Guaranteed) {
	switch {
	case g.Claims.CPUs.IsEmpty() && g.Claims.Lend:
		r.report(claimsKey, "", "lends CPUs of claims, but claims have no CPUs; write a list in guaranteed.claims.cpus")
	case !g.Claims.CPUs.IsEmpty() && g.Kubelet:
		r.report(claimCPUsKey, g.Claims.CPUs.String(), "the kubelet allocates the CPUs of all containers, also these (guaranteed.exclusive); choose one of them")
	}
}

// checkWholeCores reports cores of which only a part is for claims, if the options give whole cores.
func (r *resolver) checkWholeCores(g Guaranteed) {
	if !g.Options.FullPCPUsOnly && !g.Options.OneOwnerPerCore {
		return
	}
	var missing cpuset.Set
	for _, core := range r.topology.Cores {
		if core.CPUs.Overlaps(g.Claims.CPUs) {
			missing = missing.Union(core.CPUs.Difference(g.Claims.CPUs))
		}
	}
	if !missing.IsEmpty() {
		r.report(claimCPUsKey, g.Claims.CPUs.String(), "has parts of cores, and claims get whole cores; add CPU %s, or remove these cores", missing)
	}
}
