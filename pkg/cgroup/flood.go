package cgroup

import (
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

// floods holds the counters of cgroups, and the muted cgroups. The zero value needs a map.
type floods struct {
	counts map[Path]*noticeCount
	poll   time.Time // when muted cgroups are reported as written; zero if none is muted
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

// mute mutes a cgroup that exceeds reports.
func (f *floods) mute(p Path, now time.Time) {
	c := f.counts[p]
	c.count, c.muted, c.until = 0, true, now.Add(mutePause)
	if f.poll.IsZero() {
		f.poll = now.Add(pollInterval)
	}
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

// polls returns the muted cgroups, sorted, if they are due to be reported as written. It ends
// the mutes that are over, and reports whether there were any.
func (f *floods) polls(now time.Time) (due []Path, ended bool) {
	if f.poll.IsZero() || now.Before(f.poll) {
		return nil, false
	}
	f.poll = time.Time{}
	for p, c := range f.counts {
		if !c.muted {
			continue
		}
		due = append(due, p)
		if c.muted = now.Before(c.until); c.muted {
			f.poll = now.Add(pollInterval)
		} else {
			ended = true
		}
	}
	slices.Sort(due)
	return due, ended
}

// flooding returns the cgroups that are muted, or were muted in the last floodEnd, sorted.
func (f *floods) flooding(now time.Time) []Path {
	var all []Path
	for p, c := range f.counts {
		if c.muted || !c.until.IsZero() && now.Before(c.until.Add(floodEnd)) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// losses paces the reports of overflows.
type losses struct {
	lost  bool      // notices have been lost since the last report
	due   time.Time // the earliest next report
	pause time.Duration
}

// report reports whether an overflow must be reported at now. Longest is the maximum pause.
func (l *losses) report(now time.Time, longest time.Duration) bool {
	if !l.lost || now.Before(l.due) {
		return false
	}
	if now.Sub(l.due) > longest {
		l.pause = 0
	}
	l.pause = min(max(2*l.pause, firstPause), longest)
	l.lost, l.due = false, now.Add(l.pause)
	return true
}

// next returns the earlier one of two times. The zero time means never.
func next(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Due returns the time at which Take returns changes although wake was not called. The zero
// time means never. A nil Watcher is never due.
func (w *Watcher) Due() (due time.Time) {
	if w == nil {
		return due
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.losses.lost {
		due = w.losses.due
	}
	return next(due, w.floods.poll)
}

// Flooding returns the cgroups with too many notices, sorted. A cgroup counts until one minute
// after the end of its mute. The result of a nil Watcher is empty.
func (w *Watcher) Flooding() []Path {
	if w == nil {
		return nil
	}
	now := w.clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.floods.flooding(now)
}

// mute ends the watches of a cgroup with too many notices, and of the cgroups in it.
func (w *Watcher) mute(p Path, now time.Time) {
	w.floods.mute(p, now)
	for q := range w.watched {
		if q == p || strings.HasPrefix(string(q), string(p)+"/") {
			w.drop(q)
		}
	}
	w.note(Change{Kind: Written, Path: p})
	w.note(Change{Kind: Flooded, Path: p})
}
