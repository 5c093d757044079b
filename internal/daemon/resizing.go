package daemon

import (
	"cmp"
	"context"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// resizePatience is how long after an answer a resize is believed in that the runtime
// does not show: other plugins are asked after us, for 2 s each at most, and one runtime
// (CRI-O) tells what it has while it makes the update.
const resizePatience = 3 * time.Second

// resizing is a resize that the runtime has asked about. It tells nobody how that ended,
// the OCI runtime may fail, and it may go on without an answer that is late: so it is
// asked afterwards what it has on record, until it has the last size, or for as long as
// it may take for an update. What it has counts.
type resizing struct {
	// sizes are what the container may have: at first the one before, then one for each
	// question that came before the runtime had shown another.
	sizes []size
	at    int       // the size that is in the model
	since time.Time // when the last question came
	pause time.Duration
	due   time.Time // when the runtime is asked next
	// asking says that it has been asked.
	asking bool
}

// size is what the kubelet asks for, for a container and its pod.
type size struct {
	requested cri.Resources
	total     pools.Resources
}

// followResize follows a resize that is in the model after the answer, or, if it is not
// taken, will be as soon as the runtime has made it. The runtime's record shows it by its
// shares, so one that does not change them, or is kept from it, is not followed.
func (l *loop) followResize(id string, before, after size, taken bool) {
	now := time.Now()
	r := &resizing{since: now, pause: promisePatience, due: now.Add(promisePatience)}
	open := l.resizing[id]
	if open != nil {
		r.sizes, r.at = open.sizes, open.at
		if last := len(r.sizes) - 1; r.sizes[last].requested.Shares == after.requested.Shares {
			r.sizes = r.sizes[:max(last, 1)] // the kubelet tries again, maybe for ever
		}
	} else {
		r.sizes = []size{before}
	}
	if r.sizes = append(r.sizes, after); taken {
		r.at = len(r.sizes) - 1
	}
	if open != nil || before.requested.Shares != after.requested.Shares {
		l.resizing[id] = r
	}
}

// settleResizes asks the runtime what has become of those that are due.
func (l *loop) settleResizes(now time.Time) {
	for id, r := range l.resizing {
		e := l.model.containers[id]
		switch {
		case e == nil || e.container.State == cri.Exited:
			delete(l.resizing, id)
		case !r.asking && !now.Before(r.due):
			r.asking = true
			// Among the seals: what is asked for next comes after it.
			l.seals.submit(string(e.path), func(ctx context.Context) event {
				f, err := lookAtContainer(ctx, l.runtime, l.units, l.driver, id, unitPatience)
				return resizeSeen{id: id, of: r, container: f, err: cmp.Or(err, f.partial)}
			})
		}
	}
}

// nextResize calls earlier with the times at which the runtime is to be asked.
func (l *loop) nextResize(earlier func(time.Time)) {
	for _, r := range l.resizing {
		if !r.asking {
			earlier(r.due)
		}
	}
}

// resizeSeen is what the runtime has on record for a container that is being resized.
type resizeSeen struct {
	id        string
	of        *resizing
	container containerFacts
	err       error
}

func (s resizeSeen) apply(l *loop) {
	r, e := s.of, l.model.containers[s.id]
	if l.resizing[s.id] != r || e == nil {
		return // another one has come, or the container's end
	}
	now := time.Now()
	r.asking, r.due, r.pause = false, now.Add(r.pause), 2*r.pause
	made := false
	if s.err == nil {
		has := r.shownBy(s.container.Recorded)
		made = has == len(r.sizes)-1
		if has != r.at && (made || now.Sub(r.since) >= resizePatience) {
			l.log.Warn("the runtime has not made a resize as it was answered; what it has on record counts", "container_id", s.id,
				"shares", s.container.Recorded.Shares, "believed", r.sizes[r.at].requested.Shares)
			l.model.sizeAgain(e, r.sizes[r.at], r.sizes[has])
			r.at = has
		}
		l.onContainer(containerFetched{id: s.id, container: s.container})
	}
	if made || now.Sub(r.since) >= updateTimeout {
		delete(l.resizing, s.id)
	}
}

// shownBy is the index of the size that a record shows, the newest if it can be several;
// the first if it shows none.
func (r *resizing) shownBy(record cri.Resources) int {
	for i := len(r.sizes) - 1; i > 0; i-- {
		if r.sizes[i].requested.Shares == record.Shares {
			return i
		}
	}
	return 0
}

// size is a container's and its pod's.
func (m *model) size(e *containerEntry) size {
	s := size{requested: e.container.Requested}
	if pod := m.pods[e.container.PodID]; pod != nil {
		s.total = pod.total
	}
	return s
}

// sizeAgain gives a container another of the sizes that it may have.
func (m *model) sizeAgain(e *containerEntry, from, to size) {
	if pod := m.pods[e.container.PodID]; pod != nil {
		if pod.total == from.total {
			pod.total = to.total
		} else { // it has changed since for other reasons
			pod.total = m.totalAfter(pod, e, to.requested)
		}
	}
	m.clock++
	e.container.Requested, e.told = to.requested, m.clock
}
