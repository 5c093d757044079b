package pools

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Keys of the configuration file, as they appear in errors.
const (
	sharedKey     = "shared.cpus"
	guaranteedKey = "guaranteed.cpus"
)

// Resolve holds s against a machine. CPUs that are present but offline are left
// out of the pools. The error joins one *FieldError for each problem: CPUs that
// the machine does not have or that two pools claim, a pool without a CPU that
// runs, and partitions whose type or namespaces cannot be meant.
func (s Spec) Resolve(t *topology.Topology) (Pools, error) {
	r := resolver{topology: t}
	lists := s.lists()
	for i, l := range lists {
		r.checkPresent(l)
		for _, earlier := range lists[:i] {
			r.checkDisjoint(l, earlier)
		}
	}
	p := Pools{Guaranteed: s.Guaranteed.CPUs.Intersection(t.Online)}
	taken := cpuset.Set{}
	for _, l := range lists {
		taken = taken.Union(l.cpus)
		if l.cpus.IsSubsetOf(t.Present) {
			r.checkRuns(l)
		}
	}
	p.Offline = taken.Intersection(t.Present).Difference(t.Online)
	if s.Shared != nil {
		p.Shared = s.Shared.Intersection(t.Online)
	} else if p.Shared = t.Online.Difference(taken); p.Shared.IsEmpty() {
		r.report(sharedKey, "rest", "the other pools leave no online CPU of %s; take some from them", t.Online)
	}
	for i, spec := range s.Partitions {
		r.checkPartition(i, s.Partitions)
		cpus := spec.CPUs.Intersection(t.Online)
		if spec.All {
			cpus = t.Online.Difference(p.Guaranteed)
		}
		if spec.All && cpus.IsEmpty() {
			r.report(partitionKey(i, "cpus"), "all", "the guaranteed pool has all online CPUs %s; take some from it", t.Online)
		}
		p.Partitions = append(p.Partitions, Partition{spec.Type, cpus, slices.Clone(spec.Namespaces)})
	}
	if len(r.problems) > 0 {
		return Pools{}, errors.Join(r.problems...)
	}
	slices.SortFunc(p.Partitions, func(a, b Partition) int { return cmp.Compare(a.Type, b.Type) })
	return p, nil
}

// list is a pool that is given as a list of CPUs.
type list struct {
	field string
	cpus  cpuset.Set
}

// lists returns the pools that claim CPUs by number.
func (s Spec) lists() []list {
	var lists []list
	for i, p := range s.Partitions {
		if !p.All {
			lists = append(lists, list{partitionKey(i, "cpus"), p.CPUs})
		}
	}
	if s.Shared != nil {
		lists = append(lists, list{sharedKey, *s.Shared})
	}
	if !s.Guaranteed.CPUs.IsEmpty() {
		lists = append(lists, list{guaranteedKey, s.Guaranteed.CPUs})
	}
	return lists
}

func partitionKey(i int, key string) string { return fmt.Sprintf("partitions[%d].%s", i, key) }

// resolver collects problems.
type resolver struct {
	topology *topology.Topology
	problems []error
}

func (r *resolver) report(field, value, format string, args ...any) {
	r.problems = append(r.problems, &FieldError{field, value, fmt.Sprintf(format, args...)})
}

func (r *resolver) checkPresent(l list) {
	if absent := l.cpus.Difference(r.topology.Present); !absent.IsEmpty() {
		r.report(l.field, l.cpus.String(), "the machine has no CPU %s; it has %s", absent, r.topology.Present)
	}
}

func (r *resolver) checkDisjoint(l, earlier list) {
	if both := l.cpus.Intersection(earlier.cpus); !both.IsEmpty() {
		r.report(l.field, l.cpus.String(), "CPU %s is in %s too; take it out of one of them", both, earlier.field)
	}
}

func (r *resolver) checkRuns(l list) {
	switch {
	case l.cpus.IsEmpty():
		r.report(l.field, "", "no CPU; write a list like 0-3,8")
	case !l.cpus.Overlaps(r.topology.Online):
		r.report(l.field, l.cpus.String(), "none of these CPUs is online; bring one online or choose from %s", r.topology.Online)
	}
}

// checkPartition checks what does not depend on the machine.
func (r *resolver) checkPartition(i int, partitions []PartitionSpec) {
	p := partitions[i]
	if p.All && !p.CPUs.IsEmpty() {
		r.report(partitionKey(i, "cpus"), p.CPUs.String(), "all and a list at once; choose one of them")
	}
	sameType := func(other PartitionSpec) bool { return other.Type == p.Type }
	switch earlier := slices.IndexFunc(partitions, sameType); {
	case !isLabel(p.Type):
		r.report(partitionKey(i, "type"), p.Type, "not a DNS label; write 1 to 63 of a-z, 0-9 and -, like management")
	case earlier < i:
		r.report(partitionKey(i, "type"), p.Type, "partitions[%d] has this type too; give each type one partition", earlier)
	}
	for j, ns := range p.Namespaces {
		switch earlier := slices.Index(p.Namespaces, ns); {
		case !isLabel(ns):
			r.report(partitionKey(i, fmt.Sprintf("namespaces[%d]", j)), ns, "not the name of a namespace; write each name in full")
		case earlier < j:
			r.report(partitionKey(i, fmt.Sprintf("namespaces[%d]", j)), ns, "listed twice; remove one")
		}
	}
}

// isLabel reports whether s is a DNS label: RFC 1123, as Kubernetes demands it of
// namespaces.
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
