package daemon

import (
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeStuckThreads is the code of problems of cgroups with threads outside of their CPUs.
const codeStuckThreads pools.Code = "StuckThreads"

// conflictProblems are the cgroups that are left to somebody else for now.
func (l *Loop) conflictProblems(now time.Time) []pools.Problem {
	var all []pools.Problem
	for path, of := range l.backoffs.Contests {
		for property, c := range of {
			if c.Truce == 0 || c.Over(now) {
				continue
			}
			p := pools.Problem{Reason: pools.Reason{Code: retry.CodeContested, Text: fmt.Sprintf(
				"%s of %s: somebody else (%s) writes %q whenever it has %q; it is left alone until %s. Stop one of the two",
				property, path, c.Cause, c.Is, c.Was, c.Until.Format(time.RFC3339))}}
			l.nameOwner(&p, path)
			all = append(all, p)
		}
	}
	return all
}

// nameOwner adds whose cgroup a problem is about, if that is a container's.
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
