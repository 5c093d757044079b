package observer

import (
	"slices"
	"time"
)

// Kinds of containers with separate rules. Any other kind is only a text for reports.
const (
	Exclusive = "exclusive"
	Pause     = "pause"
)

// Causes of overlaps. The observer tests for them in this order.
const (
	// The test wrote to the cpuset of one of the two. Or systemd did it in a daemon-reload: it writes its own
	// record again, until the daemon has recorded the CPUs with systemd (systemd 262 on Linux 7.2).
	externalWrite = "external write"
	// The same, and no daemon replied at a time of the overlap. A daemon that replied for the whole limit of
	// externalWrite had the time for the repair, so a later end of it does not count.
	unrepairedWrite = "external write without daemon"
	// The owner still runs the OCI runtime, not the first program of its container.
	beforeExec = "owner before exec"
	// The intruder began while no daemon replied, or was not placed then. The same applies if no daemon replied
	// at a time of its creation: the runtime asks the daemon long before the cgroup exists. Or the owner was
	// created in such a time, and has just got its CPUs: the first pass moves the other containers, too.
	withoutDaemon = "begun without daemon"
	// The same of the intruder.
	runtimeInit = "runc init"
	// The pause container was not placed yet.
	pauseBegins = "pause container"
	// The runtime returned an error for the intruder.
	failedCreate = "failed creation"
	// None of these.
	unexplained = "unexplained"
)

// writeWindow is the time after an external write in which an overlap is its effect. A
// longer overlap that begins in it is one, too.
const writeWindow = 5 * time.Second

// container holds the facts about one container. Times are since the observer's start;
// never is a time that has not come.
type container struct {
	kind    string // empty until the runtime has returned the container's ID
	count   int    // exclusive CPUs that it requests
	own     cpus   // since all of them were seen
	since   int    // The round in which they were seen.
	placed  bool   // it has had fewer CPUs than its parent
	ending  bool
	written time.Duration
	asked   time.Duration // the test asked the runtime to create it
}

const never = time.Duration(1<<63 - 1)

// window is a time without a daemon that replies to the runtime.
type window struct{ from, to time.Duration }

// detector finds overlaps in the readings of a round, and their causes. It reads no files.
type detector struct {
	containers map[string]*container // by scope
	absent     []window
	reloads    []window // of systemd
	rounds     int
}

// get returns a container, which need not be known before.
func (j *detector) get(scope string) *container {
	c := j.containers[scope]
	if c == nil {
		c = &container{written: never, asked: never}
		j.containers[scope] = c
	}
	return c
}

// owns reports whether a container has exclusive CPUs.
func (j *detector) owns(scope string) bool {
	c := j.containers[scope]
	return c != nil && c.kind == Exclusive && !c.ending
}

// find returns the overlaps in the readings of a round. Before and after it, the parent of all
// pods had the given CPUs.
func (j *detector) find(views []view, before, after cpus) map[subject]interval {
	found := make(map[subject]interval)
	j.rounds++
	for _, v := range views {
		c := j.get(v.scope)
		c.placed = c.placed || v.effective != before && v.effective != after
		if !j.owns(v.scope) {
			continue
		}
		if c.own == 0 && v.effective.count() == c.count && v.threads&^v.effective == 0 { // the kernel moves threads after the file
			c.own, c.since = v.effective, j.rounds
		}
		if outside := (v.effective | v.threads) &^ c.own; c.own != 0 && outside != 0 {
			found[subject{owner: v.scope}] = interval{cpus: outside}
		}
	}
	for _, o := range views {
		if !j.owns(o.scope) {
			continue
		}
		owner := j.get(o.scope)
		own := owner.own
		if o.effective != own {
			continue // others may have its CPUs
		}
		for _, v := range views {
			if on := v.threads & own; v.scope != o.scope && on != 0 {
				found[subject{o.scope, v.scope}] = interval{cpus: on, fresh: !j.get(v.scope).placed, taken: j.rounds <= owner.since+1, detail: "its cpuset is " + v.effective.String()}
			}
		}
	}
	return found
}

// confirm removes the overlaps whose owner had no threads, or other CPUs, in a second reading
// at the end of the round. The owner had the CPUs before and after the reading of the
// intruder only with both.
func (j *detector) confirm(found map[subject]interval, again map[string]view) {
	for s := range found {
		v := again[s.owner]
		own := j.get(s.owner).own
		if v.count == 0 || s.intruder == "" && (v.effective|v.threads)&^own == 0 || s.intruder != "" && v.effective != own {
			delete(found, s)
		}
	}
}

// cause returns the cause of an interval that has ended. known is false for an intruder whose
// ID the runtime has not returned yet.
func (j *detector) cause(i interval) (cause string, known bool) {
	owner := j.get(i.owner)
	if at, written := j.written(owner, i, i.intruder != ""); written {
		return j.writeCause(at, i.end), true
	}
	if i.intruder == "" {
		return unexplained, true
	}
	intruder := j.get(i.intruder)
	if at, written := j.written(intruder, i, i.fresh); written {
		return j.writeCause(at, i.end), true
	}
	switch {
	case !i.ownerRuns:
		return beforeExec, true
	case i.fresh && j.isAbsent(min(i.begin, intruder.asked), i.end):
		return withoutDaemon, true
	case i.taken && j.isAbsent(owner.asked, i.begin):
		return withoutDaemon, true
	case !i.executed:
		return runtimeInit, true
	case !i.fresh:
		return unexplained, true
	case intruder.kind == Pause:
		return pauseBegins, true
	case intruder.kind == "":
		return failedCreate, false
	}
	return unexplained, true
}

// written returns the time of the external write to c that caused an interval. A daemon-reload changes
// no container that never had fewer CPUs than its parent. So it does not count if unchanged is true.
func (j *detector) written(c *container, i interval, unchanged bool) (at time.Duration, is bool) {
	if c.written != never && i.end >= c.written && i.begin <= c.written+writeWindow {
		return c.written, true
	}
	return i.begin, !unchanged && slices.ContainsFunc(j.reloads, func(r window) bool { return i.begin >= r.from && i.begin <= r.to })
}

// writeCause returns the cause of an overlap that ended at end, after an external write.
func (j *detector) writeCause(at, end time.Duration) string {
	if j.isAbsent(at, min(end, at+limits()[externalWrite])) {
		return unrepairedWrite
	}
	return externalWrite
}

// isAbsent reports whether there was a time without a daemon between two times.
func (j *detector) isAbsent(begin, end time.Duration) bool {
	for _, w := range j.absent {
		if begin <= w.to && end >= w.from {
			return true
		}
	}
	return false
}
