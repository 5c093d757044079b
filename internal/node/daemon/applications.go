package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// filesRetryDelay is the delay after a failed write of the files.
const filesRetryDelay = 10 * time.Second

// codeFileFault is the code of the problem that another program has changed a file for
// applications, or that it cannot be written.
const codeFileFault pools.Code = "ApplicationFileFault"

// applications holds the files from which applications read their CPUs.
type applications struct {
	entries []appcpus.Entry // of the last pass
	done    bool            // the files of entries are written
	check   bool            // the next job compares all files with the disk
	busy    bool
	began   time.Time // when the current job was submitted
	retry   time.Time // the next comparison after an error; zero: none
	result  appcpus.Result
	write   func(entries []appcpus.Entry, whole bool) appcpus.Result // runs in a worker
}

// filesTimeout is the maximum time for which a write of the files keeps the daemon from being
// ready. A container that waits for the daemon then starts without its files. After that time
// the source is lost.
const filesTimeout = 2 * time.Second

// due returns the filesTimeout of the current job, or the zero time.
func (a *applications) due() time.Time {
	if !a.busy {
		return time.Time{}
	}
	return a.began.Add(filesTimeout)
}

// state returns the state of the files as a source.
func (a *applications) state(now time.Time) telemetry.SourceState {
	if a.busy && !now.Before(a.due()) || a.result.Err != nil {
		return telemetry.SourceLost
	}
	return telemetry.SourceOK
}

// filesWritten is the result of writing the files.
type filesWritten struct{ appcpus.Result }

// writeApplications submits the files if they have changed, or if a comparison is due.
func (l *Loop) writeApplications(now time.Time) {
	if l.RunDir == "" || !l.status.planned {
		return
	}
	a := &l.applications
	entries := l.entries()
	whole := a.check || !a.retry.IsZero() && !now.Before(a.retry)
	if a.done && !whole && a.isMadeOf(entries) {
		return // true in nearly all passes
	}
	a.done = false
	if a.busy || a.result.Err != nil && now.Before(a.retry) {
		return // a fault of one pod does not delay the files of others
	}
	if a.write == nil {
		a.write = appcpus.NewWriter(l.RunDir).Write
	}
	made, write := slices.Collect(entries), a.write
	a.entries, a.done, a.busy, a.began = made, true, true, now
	if whole {
		a.check, a.retry = false, time.Time{}
	}
	l.workers.Disk.Submit("files", func(context.Context) event { return filesWritten{write(made, whole)} })
}

func (e filesWritten) scope(l *Loop) scope {
	before := l.applications.result
	switch {
	case e.Err != nil:
		return scopeAll
	case l.applications.done && !e.Again && len(e.Faults)+len(before.Faults) == 0 && before.Err == nil &&
		l.now().Before(l.applications.due()): // a later result ends the loss of the source
		return scopeNone
	}
	return scopeAnswer
}

func (e filesWritten) apply(l *Loop) {
	a := &l.applications
	if err, before := errors.Join(e.Err, e.Leftover), errors.Join(a.result.Err, a.result.Leftover); err != nil && fmt.Sprint(err) != fmt.Sprint(before) {
		l.log.Error("write files for applications", "error", err)
	}
	a.busy, a.result = false, e.Result
	if e.Again && a.retry.IsZero() {
		a.retry = l.now().Add(filesRetryDelay)
	}
}

// problems returns the faults of the files.
func (a *applications) problems() []pools.Problem {
	var all []pools.Problem
	for _, f := range a.result.Faults {
		all = append(all, pools.Problem{PodUID: f.Entry.PodUID, Pod: f.Entry.Pod, Container: f.Entry.Container, Unit: f.Entry.Unit,
			Reason: pools.Reason{Code: codeFileFault, Text: f.Text}})
	}
	return all
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
func (l *Loop) entries() iter.Seq[appcpus.Entry] {
	verified := l.verified()
	return func(yield func(appcpus.Entry) bool) {
		for pod, c := range l.status.plan.Containers() {
			if c.Kind != pools.App || c.Pool == pools.Other {
				continue // another manager places it
			}
			e := l.entryOf(pod, c)
			e.Verified = c.State != pools.Exited && pod.Name != "" && verified[c.ID]
			if !yield(e) {
				return
			}
		}
		for _, u := range l.status.plan.Units {
			e := appcpus.Entry{
				Unit: u.Name, Pool: string(u.Pool), Type: u.Type,
				CPUs: u.CPUs, Exclusive: u.Exclusive, Nodes: l.settings.Nodes(u.CPUs), SharedCPUs: l.status.plan.Shared,
				Verified: verified[l.inventory.UnitName(u.Name)],
			}
			if !yield(e) {
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

// isMadeOf reports whether the files were made from such entries.
func (a *applications) isMadeOf(entries iter.Seq[appcpus.Entry]) bool {
	i := 0
	for e := range entries {
		if i == len(a.entries) || !e.KeepsFilesOf(&a.entries[i]) {
			return false
		}
		i++
	}
	return i == len(a.entries)
}
