// Package resize follows the resizes of containers about which the runtime has asked. The runtime
// does not report the result: the OCI runtime may fail, and the runtime may continue without a
// late reply. So the daemon reads the runtime's record until it shows the last size, or until the
// update must have ended. The record decides. One goroutine uses a [Resizes].
package resize

import (
	"log/slog"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// timeout is how long the daemon assumes a resize that the runtime does not show after
// the reply. The runtime asks other plugins next, for at most 2 s each. CRI-O answers
// questions with the earlier size while it makes the update.
const timeout = 3 * time.Second

// firstReading is the time from the reply to the first reading of the record.
const firstReading = 500 * time.Millisecond

// Resizes holds the resizes whose result is unknown, by container.
type Resizes struct {
	inventory *inventory.Inventory
	log       *slog.Logger
	open      map[string]*resize
}

// resize is a resize whose result is unknown.
type resize struct {
	// sizes holds the possible sizes of the container: the size before the first request,
	// then the size of each request since the record last showed a new size.
	sizes []inventory.Size
	// current is the index of the size in the inventory.
	current  int
	since    time.Time     // when the last request came
	due      time.Time     // when the record is read next
	interval time.Duration // from that to the reading after it
	querying bool          // the record is being read
}

// New returns a Resizes without entries.
func New(m *inventory.Inventory, log *slog.Logger) *Resizes {
	return &Resizes{m, log, make(map[string]*resize)}
}

// Follow adds a resize of a container. The inventory has the new size now (applied), or as soon
// as the record shows it. The record shows a resize by its shares, so a resize with equal shares
// needs no reading.
func (a *Resizes) Follow(id string, before, after inventory.Size, applied bool, now time.Time) {
	r := &resize{since: now, interval: firstReading, due: now.Add(firstReading)}
	open := a.open[id]
	if open != nil {
		r.sizes, r.current = open.sizes, open.current
		if last := len(r.sizes) - 1; r.sizes[last].Requested.Shares == after.Requested.Shares {
			r.sizes = r.sizes[:max(last, 1)] // the kubelet repeats the request without end
		}
	} else {
		r.sizes = []inventory.Size{before}
	}
	if r.sizes = append(r.sizes, after); applied {
		r.current = len(r.sizes) - 1
	}
	if open != nil || before.Requested.Shares != after.Requested.Shares {
		a.open[id] = r
	}
}

// Query is a question about the record of a container.
type Query struct {
	ID   string // of the container
	Path cgroup.Path
	of   *resize
}

// Due returns the records to read now. It forgets the resizes of containers that have ended.
func (a *Resizes) Due(now time.Time) []Query {
	var all []Query
	for id, r := range a.open {
		e := a.inventory.Objects().Container(id)
		switch {
		case e == nil || e.Container.State == cri.Exited:
			delete(a.open, id)
		case !r.querying && !now.Before(r.due):
			r.querying = true
			all = append(all, Query{id, e.Path, r})
		}
	}
	return all
}

// Next calls earlier with the times of the next readings.
func (a *Resizes) Next(earlier func(time.Time)) {
	for _, r := range a.open {
		if !r.querying {
			earlier(r.due)
		}
	}
}

// Seen compares a record with the possible sizes, and corrects the size in the inventory. It
// reports whether the record counts: it is complete, and no newer resize replaces this one.
func (a *Resizes) Seen(q Query, s lookup.ContainerStatus, now time.Time) bool {
	r, e := q.of, a.inventory.Objects().Container(q.ID)
	if r == nil || a.open[q.ID] != r || e == nil {
		return false
	}
	r.querying, r.due, r.interval = false, now.Add(r.interval), 2*r.interval
	complete, made := s.Err == nil && s.Partial == nil, false
	if complete {
		has := r.shownBy(s.Recorded)
		made = has == len(r.sizes)-1
		if has != r.current && (made || now.Sub(r.since) >= timeout) {
			a.log.Warn("the runtime has not made a resize as it was answered; using the size that the runtime has recorded", "container_id", q.ID,
				"shares", s.Recorded.Shares, "believed", r.sizes[r.current].Requested.Shares)
			a.inventory.CorrectSize(e, r.sizes[r.current], r.sizes[has])
			r.current = has
		}
	}
	if made || now.Sub(r.since) >= hostenv.UpdateTimeout {
		delete(a.open, q.ID)
	}
	return complete
}

// shownBy returns the index of the newest size that a record can show, 0 for an unknown
// size.
func (r *resize) shownBy(record cri.Resources) int {
	for i := len(r.sizes) - 1; i > 0; i-- {
		if r.sizes[i].Requested.Shares == record.Shares {
			return i
		}
	}
	return 0
}
