package daemon

import (
	"errors"
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// shed drops the originals of cgroups that the watcher has seen go, so that the next save of
// the journal does not write them again. Nothing is saved for that: to restore, who is gone is
// gone. Another cgroup of the name, such as of a pod that the kubelet makes anew, mostly has its own
// noted by the first write to it; where it was known before this, it has those of the first. What is not certain yet waits for a
// later pass, and for the resync at the latest: who is to come, or was there when it was last
// looked for, and whose partition has not been settled, of which the journal tells what is to
// be trimmed.
func (l *loop) shed() {
	if len(l.departed) == 0 {
		return
	}
	gone := make(map[cgroup.Path]bool)
	maps.DeleteFunc(l.departed, func(p cgroup.Path, _ bool) bool {
		if _, known := l.tree.current[p]; known || l.expected(p) || l.untrimmed(p) {
			return false
		}
		_, err := l.cgroups.Read(p)
		gone[p] = errors.Is(err, cgroup.ErrGone)
		return true
	})
	if len(gone) == 0 {
		return
	}
	l.ledger.shed(func(p cgroup.Path) bool { return gone[p.Scope()] })
}

// expected says that a container has no cgroup yet.
func (l *loop) expected(p cgroup.Path) bool {
	e := l.model.containers[l.model.container(p)]
	return e != nil && e.container.State == cri.Created
}
