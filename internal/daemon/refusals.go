package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// keptRefusals bounds what is remembered of refusals that are over.
const keptRefusals = 100

// stopGrace is how long a container that is stopped for its refusal has between its
// stop signal and the end: it has just been started, and has nothing to save.
const stopGrace = time.Second

// refusals are the owners that were refused CPUs of their own.
type refusals struct {
	now   map[refusalKey]telemetry.Refusal
	past  []telemetry.Refusal // oldest first
	total map[string]uint64
}

// refusalKey names an instance: a container that is started again and refused
// again is another event. The id of a unit is empty.
type refusalKey struct {
	pools.Key
	id string
}

func newRefusals() *refusals {
	return &refusals{now: make(map[refusalKey]telemetry.Refusal), total: make(map[string]uint64)}
}

// refused is one refusal of a plan.
type refused struct {
	key     refusalKey
	pod     string
	running bool
	why     *allocate.Refusal
}

func refusedIn(p pools.Plan) []refused {
	var all []refused
	for _, pod := range p.Pods {
		for _, c := range pod.Containers {
			if c.Refused != nil && c.State != pools.Exited {
				key := refusalKey{pools.Key{PodUID: pod.UID, Container: c.Name}, c.ID}
				all = append(all, refused{key, pod.Namespace + "/" + pod.Name, c.State == pools.Running, c.Refused})
			}
		}
	}
	for _, u := range p.Units {
		if u.Refused != nil {
			all = append(all, refused{refusalKey{Key: pools.Key{Container: u.Name}}, "", false, u.Refused})
		}
	}
	return all
}

// noteRefusals records what a plan refuses, and what is over. With onRefusal: fail
// it stops the containers in question.
func (l *loop) noteRefusals(p pools.Plan, now time.Time) {
	r := l.refusals
	still := make(map[refusalKey]bool)
	for _, x := range refusedIn(p) {
		still[x.key] = true
		if _, known := r.now[x.key]; !known {
			r.now[x.key] = x.record(now)
			r.total[x.why.Code]++
			l.log.Warn("refused", "pod", x.pod, "container", x.key.Container, "asked", x.why.Asked, "free", x.why.Free,
				"code", x.why.Code, "why", x.why.Why)
		}
		if x.running {
			l.stopRefused(x.key)
		}
	}
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
	r.past = r.past[max(len(r.past)-keptRefusals, 0):]
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
func (r *refusals) list() []telemetry.Refusal {
	all := slices.Clone(r.past)
	for _, x := range r.now {
		all = append(all, x)
	}
	slices.SortFunc(all, compareRefusals)
	return all
}

// stopRefused ends a container that was refused, once, if this daemon has seen it
// being created: what ran before is not to die of a restart of the daemon. The
// kubelet then starts it again, with pauses that grow.
func (l *loop) stopRefused(k refusalKey) {
	e, x := l.model.containers[k.id], l.refusals.now[k]
	if l.settings.config.OnRefusal != config.RefusalFail || e == nil || !e.born || x.Stopped {
		return
	}
	x.Stopped = true
	l.refusals.now[k] = x
	l.log.Warn("stopping refused container", "pod", x.Pod, "container", x.Container, "container_id", k.id)
	// Among the seals, so that none of them comes after it.
	l.seals.submit(string(e.path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, updateTimeout)
		defer cancel()
		return refusedStopped{id: k.id, err: l.runtime.Stop(ctx, k.id, stopGrace)}
	})
}

// refusedStopped is the result of stopping a refused container.
type refusedStopped struct {
	id  string
	err error
}

func (e refusedStopped) apply(l *loop) {
	if e.err != nil {
		l.log.Error("refused container is not stopped; it runs in the shared pool", "container_id", e.id, "error", e.err)
		return
	}
	if c := l.model.containers[e.id]; c != nil {
		c.advance(cri.Exited)
	}
}
