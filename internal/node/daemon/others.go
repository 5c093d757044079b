package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// leaves says that a container is another manager's.
func (l *Loop) leaves(e *inventory.Container) bool {
	pod := l.inventory.PodOf(e)
	if pod == nil {
		return false
	}
	_, is := l.others.Claim(pod, e)
	return is
}

// isOutsidePod says that containers of a pod may be another manager's: what appears in its
// slice is left alone until the runtime has told what it is. So is what appears in that
// of a pod that is not known yet, where it may be one of those: CRI-O writes a cpuset
// once, and one that is written over in between is lost.
func (l *Loop) isOutsidePod(slice cgroup.Path) bool {
	for pod := range l.inventory.Pods() {
		if pod.Slice != slice {
			continue
		}
		names := []string{""}
		for key := range pod.Pod.Annotations {
			_, name, _ := strings.Cut(key, "/")
			names = append(names, name) // of a container, maybe
		}
		return slices.ContainsFunc(names, func(name string) bool {
			_, is := l.others.Claim(pod, &inventory.Container{Container: cri.Container{Name: name, Requested: cri.Resources{Shares: desired.SharesOfOne}}})
			return is
		})
	}
	return l.others.Crio.Places()
}

// leftPaths are the cgroups of containers that are left to others.
func (l *Loop) leftPaths() map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for e := range l.inventory.Containers() {
		if l.leaves(e) {
			all[e.Path] = true
		}
	}
	return all
}

// noteOthers tells of the containers that are left to others, each once.
func (l *Loop) noteOthers() {
	now := make(map[string]bool)
	for e := range l.inventory.Containers() {
		id, pod := e.Container.ID, l.inventory.PodOf(e)
		if pod == nil {
			continue
		}
		if claim, is := l.others.Claim(pod, e); is {
			if now[id] = true; !l.others.Told[id] {
				l.log.Info("left to another manager of CPUs", "pod", pod.Name(), "container", e.Container.Name, "container_id", id, "manager", claim.By)
			}
		}
	}
	l.others.Told = now
}

// otherProblems are the managers that have appeared while the daemon runs, and that it
// would not have started beside. It stands down for their containers all the same: two
// that place one container undo each other's work for as long as both run.
func (l *Loop) otherProblems() []pools.Problem {
	counts, left := make(map[managers.Claim]int), make(map[managers.Claim]int)
	for e := range l.inventory.Containers() {
		pod := l.inventory.PodOf(e)
		if pod == nil || e.Container.State == cri.Exited {
			continue
		}
		if claim, is := l.others.Claim(pod, e); is && l.settings.Stance(claim.Kind) == config.StanceRefuse {
			if _, now := l.others.Configured(pod, e); now || claim.Kind == managers.NRIPlugins {
				counts[claim]++
			} else {
				left[claim]++
			}
		}
	}
	var all []pools.Problem
	for claim, n := range left {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: desired.CodeOtherManager, Text: fmt.Sprintf(
			"%s is configured no more, and has placed containers that still run (%d at the moment): they stay where they are until they end. Restart them, or the daemon, which then places them",
			claim.By, n)}})
	}
	for claim, n := range counts {
		remedy := fmt.Sprintf("The daemon will not start again beside it: remove it, or set otherManagers.%s: standDown", claim.Kind)
		if claim.Kind == managers.NRIPlugins {
			remedy = "Beside one that it knows the daemon will not start again: " + desired.WithoutPlugin
		}
		all = append(all, pools.Problem{Reason: pools.Reason{Code: desired.CodeOtherManager, Text: fmt.Sprintf(
			"%s places containers, too (%d at the moment): they are left to it. %s", claim.By, n, remedy)}})
	}
	for _, f := range l.others.Crio.Unreadable {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: desired.CodeOtherManager, Text: fmt.Sprintf(
			"%s cannot be understood, so it is not certain which containers CRI-O places: %s: repair the file", f.Name, f.Err)}})
	}
	slices.SortFunc(all, func(a, b pools.Problem) int { return strings.Compare(a.Text, b.Text) })
	return all
}
