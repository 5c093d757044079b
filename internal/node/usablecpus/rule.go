package usablecpus

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const codeWithheld pools.Code = "CPUsWithheld"

// Withheld is a set of online CPUs that pools cannot use, with the reason.
type Withheld struct {
	// By is the cgroup with the partition that has the CPUs. It is empty for CPUs that the root
	// lacks because the machine is a container.
	By   cgroup.Path
	CPUs cpuset.Set
}

// Rule returns the CPUs of online that pools cannot use, by cgroup. The sets are disjoint.
//
// The root of a container lacks CPUs because of its limit. Without such a limit, CPUs that neither
// the root nor a partition has are not in the result: the kernel returns the CPUs of an ended
// partition after a moment.
func Rule(online cpuset.Set, root cgroup.RootCPUs) []Withheld {
	var all []Withheld
	lacks := online.Difference(root.Effective)
	for _, p := range slices.Sorted(maps.Keys(root.Partitions)) {
		cpus := root.Partitions[p].Intersection(lacks)
		lacks = lacks.Difference(cpus)
		if !cpus.IsEmpty() && !inPods(p, root.Partitions) {
			all = append(all, Withheld{By: p, CPUs: cpus})
		}
	}
	if root.Nested && !lacks.IsEmpty() {
		all = append(all, Withheld{CPUs: lacks})
	}
	return all
}

// inPods reports whether the CPUs of a valid partition stay in the pools. This holds for the
// partition of a container, of parked CPUs, or of all pods, and for a partition inside of one.
func inPods(p cgroup.Path, partitions map[cgroup.Path]cpuset.Set) bool {
	for ; p != ""; p = p.Parent() {
		if _, valid := partitions[p]; valid && (p == cgroup.Parking || p == cgroup.ParkingTop || p.HoldsPods() || p.InPod() && !p.Parent().Parent().InPod()) {
			return true
		}
	}
	return false
}

// Of returns the CPUs of all of them.
func Of(all []Withheld) (cpus cpuset.Set) {
	for _, w := range all {
		cpus = cpus.Union(w.CPUs)
	}
	return cpus
}

// Problems returns a problem for each cgroup that withholds CPUs of the configured pools.
// Offline holds the configured CPUs that the pools lack.
func Problems(all []Withheld, offline cpuset.Set) []pools.Problem {
	var problems []pools.Problem
	for _, w := range all {
		if w.CPUs = w.CPUs.Intersection(offline); w.CPUs.IsEmpty() {
			continue
		}
		unit, _ := w.unit()
		problems = append(problems, pools.Problem{Unit: unit, Reason: pools.Reason{Code: codeWithheld,
			Text: fmt.Sprintf("%s: the pools are without these CPUs, as if they were offline; %s", w.Found(), w.Remedy())}})
	}
	return problems
}

// Found describes the reason.
func (w Withheld) Found() string {
	if w.By == "" {
		return fmt.Sprintf("the cgroup root lacks CPUs %s, because this machine is a container with a limit on its CPUs", w.CPUs)
	}
	return fmt.Sprintf("the cpuset partition of %s has CPUs %s", w.By, w.CPUs)
}

// Remedy describes how the pools get the CPUs.
func (w Withheld) Remedy() string {
	if w.By == "" {
		return "give the container these CPUs, or remove them from the pools"
	}
	remedy := fmt.Sprintf("write member to its %s", cgroup.FilePartition)
	if unit, ok := w.unit(); ok {
		remedy = fmt.Sprintf("remove %s= from %s", cgroup.UnitPartition, unit)
	}
	return remedy + ", or remove the CPUs from the pools"
}

// unit returns the unit with the partition. A cgroup in a container is none.
func (w Withheld) unit() (name string, ok bool) {
	if w.By.InPod() {
		return "", false
	}
	return w.By.Unit()
}
