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

// filesRetryDelay is the delay after a failed write of the files.
const filesRetryDelay = 10 * time.Second

// applications holds the files from which applications read their CPUs.
type applications struct {
	content map[string]string  // files of existing pods and units that were verified at least once
	entries []applicationEntry // the source of content
	files   renderings
	done    bool           // the files of entries are written
	sent    *appcpus.Files // in the last job; nil before it, and after an error
	busy    bool
	began   time.Time               // when the current job was submitted
	retry   time.Time               // the earliest next attempt after an error
	invalid map[applicationKey]bool // entries whose name no file can have; logged
}

// filesTimeout is the maximum time for which a write of the files keeps the daemon from being
// ready. A container that waits for the daemon then starts without its files.
const filesTimeout = 2 * time.Second

// due returns the filesTimeout of the current job, or the zero time.
func (a *applications) due() time.Time {
	if !a.busy {
		return time.Time{}
	}
	return a.began.Add(filesTimeout)
}

// filesWritten is the result of writing the files.
type filesWritten struct{ err error }

// writeApplications submits the files if they have changed. A file follows its placement when
// that is verified, and keeps its content until then. It stays as long as its pod exists.
func (l *Loop) writeApplications(now time.Time) {
	if l.RunDir == "" || !l.status.planned {
		return
	}
	a := &l.applications
	entries := l.entries()
	if a.done && a.isMadeOf(entries) {
		return // true in nearly all passes
	}
	a.entries, a.done = slices.AppendSeq(a.entries[:0], entries), false
	if a.files == nil {
		a.files = make(renderings)
	}
	a.files.update(a.entries)
	fresh, keep, bad := make(map[string]string, len(a.entries)), make(map[string]bool, len(a.entries)), make(map[applicationKey]bool)
	for i := range a.entries {
		x := &a.entries[i]
		r := a.files[x.key()]
		if r.err != nil {
			if bad[x.key()] = true; !a.invalid[x.key()] {
				l.log.Warn("no file for application: its name is invalid", "error", r.err)
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
		l.log.Error("write files for applications", "error", e.err)
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

// entryOf returns the content of a container's file.
func (l *Loop) entryOf(pod *pools.PodPlan, c *pools.Placement) appcpus.Entry {
	var housekeeping cpuset.Set
	if c.Exclusive {
		housekeeping = l.settings.HousekeepingOf(l.inventory.PodByUID(pod.UID).Annotations(), c.Name, c.CPUs)
	}
	return appcpus.Entry{
		PodUID: pod.UID, Pod: pod.Namespace + "/" + pod.Name, Container: c.Name, Pool: string(c.Pool), Type: c.Type,
		CPUs: c.CPUs, Exclusive: c.Exclusive, Nodes: l.settings.Nodes(c.CPUs), SharedCPUs: l.status.plan.Shared, MixedCPUs: c.Mixed,
		CanLoseMixed: l.CRIO != nil && l.settings.Pools.Mixed.Shared && l.settings.Pools.FromShared, // a property of CRI-O
		Housekeeping: housekeeping,
	}
}

// entries returns the containers of all pods, including exited ones, and the units.
func (l *Loop) entries() iter.Seq[applicationEntry] {
	verified := l.verified()
	return func(yield func(applicationEntry) bool) {
		for i := range l.status.plan.Pods {
			pod := &l.status.plan.Pods[i]
			for j := range pod.Containers {
				c := &pod.Containers[j]
				if c.Kind != pools.App || c.Pool == pools.Other {
					continue // another manager places it
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

// verified returns the containers and units that the kernel shows on their CPUs, and the units
// that will start with them.
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
			settled && t.Unit != "" && !c.Exists && c.Unit.Known && c.Unit.CPUs.Equal(t.CPUs) // a stopped unit
	}
	return verified
}

// renderings holds the files of entries, so that only the files of changed entries are rendered.
type renderings map[applicationKey]*rendering

// applicationKey identifies a container or unit.
type applicationKey struct{ podUID, container, unit string }

// rendering holds the files of an entry.
type rendering struct {
	entry appcpus.Entry
	files map[string]string // content by name
	err   error             // no file can have its name
	kept  bool              // the entry still exists
}

func (x *applicationEntry) key() applicationKey { return applicationKey{x.PodUID, x.Container, x.Unit} }

// update renders the changed entries and drops the renderings of entries that no longer exist.
func (r renderings) update(entries []applicationEntry) {
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

// isMadeOf reports whether the files were made from the same entries.
func (a *applications) isMadeOf(entries iter.Seq[applicationEntry]) bool {
	i := 0
	for e := range entries {
		if i == len(a.entries) || !e.equal(a.entries[i]) {
			return false
		}
		i++
	}
	return i == len(a.entries)
}
