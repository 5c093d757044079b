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

// maxPastRefusals is the maximum number of ended refusals in the log.
const maxPastRefusals = 100

// stopTimeout is the time between the stop signal of a refused container and its end. It is
// short because the container has just started and has no data to save.
const stopTimeout = time.Second

// stopRetryDelay is the delay after a failed stop of a refused container.
const stopRetryDelay = 5 * time.Second

// refusalLog holds the refused containers and units.
type refusalLog struct {
	current map[refusalKey]telemetry.Refusal
	past    []telemetry.Refusal // oldest first
	total   map[string]uint64
	// notCreated holds the containers whose creation was refused (NRI), until they are created
	// or their pod ends. Each attempt has another id, but all are one refusal.
	notCreated map[pools.Key]pools.Problem
}

// refusalKey identifies an instance of an owner: a refusal after a restart is another refusal.
// The id of a unit is empty.
type refusalKey struct {
	pools.Key
	id string
}

func newRefusalLog() *refusalLog {
	return &refusalLog{current: make(map[refusalKey]telemetry.Refusal), total: make(map[string]uint64), notCreated: make(map[pools.Key]pools.Problem)}
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

// noteRefusals records the refusals of a plan and the refusals that have ended. With onRefusal:
// fail it stops the refused containers.
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
			continue // refuse records it
		}
		still[x.key] = true
		if _, known := r.current[x.key]; !known {
			r.current[x.key] = x.record(now)
			r.total[x.why.Code]++
			l.log.Warn("refused", "pod", x.pod, "container", x.key.Container, "asked", x.why.Asked, "free", x.why.Free,
				"code", x.why.Code, "why", x.why.Why)
		}
	}
	l.decideStops(p, now)
	for k, x := range r.current {
		if still[k] {
			continue
		}
		x.Until = now
		delete(r.current, k)
		r.past = append(r.past, x)
		l.log.Info("no longer refused", "pod", x.Pod, "container", x.Container, "code", x.Code)
	}
	slices.SortFunc(r.past, compareRefusals)
	r.past = r.past[max(len(r.past)-maxPastRefusals, 0):]
}

// refuse records that a container is not created because it is refused.
func (l *Loop) refuse(pod *pools.PodPlan, p *pools.Placement, now time.Time) {
	r, key := l.refusalLog, pools.Key{PodUID: pod.UID, Container: p.Name}
	x := refused{refusalKey{Key: key}, pod.Namespace + "/" + pod.Name, p.Refused}
	if _, known := r.notCreated[key]; !known {
		r.current[x.key] = x.record(now)
		r.total[x.why.Code]++
		l.log.Warn("refused, and not created", "pod", x.pod, "container", p.Name, "asked", x.why.Asked, "free", x.why.Free,
			"code", x.why.Code, "why", x.why.Why)
	}
	r.notCreated[key] = pools.Problem{PodUID: pod.UID, Pod: x.pod, Container: p.Name,
		Reason: pools.Reason{Code: pools.CodeRefused, Text: "not created: " + x.why.Error()}}
}

// stillRefused reports whether a refused container has not been created since.
func (l *Loop) stillRefused(key pools.Key) bool {
	return l.inventory.PodByUID(key.PodUID) != nil && !l.inventory.HasInstance(key)
}

// problems returns the containers that are not created.
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

// list returns all refusals, oldest first.
func (r *refusalLog) list() []telemetry.Refusal {
	all := slices.Clone(r.past)
	for _, x := range r.current {
		all = append(all, x)
	}
	slices.SortFunc(all, compareRefusals)
	return all
}

// decideStops decides once about each started instance whether it must stop, and stops refused
// ones. A later reload or resize never stops a container, and neither does a daemon that has
// not seen its creation: the container may have begun its work. The kubelet restarts stopped
// containers with growing delays.
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

// nextStop calls earlier with the times at which failed stops are due again.
func (l *Loop) nextStop(earlier func(time.Time)) {
	for e := range l.inventory.Containers() {
		if at, toStop := e.NextStop(); toStop {
			earlier(at)
		}
	}
}

// stopRefused stops a refused container.
func (l *Loop) stopRefused(k refusalKey, e *inventory.Container) {
	l.refusalLog.setStopped(k, true)
	l.log.Warn("stopping refused container", "pod", l.refusalLog.current[k].Pod, "container", k.Container, "container_id", k.id)
	// The queue of the cgroup's slow writes, so that no write follows the stop.
	l.workers.Updates.Submit(string(e.Path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
		defer cancel()
		return refusedStopped{key: k, err: l.Runtime.Stop(ctx, k.id, stopTimeout)}
	})
}

// setStopped records whether a refused container is stopped.
func (r *refusalLog) setStopped(k refusalKey, is bool) {
	if x, known := r.current[k]; known {
		x.Stopped = is
		r.current[k] = x
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
