package daemon

import (
	"errors"
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// shed drops the originals of cgroups that the watcher has seen go, so that the next save of
// the journal does not write them again. Nothing is saved for that: to restore, who is gone is
// gone. Another cgroup of the name, such as of a pod that the kubelet makes anew, mostly has its
// own noted by the first write to it; where it was known before this, it has those of the first.
// What is not certain yet waits for a later pass, and for the resync at the latest: who is to
// come, or was there when it was last looked for, and whose partition has not been settled, of
// which the journal tells what is to be trimmed.
func (l *loop) shed() {
	if len(l.departed) == 0 {
		return
	}
	is, gone := l.gone(), make(map[cgroup.Path]bool)
	maps.DeleteFunc(l.departed, func(p cgroup.Path, _ bool) bool {
		if is(p) {
			gone[p] = true
		}
		return gone[p]
	})
	if len(gone) > 0 {
		l.ledger.Shed(func(p cgroup.Path) bool { return gone[p.Scope()] })
	}
}

// gone returns what says that a cgroup is gone for good. Only the owner's own reading
// tells: a listing of the runtime can be older than a cgroup.
func (l *loop) gone() func(cgroup.Path) bool {
	expected := make(map[cgroup.Path]bool) // few at a time
	for _, e := range l.model.Containers {
		if e.Container.State == cri.Created {
			expected[e.Path] = true // it has no cgroup yet
		}
	}
	return func(p cgroup.Path) bool {
		if _, ok := l.tree.Current[p]; ok || expected[p] || l.untrimmed(p) { // nearly all are there
			return false
		}
		_, err := l.Cgroups.Read(p)
		return errors.Is(err, cgroup.ErrGone)
	}
}

// prune forgets the originals of cgroups that are gone.
func (l *loop) prune() {
	gone := l.gone()
	clear(l.departed)
	l.ledger.Forget(gone)
	l.bench.Forget(gone)
	l.exposures.forget(gone)
	there := make(map[string]bool, len(l.model.Pods))
	for _, p := range l.model.Pods {
		there[p.Uid] = true
	}
	l.hints.Forget(there)
	maps.DeleteFunc(l.promises.broken, func(id string, _ bool) bool { return l.model.Containers[id] == nil })
}
