package daemon

import (
	"cmp"
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cri"
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
	sizes []inventory.Size
	at    int       // the size that is in the model
	since time.Time // when the last question came
	pause time.Duration
	due   time.Time // when the runtime is asked next
	// asking says that it has been asked.
	asking bool
}

// followResize follows a resize that is in the model after the answer, or, if it is not
// taken, will be as soon as the runtime has made it. The runtime's record shows it by its
// shares, so one that does not change them, or is kept from it, is not followed.
func (l *Loop) followResize(id string, before, after inventory.Size, taken bool) {
	now := l.now()
	r := &resizing{since: now, pause: promisePatience, due: now.Add(promisePatience)}
	open := l.resizing[id]
	if open != nil {
		r.sizes, r.at = open.sizes, open.at
		if last := len(r.sizes) - 1; r.sizes[last].Requested.Shares == after.Requested.Shares {
			r.sizes = r.sizes[:max(last, 1)] // the kubelet tries again, maybe for ever
		}
	} else {
		r.sizes = []inventory.Size{before}
	}
	if r.sizes = append(r.sizes, after); taken {
		r.at = len(r.sizes) - 1
	}
	if open != nil || before.Requested.Shares != after.Requested.Shares {
		l.resizing[id] = r
	}
}

// settleResizes asks the runtime what has become of those that are due.
func (l *Loop) settleResizes(now time.Time) {
	for id, r := range l.resizing {
		e := l.inventory.Container(id)
		switch {
		case e == nil || e.Container.State == cri.Exited:
			delete(l.resizing, id)
		case !r.asking && !now.Before(r.due):
			r.asking = true
			// Among the seals: what is asked for next comes after it.
			l.workers.Updates.Submit(string(e.Path), func(ctx context.Context) event {
				f, err := inventory.FetchContainer(ctx, l.Runtime, l.Units, l.Driver, id, inventory.UnitPatience)
				return resizeSeen{id: id, of: r, container: f, err: cmp.Or(err, f.Partial)}
			})
		}
	}
}

// nextResize calls earlier with the times at which the runtime is to be asked.
func (l *Loop) nextResize(earlier func(time.Time)) {
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
	container inventory.ContainerStatus
	err       error
}

func (resizeSeen) scope(*Loop) scope { return scopeAll }

func (s resizeSeen) apply(l *Loop) {
	r, e := s.of, l.inventory.Container(s.id)
	if l.resizing[s.id] != r || e == nil {
		return // another one has come, or the container's end
	}
	now := l.now()
	r.asking, r.due, r.pause = false, now.Add(r.pause), 2*r.pause
	made := false
	if s.err == nil {
		has := r.shownBy(s.container.Recorded)
		made = has == len(r.sizes)-1
		if has != r.at && (made || now.Sub(r.since) >= resizePatience) {
			l.log.Warn("the runtime has not made a resize as it was answered; what it has on record counts", "container_id", s.id,
				"shares", s.container.Recorded.Shares, "believed", r.sizes[r.at].Requested.Shares)
			l.inventory.SizeAgain(e, r.sizes[r.at], r.sizes[has])
			r.at = has
		}
		containerFetched{id: s.id, container: s.container}.apply(l)
	}
	if made || now.Sub(r.since) >= hostenv.UpdateTimeout {
		delete(l.resizing, s.id)
	}
}

// shownBy is the index of the size that a record shows, the newest if it can be several;
// the first if it shows none.
func (r *resizing) shownBy(record cri.Resources) int {
	for i := len(r.sizes) - 1; i > 0; i-- {
		if r.sizes[i].Requested.Shares == record.Shares {
			return i
		}
	}
	return 0
}
