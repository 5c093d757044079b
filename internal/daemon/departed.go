package daemon

import (
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
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
	is := l.gone()
	gone := make(map[cgroup.Path]bool)
	maps.DeleteFunc(l.departed, func(p cgroup.Path, _ bool) bool {
		gone[p] = is(p)
		return gone[p]
	})
	l.ledger.shed(func(p cgroup.Path) bool { return gone[p.Scope()] })
}
