package daemon

import (
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// cgroupProblems returns the problems of cgroups: properties whose repairs pause because of
// external writes, threads outside of the cgroup's CPUs, and too many notices (flooding).
func (l *Loop) cgroupProblems(flooding []cgroup.Path) (all []pools.Problem) {
	add := func(at cgroup.Path, r pools.Reason) bool {
		p := pools.Problem{Reason: r}
		l.inventory.NameOwner(&p, at)
		all = append(all, p)
		return true
	}
	l.backoffs.Problems(l.now())(add)
	l.cache.ThreadProblems()(add)
	for _, at := range flooding {
		add(at.Scope(), treewatch.FloodReason(at))
	}
	return all
}
