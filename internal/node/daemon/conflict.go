package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// trespasses says that a cgroup runs on CPUs that somebody else is to have for
// himself, be it a container that does not exist yet.
func (l *Loop) trespasses(p cgroup.Path) bool {
	i := slices.IndexFunc(l.status.targets, func(t cgroup.Target) bool { return t.Path == p })
	if i < 0 || l.status.targets[i].CPUs.IsEmpty() {
		return false
	}
	others := desired.OwnedBy(l.status.plan)
	if t := l.status.targets[i]; t.Around {
		others = others.Difference(t.CPUs) // of units in it
	} else if t.Exclusive {
		others = others.Difference(desired.Assigned(l.assignments, l.ownerOf(t)))
	}
	return l.cache.Current[p].Effective.Overlaps(others)
}

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
