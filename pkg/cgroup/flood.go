package cgroup

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The limits of the work that notices cause (docs/explanation/write-order.md).
const (
	// maxNotices exceeds the number of the kernel's own notices. The kernel reports its changes
	// of a file at most 100 times a second (CGROUP_FILE_NOTIFY_MIN_INTV in
	// kernel/cgroup/cgroup.c), and only of events files and of cpuset.cpus.partition.
	maxNotices   = 1000
	noticeWindow = time.Second
	pollInterval = time.Second      // between reports of a muted cgroup
	mutePause    = 30 * time.Second // without a watch
	// floodEnd is the time after a mute until the cgroup no longer counts as flooding. A cgroup
	// that floods again before has flooded all the time.
	floodEnd   = time.Minute
	firstPause = time.Second // between two reports of an overflow
)

// floods holds the counters of cgroups, and the pace of the reports about muted cgroups and overflows.
type floods struct {
	counts map[Path]*noticeCount
	poll   time.Time // when muted cgroups are reported as written; zero if none is muted

	lost      bool      // notices have been lost since the last report of an overflow
	lossDue   time.Time // the earliest next report
	lossPause time.Duration
}

// noticeCount is the number of notices of a cgroup in a window.
type noticeCount struct {
	began time.Time // of the window
	count int
	muted bool
	until time.Time // end of the last mute; zero before the first
}

// exceeds counts a notice of p at now. It reports whether p must be muted.
func (f *floods) exceeds(p Path, now time.Time) bool {
	c := f.counts[p]
	if c == nil {
		c = &noticeCount{began: now}
		f.counts[p] = c
	}
	if now.Sub(c.began) >= noticeWindow {
		c.began, c.count = now, 0
	}
	c.count++
	return c.count > maxNotices
}

// isMuted reports whether p, or a cgroup that contains p, is muted.
func (f *floods) isMuted(p Path) bool {
	if f.poll.IsZero() {
		return false
	}
	for {
		if c := f.counts[p]; c != nil && c.muted {
			return true
		}
		if p == "" {
			return false
		}
		p = p.Parent()
	}
}

// pollMuted reports the muted cgroups as written, if that is due, and ends the mutes that are over.
func (w *Watcher) pollMuted(now time.Time) {
	f := &w.floods
	if f.poll.IsZero() || now.Before(f.poll) {
		return
	}
	f.poll = time.Time{}
	for _, p := range slices.Sorted(maps.Keys(f.counts)) {
		c := f.counts[p]
		if !c.muted {
			continue
		}
		w.note(Change{Kind: Written, Path: p})
		if c.muted = now.Before(c.until); c.muted {
			f.poll = now.Add(pollInterval)
		} else {
			w.settled = false
		}
	}
}

// reportLoss reports whether an overflow must be reported at now. Longest is the maximum pause.
func (f *floods) reportLoss(now time.Time, longest time.Duration) bool {
	if !f.lost || now.Before(f.lossDue) {
		return false
	}
	if now.Sub(f.lossDue) > longest {
		f.lossPause = 0
	}
	f.lossPause = min(max(2*f.lossPause, firstPause), longest)
	f.lost, f.lossDue = false, now.Add(f.lossPause)
	return true
}

// Due returns the time at which Take returns changes although wake was not called. The zero
// time means never. A nil Watcher is never due.
func (w *Watcher) Due() (due time.Time) {
	if w == nil {
		return due
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	due = w.floods.poll
	if loss := w.floods.lossDue; w.floods.lost && !loss.IsZero() && (due.IsZero() || loss.Before(due)) {
		due = loss
	}
	return due
}

// Flooding returns the cgroups with too many notices, sorted. A cgroup counts until one minute
// after the end of its mute. The result of a nil Watcher is empty.
func (w *Watcher) Flooding() (all []Path) {
	if w == nil {
		return nil
	}
	now := w.clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, c := range w.floods.counts {
		if c.muted || !c.until.IsZero() && now.Before(c.until.Add(floodEnd)) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// mute ends the watches of a cgroup with too many notices, and of the cgroups in it.
func (w *Watcher) mute(p Path, now time.Time) {
	c := w.floods.counts[p]
	c.count, c.muted, c.until = 0, true, now.Add(mutePause)
	if w.floods.poll.IsZero() {
		w.floods.poll = now.Add(pollInterval)
	}
	for q := range w.watched {
		if q == p || strings.HasPrefix(string(q), string(p)+"/") {
			w.drop(q)
		}
	}
	w.note(Change{Kind: Written, Path: p})
	w.note(Change{Kind: Flooded, Path: p})
}
