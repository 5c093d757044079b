package liveaudit

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// findingTTL is the time for which a finding stays after the last foreign task, and the shortest time between two
// changes of its content.
const findingTTL = 10 * time.Minute

// Finding holds the foreign user tasks on the CPUs of one owner. Authors of pods can start any number of tasks, so
// its content changes once in ten minutes at most.
type Finding struct {
	// Owner is a place with the CPU. Its Name is empty if the owner is a pod.
	Owner audit.Place
	// Task is a foreign task, and CPUs are those on which foreign tasks ran: until then, the CPU of Task.
	Task schedwatch.Task
	CPUs cpuset.Set
	Last time.Time

	since time.Time  // of Task and CPUs
	next  cpuset.Set // CPUs with foreign tasks since then
}

func (f *Finding) add(t schedwatch.Task, now time.Time) {
	f.Last = now
	f.next = f.next.Union(cpuset.Of(t.CPU))
	if now.Sub(f.since) >= findingTTL {
		f.Task, f.CPUs, f.since, f.next = t, f.next, now, cpuset.Of(t.CPU)
	}
}

// Findings returns the findings of the last ten minutes, by owner. Their number is at most the number
// of owners in that time.
func (a *Audit) Findings() []Finding {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	var all []Finding
	for _, key := range slices.Sorted(maps.Keys(a.findings)) {
		all = append(all, *a.findings[key])
	}
	return all
}

// expire removes the findings that are over, and reports whether a finding was over. a.mu is held.
func (a *Audit) expire() bool {
	before := len(a.findings)
	maps.DeleteFunc(a.findings, func(_ string, f *Finding) bool { return a.now().Sub(f.Last) >= findingTTL })
	return len(a.findings) < before
}

// note adds a foreign user task on a CPU of an owner to the findings. It reports whether the owner had no finding
// before. It omits a task in a cgroup of the owner: a unit was started again, and its cgroup has the same path. It
// also omits all tasks after the owner has ended, before the event loop knows that. a.mu is held.
func (a *Audit) note(h *holder, t schedwatch.Task) bool {
	if h == nil || t.Kind != schedwatch.User {
		return false
	}
	if h.owns(t.Cgroup) {
		a.again(h)
		return false
	}
	if !slices.ContainsFunc(h.places, a.exists) {
		return false
	}
	now := a.now()
	if f := a.findings[h.key]; f != nil && now.Sub(f.Last) < findingTTL {
		f.add(t, now)
		return false
	}
	on := cpuset.Of(t.CPU)
	a.findings[h.key] = &Finding{Owner: h.place, Task: t, CPUs: on, Last: now, since: now, next: on}
	return true
}

// again makes the program look up the cgroups of an owner again. a.mu is held.
func (a *Audit) again(h *holder) {
	held := maps.Clone(a.held)
	if !slices.ContainsFunc(slices.Collect(maps.Values(held)), func(other *holder) bool { return other.key == h.key }) {
		return // it has no CPUs any more
	}
	a.drop(func(_ int, other *holder) bool { return other.key == h.key })
	a.held = held
	a.own()
}

// Describe returns a task in words. The author of the task chooses its command and its cgroup.
func Describe(t schedwatch.Task) string {
	const longest = 200
	at := t.Cgroup
	switch {
	case at != "":
	case t.CgroupID == 1:
		at = "/"
	default:
		at = "(removed)"
	}
	if len(at) > longest {
		at = "…" + strings.ToValidUTF8(at[len(at)-longest:], "")
	}
	return strconv.Quote(t.Command) + ", PID " + strconv.Itoa(t.PID) + ", cgroup " + strconv.Quote(at)
}
