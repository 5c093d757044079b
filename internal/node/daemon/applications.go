package daemon

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// filesRetryDelay is how long files that could not be written are left alone.
const filesRetryDelay = 10 * time.Second

// applications are the files that tell applications their CPUs.
type applications struct {
	content map[string]string  // verified once, of pods and units that are there
	entries []applicationEntry // that content was made of
	files   renderings
	done    bool           // nothing is left to do for entries
	sent    *appcpus.Files // in the last job; nil before it, and after an error
	busy    bool
	began   time.Time               // when the job that is under way was handed over
	retry   time.Time               // after an error
	invalid map[applicationKey]bool // names that no file can have, which the log has; of entries
}

// filesTimeout is how long the daemon is not ready for files that are being written: who
// waits for it is started without them rather than never.
const filesTimeout = 2 * time.Second

// due is when nobody waits any more for the files that are being written; zero if none are.
func (a *applications) due() time.Time {
	if !a.busy {
		return time.Time{}
	}
	return a.began.Add(filesTimeout)
}

// filesWritten is the result of a job.
type filesWritten struct{ err error }

// writeApplications hands the files over if they have changed: those of placements
// that have just been verified anew; others stay as they are, for as long as their
// pod is there.
func (l *Loop) writeApplications(now time.Time) {
	if l.RunDir == "" || !l.status.planned {
		return
	}
	a := &l.applications
	entries := l.entries()
	if a.done && a.same(entries) {
		return // as in nearly all passes
	}
	a.entries, a.done = slices.AppendSeq(a.entries[:0], entries), false
	if a.files == nil {
		a.files = make(renderings)
	}
	a.files.of(a.entries)
	fresh, keep, bad := make(map[string]string, len(a.entries)), make(map[string]bool, len(a.entries)), make(map[applicationKey]bool)
	for i := range a.entries {
		x := &a.entries[i]
		r := a.files[x.key()]
		if r.err != nil {
			if bad[x.key()] = true; !a.invalid[x.key()] {
				l.log.Warn("application is not told its CPUs", "error", r.err)
			}
			continue
		}
		for name, content := range r.files {
			if keep[name] = true; x.verified {
				fresh[name] = content
			} else if before, known := a.content[name]; known && fresh[name] == "" {
				fresh[name] = before
			}
		}
	}
	a.content, a.invalid = fresh, bad
	want := appcpus.Files{Content: fresh, Keep: keep}
	if a.busy || now.Before(a.retry) {
		return
	}
	a.done = true
	if a.sent != nil && maps.Equal(want.Content, a.sent.Content) && maps.Equal(want.Keep, a.sent.Keep) {
		return
	}
	before := a.sent
	a.busy, a.began, a.sent = true, now, &want
	l.workers.Disk.Submit("files", func(context.Context) event {
		if before == nil {
			return filesWritten{appcpus.Sync(l.RunDir, want)}
		}
		return filesWritten{appcpus.Update(l.RunDir, *before, want)}
	})
}

func (e filesWritten) scope(l *Loop) scope {
	switch {
	case e.err != nil:
		return scopeAll
	case l.applications.done:
		return scopeNone
	}
	return scopeAnswer
}

func (e filesWritten) apply(l *Loop) {
	l.applications.busy = false
	if e.err != nil {
		l.log.Error("files that tell applications their CPUs", "error", e.err)
		l.applications.retry = l.now().Add(filesRetryDelay)
		l.applications.sent, l.applications.done = nil, false
	}
}

// applicationEntry is an entry, and whether the kernel has confirmed it.
type applicationEntry struct {
	appcpus.Entry
	verified bool
}

func (x applicationEntry) equal(y applicationEntry) bool {
	return x.verified == y.verified && x.Equal(y.Entry)
}

// entryOf is what a container is told.
func (l *Loop) entryOf(pod *pools.PodPlan, c *pools.Placement) appcpus.Entry {
	var housekeeping cpuset.Set
	if c.Exclusive {
		housekeeping = l.settings.HousekeepingOf(l.inventory.PodByUID(pod.UID).Annotations(), c.Name, c.CPUs)
	}
	return appcpus.Entry{
		PodUID: pod.UID, Pod: pod.Namespace + "/" + pod.Name, Container: c.Name, Pool: string(c.Pool), Type: c.Type,
		CPUs: c.CPUs, Exclusive: c.Exclusive, Nodes: l.settings.Nodes(c.CPUs), SharedCPUs: l.status.plan.Shared, MixedCPUs: c.Mixed,
		Fluid:        l.CRIO != nil && l.settings.Pools.Mixed.Shared && l.settings.Pools.FromShared, // CRI-O
		Housekeeping: housekeeping,
	}
}

// entries are the containers of all pods that are there, those that have exited
// too, and the units.
func (l *Loop) entries() iter.Seq[applicationEntry] {
	verified := l.verified()
	return func(yield func(applicationEntry) bool) {
		for i := range l.status.plan.Pods {
			pod := &l.status.plan.Pods[i]
			for j := range pod.Containers {
				c := &pod.Containers[j]
				if c.Kind != pools.App || c.Pool == pools.Other {
					continue // what it has is not ours to tell
				}
				if !yield(applicationEntry{l.entryOf(pod, c), c.State != pools.Exited && pod.Name != "" && verified[c.ID]}) {
					return
				}
			}
		}
		for _, u := range l.status.plan.Units {
			e := appcpus.Entry{
				Unit: u.Name, Pool: string(u.Pool), Type: u.Type,
				CPUs: u.CPUs, Exclusive: u.Exclusive, Nodes: l.settings.Nodes(u.CPUs), SharedCPUs: l.status.plan.Shared,
			}
			if !yield(applicationEntry{e, verified[l.inventory.UnitName(u.Name)]}) {
				return
			}
		}
	}
}

// verified are the containers and units that the kernel has confirmed on their CPUs, and
// units that will start with them.
func (l *Loop) verified() map[string]bool {
	verified := make(map[string]bool, len(l.status.targets))
	for i := range l.status.targets {
		t := &l.status.targets[i]
		if t.Container+t.Unit == "" {
			continue
		}
		c := l.cache.Current(t.Path)
		settled := l.cache.Has(t.Path) && !l.cache.IsStale(t.Path) && !l.cache.IsBusy(t.Path)
		verified[t.Container+t.Unit] = settled && c.Exists && cgroup.Verify(*t, c.State) == nil ||
			settled && t.Unit != "" && !c.Exists && c.Unit.Known && c.Unit.CPUs.Equal(t.CPUs) // what it will start with
	}
	return verified
}

// renderings are the files of entries, which are made anew only for those that say
// something else than before: with each container that comes or goes all others stay
// as they are.
type renderings map[applicationKey]*rendering

// applicationKey is who is told its CPUs: a container or a unit.
type applicationKey struct{ podUID, container, unit string }

// rendering is what an entry has been made to.
type rendering struct {
	entry appcpus.Entry
	files map[string]string // content by name
	err   error             // no file can have its name
	kept  bool              // the entry is there still
}

func (x *applicationEntry) key() applicationKey { return applicationKey{x.PodUID, x.Container, x.Unit} }

// of makes the renderings those of entries.
func (r renderings) of(entries []applicationEntry) {
	for i := range entries {
		e := &entries[i]
		is := r[e.key()]
		if is == nil || !is.entry.Equal(e.Entry) {
			is = &rendering{entry: e.Entry, files: make(map[string]string, 1)}
			is.err = e.Render(is.files)
			r[e.key()] = is
		}
		is.kept = true
	}
	maps.DeleteFunc(r, func(_ applicationKey, is *rendering) bool {
		gone := !is.kept
		is.kept = false
		return gone
	})
}

// same says that entries are those that the files were made of.
func (a *applications) same(entries iter.Seq[applicationEntry]) bool {
	i := 0
	for e := range entries {
		if i == len(a.entries) || !e.equal(a.entries[i]) {
			return false
		}
		i++
	}
	return i == len(a.entries)
}
