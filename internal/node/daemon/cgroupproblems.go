package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeStuckThreads is the code of problems of cgroups with threads outside of their CPUs.
const codeStuckThreads pools.Code = "StuckThreads"

// conflictProblems returns the properties whose repairs pause because of external writes.
func (l *Loop) conflictProblems(now time.Time) []pools.Problem {
	var all []pools.Problem
	for path, reason := range l.backoffs.Problems(now) {
		p := pools.Problem{Reason: reason}
		l.nameOwner(&p, path)
		all = append(all, p)
	}
	return all
}

// nameOwner adds the container of a cgroup to a problem.
func (l *Loop) nameOwner(p *pools.Problem, at cgroup.Path) {
	e := l.inventory.ContainerAt(at)
	if e == nil {
		return
	}
	p.Container = e.Container.Name
	if pod := l.inventory.PodOf(e); pod != nil {
		p.PodUID, p.Pod = pod.UID, pod.Name()
	}
}

// strandedProblems returns the cgroups with threads that run outside of their CPUs.
func (l *Loop) strandedProblems() []pools.Problem {
	var all []pools.Problem
	for at, err := range l.cache.Stranded() {
		p := pools.Problem{Reason: pools.Reason{Code: codeStuckThreads, Text: err.Error()}}
		l.nameOwner(&p, at)
		all = append(all, p)
	}
	return all
}
