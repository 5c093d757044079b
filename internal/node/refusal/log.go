// Package refusal holds the owners that were refused exclusive CPUs, and decides which of them must
// stop. The event loop stops them. One goroutine uses a [Log].
package refusal

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Log holds the containers and units that are refused now, the containers that are not created, and
// the number of refusals by code.
type Log struct {
	objects *inventory.Objects
	hints   *numahints.Hints
	log     *slog.Logger

	current map[Key]refused
	total   map[string]uint64
	// notCreated holds the containers whose creation was refused (NRI), until they are created
	// or their pod ends. Each attempt has another id, but all are one refusal.
	notCreated map[pools.Key]pools.Problem
}

// Key identifies an instance of an owner, which has an ID unless it is a unit.
type Key struct {
	pools.Key
	ID string
}

// New returns a Log without refusals.
func New(m *inventory.Objects, h *numahints.Hints, log *slog.Logger) *Log {
	return &Log{objects: m, hints: h, log: log,
		current: make(map[Key]refused), total: make(map[string]uint64), notCreated: make(map[pools.Key]pools.Problem)}
}

type refused struct {
	key Key
	pod string
	why *allocate.Refusal
}

func refusedIn(p pools.Plan) []refused {
	var all []refused
	for pod, c := range p.Containers() {
		if c.Refused != nil && c.State != pools.Exited {
			key := Key{pools.Key{PodUID: pod.UID, Container: c.Name}, c.ID}
			all = append(all, refused{key, pod.Namespace + "/" + pod.Name, c.Refused})
		}
	}
	for _, u := range p.Units {
		if u.Refused != nil {
			all = append(all, refused{Key{Key: pools.Key{Container: u.Name}}, "", u.Refused})
		}
	}
	return all
}

// Note records the refusals of a plan and the refusals that have ended. If fail is true, it
// returns the refused containers that must stop now; NoteStop must follow for each.
func (r *Log) Note(p pools.Plan, fail bool, now time.Time) (toStop []Key) {
	still := make(map[Key]bool)
	for key := range r.notCreated {
		if r.objects.PodByUID(key.PodUID) != nil && !r.objects.HasInstance(key) {
			still[Key{Key: key}] = true
		} else {
			delete(r.notCreated, key)
		}
	}
	for _, x := range refusedIn(p) {
		if e := r.objects.Container(x.key.ID); e != nil && e.IsAsked() {
			continue // NoteUncreated records it
		}
		still[x.key] = true
		if _, known := r.current[x.key]; !known {
			r.begin(x)
			r.log.Warn("refused", "pod", x.pod, "container", x.key.Container, "asked", x.why.Asked, "free", x.why.Free,
				"code", x.why.Code, "why", x.why.Why)
		}
	}
	toStop = r.decideStops(p, fail, now)
	for k, x := range r.current {
		if still[k] {
			continue
		}
		delete(r.current, k)
		r.log.Info("no longer refused", "pod", x.pod, "container", k.Container, "code", x.why.Code)
	}
	return toStop
}

// NoteUncreated records that a container is not created because it is refused.
func (r *Log) NoteUncreated(pod *pools.PodPlan, p *pools.Placement) {
	key := pools.Key{PodUID: pod.UID, Container: p.Name}
	x := refused{Key{Key: key}, pod.Namespace + "/" + pod.Name, p.Refused}
	if _, known := r.notCreated[key]; !known {
		r.begin(x)
		r.log.Warn("refused, and not created", "pod", x.pod, "container", p.Name, "asked", x.why.Asked, "free", x.why.Free,
			"code", x.why.Code, "why", x.why.Why)
	}
	r.notCreated[key] = pools.Problem{PodUID: pod.UID, Pod: x.pod, Container: p.Name,
		Reason: pools.Reason{Code: pools.CodeRefused, Text: "not created: " + x.why.Error()}}
}

// NoteResize records that the resize of a container to a number of exclusive CPUs is refused. It
// returns the error for the runtime. has is the placement of the container, or nil.
func (r *Log) NoteResize(pod *pools.PodPlan, e *inventory.Container, to int, why *allocate.Refusal, has *pools.Placement) error {
	r.total[why.Code]++
	r.log.Warn("resize refused", "pod", pod.Namespace+"/"+pod.Name, "container", e.Container.Name, "container_id", e.Container.ID,
		"asked", to, "code", why.Code, "why", why.Why)
	keeps := "no exclusive CPUs"
	if has != nil && has.Exclusive {
		keeps = "CPUs " + has.CPUs.String()
	}
	return fmt.Errorf("cpupoold: %s/%s, container %s: resize to %d exclusive CPUs: %s: %s; it keeps %s",
		pod.Namespace, pod.Name, e.Container.Name, to, why.Code, why.Why, keeps)
}

// Problems returns the containers that are not created.
func (r *Log) Problems() []pools.Problem {
	return slices.Collect(maps.Values(r.notCreated))
}

// Totals returns the number of refusals since the daemon's start, by code.
func (r *Log) Totals() map[string]uint64 { return maps.Clone(r.total) }

// Now returns the number of containers and units that are refused now.
func (r *Log) Now() int { return len(r.current) }

func (r *Log) begin(x refused) {
	r.current[x.key] = x
	r.total[x.why.Code]++
}

// StopRetryDelay is the delay after a failed stop of a refused container.
const StopRetryDelay = 5 * time.Second

// decideStops decides once about each started instance. Reloads, resizes and new daemons stop no
// container, which may have begun its work. The kubelet restarts stopped ones with growing delays.
func (r *Log) decideStops(p pools.Plan, fail bool, now time.Time) (toStop []Key) {
	for pod, c := range p.Containers() {
		e := r.objects.Container(c.ID)
		if e == nil || c.State != pools.Running {
			continue
		}
		key := Key{pools.Key{PodUID: pod.UID, Container: c.Name}, c.ID}
		final := c.Reason.Code != pools.CodeWaiting || r.hints.IsOverdue(key.Key, now)
		if e.DecideStop(final, fail && c.Refused != nil, now) {
			r.log.Warn("stopping refused container", "pod", r.current[key].pod, "container", c.Name, "container_id", c.ID)
			toStop = append(toStop, key)
		}
	}
	return toStop
}

// NextStop calls earlier with the times at which failed stops are due again.
func (r *Log) NextStop(earlier func(time.Time)) {
	for e := range r.objects.Containers() {
		if at, toStop := e.NextStop(); toStop {
			earlier(at)
		}
	}
}

// NoteStop records a stop. After an error Note returns the container again in time.
func (r *Log) NoteStop(k Key, err error, now time.Time) {
	if e := r.objects.Container(k.ID); e != nil {
		e.NoteStop(err, now.Add(StopRetryDelay))
	}
	if err != nil {
		r.log.Error("refused container is not stopped; it runs in the shared pool until the next try", "container_id", k.ID, "error", err)
	}
}
