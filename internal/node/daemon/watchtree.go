package daemon

import (
	"github.com/cpupoold/cpupoold/internal/node/threads"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// treeWatched is the event of a new watcher, or of an error without one.
type treeWatched struct {
	watcher *cgroup.Watcher
	err     error
}

func (e treeWatched) apply(l *Loop) {
	l.notices.Tree.Use(e.watcher, e.err)
	l.partitions.RecheckAll()
}

// threadsScanned is the result of a scan of a container's threads.
type threadsScanned struct{ threads.Found }

func (threadsScanned) ownResult() {}

func (threadsScanned) scope(*Loop) scope { return scopeAnswer }

func (e threadsScanned) apply(l *Loop) { l.cache.Threads.Note(e.Found) }

// takeNotices handles the notices of the watcher, and schedules the passes that they need.
func (l *Loop) takeNotices() {
	r := l.notices.Take(l.last.Targets, l.settings.Config.ResyncPeriod)
	if r.Lost {
		l.list()
	}
	if l.schedule.listings.HasListed() { // otherwise the first listing follows
		for _, id := range r.Unknown {
			l.fetchContainer(id)
			l.fetchPod(id) // it may be a sandbox
		}
	}
	for _, p := range r.Gone {
		l.publisher.Live.Gone(string(p))
	}
	for _, p := range r.Repairs {
		l.schedule.addRepair(p)
	}
	if r.One {
		l.schedule.add(scopeOne)
	}
	if r.All {
		l.schedule.add(scopeAll)
	}
	if l.schedule.soon && l.hasWaiting() {
		l.schedule.add(scopeAll)
	}
}
