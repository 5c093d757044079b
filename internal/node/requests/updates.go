package requests

import (
	"iter"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// updateTimeout is the time for each update of a reply before the daemon reads the result. The
// runtime's next request also shows that the updates are made, because the runtime handles one
// request at a time.
const updateTimeout = 500 * time.Millisecond

// maxUpdates is the maximum number of updates in one reply. Each runs the OCI runtime while
// every creation on the node waits. Workers update the records of other containers.
const maxUpdates = 8

// update is an update in a reply, which the runtime makes before it creates the container.
type update struct {
	path cgroup.Path
	cpus cpuset.Set
	due  time.Time // when the daemon reads the record; zero before the reply
	// querying is true while the daemon reads the record.
	querying bool
}

// AddUpdate adds a write to the reply of the oldest creation if it removes the CPUs of the new
// container from another container's record. It reports whether it has added the write.
func (q *Queue) AddUpdate(w cgroup.Write, plan *pools.Plan) bool {
	a := q.NextCreate() // the runtime sends one request at a time
	if w.Property != cgroup.CRICPUs || a == nil || q.failed[w.Container] || len(a.updates) == maxUpdates {
		return false
	}
	_, p := plan.App(a.Container.ID)
	cpus, err := cpuset.Parse(w.Value)
	recorded := q.cache.Current(w.Path).Recorded
	if e := q.inventory.Objects().Container(w.Container); e == nil || e.IsUnconfirmed() || err != nil || p == nil || !p.Exclusive && !p.InPodPool() ||
		!recorded.Overlaps(p.CPUs) || cpus.Overlaps(p.CPUs) {
		return false
	}
	a.updates = append(a.updates, nri.Update{Container: w.Container, CPUs: cpus})
	q.updates[w.Container] = &update{path: w.Path, cpus: cpus}
	q.cache.NoteSubmitted(w)
	return true
}

// scheduleUpdates sets the time at which the daemon reads the results of the updates of a reply.
func (q *Queue) scheduleUpdates(a *Create, now time.Time) {
	for _, of := range a.updates {
		if u := q.updates[of.Container]; u != nil {
			u.due = now.Add(updateTimeout * time.Duration(len(a.updates)))
		}
	}
}

// dropUpdates drops the updates of a request that gets no reply.
func (q *Queue) dropUpdates(a *Create) {
	for _, of := range a.updates {
		if u := q.updates[of.Container]; u != nil {
			delete(q.updates, of.Container)
			q.cache.NoteMissingUpdate(u.path, u.cpus)
		}
	}
}

// DueUpdates yields the containers whose record must be read, with their cgroups: the updates
// that are due or, with all, each update in a reply that was sent.
func (q *Queue) DueUpdates(all bool, now time.Time) iter.Seq2[string, cgroup.Path] {
	return func(yield func(string, cgroup.Path) bool) {
		for id, u := range q.updates {
			if u.querying || u.due.IsZero() || !all && now.Before(u.due) {
				continue
			}
			if u.querying = true; !yield(id, u.path) {
				return
			}
		}
	}
}

// EndUpdate ends the update of a container whose record was read. The record is unknown until
// the caller has applied what it has read. It returns the write, and whether there was an
// update.
func (q *Queue) EndUpdate(container string) (w cgroup.Write, open bool) {
	u := q.updates[container]
	if u == nil {
		return cgroup.Write{}, false
	}
	delete(q.updates, container)
	q.cache.NoteMissingUpdate(u.path, u.cpus)
	return cgroup.Write{Path: u.path, Via: cgroup.NRI, Property: cgroup.CRICPUs, Value: u.cpus.String(), Container: container, Reason: "gave way"}, true
}

// CheckUpdate reports whether the runtime has made an update, by the record in the inventory. If
// not, replies contain no update of the container until NoteRecorded.
func (q *Queue) CheckUpdate(w cgroup.Write) (made bool) {
	c := q.inventory.Objects().Container(w.Container)
	if c == nil || c.Container.State == cri.Exited || c.Recorded.String() == w.Value {
		return true
	}
	q.failed[w.Container] = true
	q.log.Warn("runtime skipped an NRI update; retrying over CRI", "container_id", w.Container, "want", w.Value, "has", c.Recorded)
	return false
}

// NoteRecorded notes that a worker has changed the record of a container.
func (q *Queue) NoteRecorded(container string) { delete(q.failed, container) }

// Forget drops the state of containers that have left the inventory.
func (q *Queue) Forget() {
	maps.DeleteFunc(q.failed, func(id string, _ bool) bool { return q.inventory.Objects().Container(id) == nil })
}
