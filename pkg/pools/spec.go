package pools

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// hasInfra reports whether the partition for pause containers exists.
func (s Spec) hasInfra() bool {
	return slices.ContainsFunc(s.Partitions, func(p PartitionSpec) bool { return p.Type == s.Infra })
}

// checkInfra checks that pause containers have a partition to be in.
func (r *resolver) checkInfra(s Spec) {
	if s.Infra != "" && !s.hasInfra() {
		r.report(infraKey, s.Infra, "there is no such pool; write shared or the type of a partition")
	}
}

func (r *resolver) checkGuaranteed(g GuaranteedSpec) {
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
	if g.PodLevel != "" && !g.PodLevel.valid() {
		r.report(podLevelKey, string(g.PodLevel), "not a mode; write %s or %s", PodLevelPod, PodLevelContainer)
	}
	known := append(allocate.OptionNames(), podLevelOption)
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

func (r *resolver) checkPartition(i int, partitions []PartitionSpec) {
	p := partitions[i]
	if p.All && !p.CPUs.IsEmpty() {
		r.report(r.partitionKey(i, "cpus"), p.CPUs.String(), "all and a list at once; choose one of them")
	}
	sameType := func(other PartitionSpec) bool { return other.Type == p.Type }
	switch earlier := slices.IndexFunc(partitions, sameType); {
	case !isLabel(p.Type):
		r.report(r.partitionKey(i, "type"), p.Type, "not a DNS label; write 1 to 63 of a-z, 0-9 and -, like management")
	case earlier < i:
		r.report(r.partitionKey(i, "type"), p.Type, "partitions[%d] has this type too; give each type one partition", r.number(earlier))
	case p.Type == string(Shared) || p.Type == string(Guaranteed):
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
	ofType := func(p PartitionSpec) bool { return p.Type == u.Pool }
	switch {
	case u.Pool == "" && u.CPUs <= 0:
		r.report(field+".cpus", strconv.Itoa(u.CPUs), "not a number of CPUs; write at least 1, or a pool")
	case u.Pool != "" && u.CPUs != 0:
		r.report(field+".pool", u.Pool, "exclusive CPUs and a pool at once; choose one of them")
	case u.Pool != "" && u.Pool != string(Shared) && !slices.ContainsFunc(s.Partitions, ofType):
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

// On returns s with the CPUs of the partitions that have Auto. [Spec.Resolve] and [Spec.Adapt]
// call it. A caller that resolves s again after CPUs went offline keeps the result of the first
// call: otherwise the partition would move onto CPUs that became exclusive since.
//
// A partition with Auto gets 1 CPU of up to 3 online ones, 2 of up to 31, 4 of up to 255 and 8 of
// more. It gets whole cores if they are at most a quarter of the machine, and cores of the first
// NUMA node first. It gets no CPU of another list. It gets CPUs that the kernel isolates only if
// no other CPUs are left.
func (s Spec) On(t *topology.Topology) Spec {
	isAuto := func(p PartitionSpec) bool { return p.Auto && p.CPUs.IsEmpty() }
	if !slices.ContainsFunc(s.Partitions, isAuto) {
		return s
	}
	free := t.Online.Difference(s.Guaranteed.Mixed.CPUs)
	for _, l := range new(resolver).lists(&s) {
		free = free.Difference(*l.cpus)
	}
	s.Partitions = slices.Clone(s.Partitions)
	for i := range s.Partitions {
		if isAuto(s.Partitions[i]) {
			s.Partitions[i].CPUs = s.firstCores(t, free)
			free = free.Difference(s.Partitions[i].CPUs)
		}
	}
	return s
}

// firstCores returns the CPUs of a partition with Auto, of those in free.
func (s Spec) firstCores(t *topology.Topology, free cpuset.Set) cpuset.Set {
	limit := free.Len()
	if s.Shared == nil {
		limit-- // the shared pool has the rest
	}
	if others := free.Difference(t.Isolated); !others.IsEmpty() {
		free = others
	}
	want := min(autoSize(t.Online.Len()), limit)
	var got cpuset.Set
	for _, core := range coresByNode(t) {
		more := got.Union(core.CPUs)
		isSmall := more.Len() <= want || 4*more.Len() <= t.Online.Len()
		if got.Len() < want && core.CPUs.IsSubsetOf(free) && more.Len() <= limit && isSmall {
			got = more
		}
	}
	return got.Union(free.Difference(got).Take(want - got.Len()))
}

// autoSize returns the number of CPUs of a partition with Auto on a machine with n online CPUs,
// before whole cores are counted.
func autoSize(n int) int {
	switch {
	case n < 4:
		return 1
	case n < 32:
		return 2
	case n < 256:
		return 4
	}
	return 8
}

// coresByNode returns the cores of the machine. The NUMA node of the first core comes first.
func coresByNode(t *topology.Topology) []topology.Group {
	isNear := func(core topology.Group) bool {
		a, _ := t.CPU(t.Cores[0].CPUs.First())
		b, _ := t.CPU(core.CPUs.First())
		return a.Node == b.Node
	}
	cores := slices.Clone(t.Cores)
	slices.SortStableFunc(cores, func(a, b topology.Group) int { return first(isNear(a), isNear(b)) })
	return cores
}
