package daemon

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// maxPastRefusals bounds what is remembered of refusals that are over.
const maxPastRefusals = 100

// stopTimeout is how long a container that is stopped for its refusal has between its
// stop signal and the end: it has just been started, and has nothing to save.
const stopTimeout = time.Second

// stopRetryDelay is how long a container that could not be stopped is left alone.
const stopRetryDelay = 5 * time.Second

// refusalLog are the owners that were refused CPUs of their own.
type refusalLog struct {
	now   map[refusalKey]telemetry.Refusal
	past  []telemetry.Refusal // oldest first
	total map[string]uint64
	// notCreated are the containers that were not created for it (NRI), until they are, or
	// their pod is gone. They are tried again with other ids: it is one refusal.
	notCreated map[pools.Key]pools.Problem
}

// refusalKey names an instance: a container that is started again and refused
// again is another event. The id of a unit is empty.
type refusalKey struct {
	pools.Key
	id string
}

func newRefusalLog() *refusalLog {
	return &refusalLog{now: make(map[refusalKey]telemetry.Refusal), total: make(map[string]uint64), notCreated: make(map[pools.Key]pools.Problem)}
}

// refused is one refusal of a plan.
type refused struct {
	key refusalKey
	pod string
	why *allocate.Refusal
}

func refusedIn(p pools.Plan) []refused {
	var all []refused
	for _, pod := range p.Pods {
		for _, c := range pod.Containers {
			if c.Refused != nil && c.State != pools.Exited {
				key := refusalKey{pools.Key{PodUID: pod.UID, Container: c.Name}, c.ID}
				all = append(all, refused{key, pod.Namespace + "/" + pod.Name, c.Refused})
			}
		}
	}
	for _, u := range p.Units {
		if u.Refused != nil {
			all = append(all, refused{refusalKey{Key: pools.Key{Container: u.Name}}, "", u.Refused})
		}
	}
	return all
}

// noteRefusals records what a plan refuses, and what is over. With onRefusal: fail
// it stops the containers in question.
func (l *Loop) noteRefusals(p pools.Plan, now time.Time) {
	r := l.refusalLog
	still := make(map[refusalKey]bool)
	for key := range r.notCreated {
		if l.stillRefused(key) {
			still[refusalKey{Key: key}] = true
		} else {
			delete(r.notCreated, key)
		}
	}
	for _, x := range refusedIn(p) {
		if e := l.inventory.Container(x.key.id); e != nil && e.IsAsked() {
			continue // see refuse
		}
		still[x.key] = true
		if _, known := r.now[x.key]; !known {
			r.now[x.key] = x.record(now)
			r.total[x.why.Code]++
			l.log.Warn("refused", "pod", x.pod, "container", x.key.Container, "asked", x.why.Asked, "free", x.why.Free,
				"code", x.why.Code, "why", x.why.Why)
		}
	}
	l.decideStops(p, now)
	for k, x := range r.now {
		if still[k] {
			continue
		}
		x.Until = now
		delete(r.now, k)
		r.past = append(r.past, x)
		l.log.Info("no longer refused", "pod", x.Pod, "container", x.Container, "code", x.Code)
	}
	slices.SortFunc(r.past, compareRefusals)
	r.past = r.past[max(len(r.past)-maxPastRefusals, 0):]
}

// refuse notes that a container is not created because it is refused CPUs.
func (l *Loop) refuse(pod *pools.PodPlan, p *pools.Placement, now time.Time) {
	r, key := l.refusalLog, pools.Key{PodUID: pod.UID, Container: p.Name}
	x := refused{refusalKey{Key: key}, pod.Namespace + "/" + pod.Name, p.Refused}
	if _, known := r.notCreated[key]; !known {
		r.now[x.key] = x.record(now)
		r.total[x.why.Code]++
		l.log.Warn("refused, and not created", "pod", x.pod, "container", p.Name, "asked", x.why.Asked, "free", x.why.Free,
			"code", x.why.Code, "why", x.why.Why)
	}
	r.notCreated[key] = pools.Problem{PodUID: pod.UID, Pod: x.pod, Container: p.Name,
		Reason: pools.Reason{Code: pools.CodeRefused, Text: "not created: " + x.why.Error()}}
}

// stillRefused says that a container that was turned away has not been created since.
func (l *Loop) stillRefused(key pools.Key) bool {
	return l.inventory.PodByUID(key.PodUID) != nil && !l.inventory.HasInstance(key)
}

// problems are the containers that are not created.
func (r *refusalLog) problems() []pools.Problem {
	return slices.Collect(maps.Values(r.notCreated))
}

func (x refused) record(now time.Time) telemetry.Refusal {
	return telemetry.Refusal{
		Pod: x.pod, Container: x.key.Container, PodUID: x.key.PodUID, ID: x.key.id,
		Asked: x.why.Asked, Free: x.why.Free, Code: x.why.Code, Why: x.why.Why, Since: now,
	}
}

func compareRefusals(a, b telemetry.Refusal) int {
	switch {
	case !a.Since.Equal(b.Since):
		return a.Since.Compare(b.Since)
	case a.ID < b.ID:
		return -1
	case a.ID > b.ID:
		return 1
	}
	return 0
}

// list returns all of them, oldest first.
func (r *refusalLog) list() []telemetry.Refusal {
	all := slices.Clone(r.past)
	for _, x := range r.now {
		all = append(all, x)
	}
	slices.SortFunc(all, compareRefusals)
	return all
}

// decideStops decides about each instance that has been started, once, and stops those
// that have to go. Whoever was let run is never stopped, on CPUs of its own or in
// the shared pool: neither a reload nor a resize may end what has begun to work, nor
// may a daemon that has not seen it being created. The kubelet starts who was
// stopped again, with pauses that grow.
func (l *Loop) decideStops(p pools.Plan, now time.Time) {
	fail := l.settings.Config.OnRefusal == config.RefusalFail && !l.Observes
	for _, pod := range p.Pods {
		for _, c := range pod.Containers {
			e := l.inventory.Container(c.ID)
			if e == nil || c.State != pools.Running {
				continue
			}
			key := pools.Key{PodUID: pod.UID, Container: c.Name}
			final := c.Reason.Code != pools.CodeWaiting || l.hints.IsOverdue(key, now)
			if e.DecideStop(final, fail && c.Refused != nil, now) {
				l.stopRefused(refusalKey{key, c.ID}, e)
			}
		}
	}
}

// nextStop is when the first of those that could not be stopped is due again.
func (l *Loop) nextStop(earlier func(time.Time)) {
	for e := range l.inventory.Containers() {
		if at, toStop := e.NextStop(); toStop {
			earlier(at)
		}
	}
}

// stopRefused ends a container that was refused.
func (l *Loop) stopRefused(k refusalKey, e *inventory.Container) {
	l.refusalLog.setStopped(k, true)
	l.log.Warn("stopping refused container", "pod", l.refusalLog.now[k].Pod, "container", k.Container, "container_id", k.id)
	// Among the seals, so that none of them comes after it.
	l.workers.Updates.Submit(string(e.Path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
		defer cancel()
		return refusedStopped{key: k, err: l.Runtime.Stop(ctx, k.id, stopTimeout)}
	})
}

// setStopped notes that a refused container is stopped for it, or is not.
func (r *refusalLog) setStopped(k refusalKey, is bool) {
	if x, known := r.now[k]; known {
		x.Stopped = is
		r.now[k] = x
	}
}

// refusedStopped is the result of stopping a refused container.
type refusedStopped struct {
	key refusalKey
	err error
}

func (refusedStopped) scope(*Loop) scope { return scopeAll }

func (e refusedStopped) apply(l *Loop) {
	if c := l.inventory.Container(e.key.id); c != nil {
		c.NoteStop(e.err, l.now().Add(stopRetryDelay))
	}
	if e.err != nil {
		l.log.Error("refused container is not stopped; it runs in the shared pool for now", "container_id", e.key.id, "error", e.err)
		l.refusalLog.setStopped(e.key, false)
	}
}
