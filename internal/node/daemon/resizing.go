package daemon

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/allocate"
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
				return resizeSeen{r, inventory.FetchContainer(ctx, &l.Host, id, 0)}
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
	of *resizing
	inventory.ContainerStatus
}

func (resizeSeen) scope(*Loop) scope { return scopeAll }

func (s resizeSeen) apply(l *Loop) {
	r, e := s.of, l.inventory.Container(s.ID)
	if l.resizing[s.ID] != r || e == nil {
		return // another one has come, or the container's end
	}
	now := l.now()
	r.asking, r.due, r.pause = false, now.Add(r.pause), 2*r.pause
	made := false
	if s.Err == nil && s.Partial == nil {
		has := r.shownBy(s.Recorded)
		made = has == len(r.sizes)-1
		if has != r.at && (made || now.Sub(r.since) >= resizePatience) {
			l.log.Warn("the runtime has not made a resize as it was answered; what it has on record counts", "container_id", s.ID,
				"shares", s.Recorded.Shares, "believed", r.sizes[r.at].Requested.Shares)
			l.inventory.CorrectSize(e, r.sizes[r.at], r.sizes[has])
			r.at = has
		}
		containerFetched{s.ContainerStatus}.apply(l)
	}
	if made || now.Sub(r.since) >= hostenv.UpdateTimeout {
		delete(l.resizing, s.ID)
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

// resize takes a container's new resources into the model, and returns where it is to
// be then, nil if that is not known. A container that asks for more CPUs of its own than
// it can get is refused, where others are that do so at their creation, and keeps what
// it has.
func (l *Loop) resize(e *inventory.Container, to cri.Resources) (*pools.Placement, error) {
	before := e.Request().ExclusiveCPUs()
	undo := l.inventory.Resize(e, to)
	more := e.Request().ExclusiveCPUs()
	if !l.status.planned {
		return nil, nil //nolint:nilnil // see above
	}
	plan, _ := l.input(l.now()).Decide()
	pod, p := findPlacement(&plan, e.Container.ID)
	if p == nil {
		return nil, nil //nolint:nilnil // see above
	}
	why := cmp.Or(p.Refused, p.Short)
	if why == nil || more <= before || l.settings.Config.OnRefusal == config.RefusalShared {
		return p, nil
	}
	undo()
	return nil, l.refuseResize(pod, e, more, why)
}

// refuseResize records that a resize is refused.
func (l *Loop) refuseResize(pod *pools.PodPlan, e *inventory.Container, to int, why *allocate.Refusal) error {
	l.refusalLog.total[why.Code]++
	l.log.Warn("resize refused", "pod", pod.Namespace+"/"+pod.Name, "container", e.Container.Name, "container_id", e.Container.ID,
		"asked", to, "code", why.Code, "why", why.Why)
	has := "no CPUs of its own"
	if _, p := findPlacement(&l.status.plan, e.Container.ID); p != nil && p.Exclusive {
		has = "CPUs " + p.CPUs.String()
	}
	return fmt.Errorf("cpupoold: %s/%s, container %s: resize to %d CPUs of its own: %s: %s; it keeps what it has, %s",
		pod.Namespace, pod.Name, e.Container.Name, to, why.Code, why.Why, has)
}

// updateRequest asks what is to become of somebody's update of a container. One that has
// shares is a resize, of which nothing else tells: nobody of ours sends shares over CRI.
type updateRequest struct {
	id     string
	asked  cri.Resources
	asker  <-chan struct{} // closed when nobody waits any more
	answer chan<- updated  // has room for one
}

// updated is what to make of an update, or why it must not be made.
type updated struct {
	keep cri.Resources
	err  error
}

func (updateRequest) scope(*Loop) scope { return scopeAll }

func (u updateRequest) apply(l *Loop) {
	l.settleUpdates(true, l.now())
	e := l.inventory.Container(u.id)
	if e == nil {
		u.answer <- updated{}
		return
	}
	_, p := findPlacement(&l.status.plan, u.id)
	if u.asked.Shares == 0 && l.others.Claims(l.inventory, e) {
		u.answer <- updated{} // as whoever places it wants it
		l.fetchContainer(u.id)
		return
	}
	if u.asked.Shares == 0 {
		u.answer <- updated{keep: l.keep(e, p, u.asked)}
		return
	}
	before := l.inventory.SizeOf(e)
	if p != nil && p.Pool == pools.Other || l.others.Claims(l.inventory, e) { // its size is known here, and nothing else of it is ours
		l.inventory.Resize(e, u.asked)
		l.followResize(u.id, before, l.inventory.SizeOf(e), true)
		u.answer <- updated{}
		l.fetchPod(e.Container.PodID)
		return
	}
	if gone(u.asker) { // the runtime goes on without an answer, or gives up: it will show
		undo := l.inventory.Resize(e, u.asked)
		after := l.inventory.SizeOf(e)
		undo()
		l.followResize(u.id, before, after, false)
		return
	}
	resized, err := l.resize(e, u.asked)
	if err != nil {
		u.answer <- updated{err: err}
		return
	}
	if resized != nil {
		p = resized
	}
	keep := l.keep(e, p, u.asked)
	if u.asked.CPUs == "" && resized != nil {
		// The runtime writes the cpuset with the rest: the new one, or it would put the
		// old one back for a moment. Where others must leave first, that is left to the pass.
		if cpus, _, _ := l.obtainable(p); cpus.Equal(p.Runs()) && !cpus.Equal(l.cache.Current(e.Path).CPUs) {
			keep.CPUs = cpus.String()
		}
	}
	if keep.Shares == 0 {
		l.followResize(u.id, before, l.inventory.SizeOf(e), true)
	}
	u.answer <- updated{keep: keep}
	l.fetchPod(e.Container.PodID) // its total is another
}

// keep is what an update must not change.
func (l *Loop) keep(e *inventory.Container, p *pools.Placement, asked cri.Resources) cri.Resources {
	var keep cri.Resources
	if p != nil && p.Pool == pools.Other {
		return keep
	}
	cpus := l.cache.SettledCPUs(e.Path)
	if l.CPUManager != nil && p != nil {
		cpus = p.Runs() // nobody has to leave them first
	}
	if asked.CPUs != "" && !cpus.IsEmpty() && cpus.String() != asked.CPUs {
		keep.CPUs = cpus.String()
		l.cache.NoteOverride(e.Path)
	}
	if p == nil {
		return keep
	}
	// An update without CPUs has the runtime write those that are on record. While a seal
	// is under way these are the old ones, which somebody else may have by now.
	if asked.CPUs == "" && !cpus.IsEmpty() && cpus.Equal(p.Runs()) && !cpus.Equal(l.cache.Current(e.Path).Recorded) {
		keep.CPUs = cpus.String()
	}
	if asked.Shares != 0 && p.Shares != 0 {
		keep.Shares = p.Shares
	}
	switch {
	case asked.Quota > 0 && p.Unlimited:
		keep.Quota = -1
	case asked.Quota != 0 && p.Limit != 0:
		keep.Quota, keep.Period = desired.LimitOf(p)
	}
	if !p.Mems.IsEmpty() && asked.Mems != "" && !l.cache.IsBusy(e.Path) {
		keep.Mems = p.Mems.String()
	}
	return keep
}
