package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// HistoryLog records the events that operators can read. It belongs to the event loop.
type HistoryLog struct {
	log     *history.Log
	sources map[telemetry.Source]telemetry.SourceState // last noted states
	now     func() time.Time
}

// NewHistoryLog returns a log with the event that the daemon has started.
func NewHistoryLog(now func() time.Time) *HistoryLog {
	c := &HistoryLog{log: history.New(), now: now}
	c.Add(history.Event{Kind: history.Started})
	return c
}

// Snapshot returns the log as it is now, for other goroutines.
func (c *HistoryLog) Snapshot() *history.Snapshot { return c.log.Snapshot() }

// Add adds an event that happens now.
func (c *HistoryLog) Add(e history.Event) {
	e.Time = c.now()
	c.log.Add(e)
}

// AddAt adds an event of a cgroup. It names the container, pod or unit of the cgroup, unless
// the event names a container.
func (c *HistoryLog) AddAt(m *inventory.Objects, at cgroup.Path, e history.Event) {
	e.Cgroup = string(at)
	if e.Container != "" {
		c.Add(e)
		return
	}
	if ctr := m.ContainerAt(at); ctr != nil {
		e.Container = ctr.Container.Name
		if pod := ctr.Pod(); pod != nil {
			e.Pod, e.PodUID = pod.Name(), pod.UID
		}
	} else if pod := m.PodAt(at); pod != nil {
		e.Pod, e.PodUID = pod.Name(), pod.UID
		if pod.Pause == at {
			e.Container = pools.InfraName
		}
	} else {
		e.Unit = m.Units().At(at)
	}
	c.Add(e)
}

// AddWrite adds a write and its result.
func (c *HistoryLog) AddWrite(m *inventory.Objects, w cgroup.Write, err error) {
	e := history.Event{Kind: history.Wrote, Via: string(w.Via), Property: w.Property, Value: w.Value, Cause: w.Reason}
	switch {
	case err == nil:
	case hostenv.IsGone(err):
		e.Kind, e.Error = history.Missed, err.Error()
	default:
		e.Kind, e.Error = history.Failed, err.Error()
	}
	c.AddAt(m, w.Path, e)
}

// NoteSources adds the sources whose state has changed.
func (c *HistoryLog) NoteSources(now map[telemetry.Source]telemetry.SourceState) {
	for source, state := range now {
		if c.sources[source] != state {
			c.Add(history.Event{Kind: history.Source, Property: string(source), Value: string(state), Before: string(c.sources[source])})
		}
	}
	c.sources = now
}

// NotePlan adds the containers and units that a plan moves. Both plans are sorted.
func (c *HistoryLog) NotePlan(before, now *pools.Plan) {
	none := &pools.PodPlan{}
	for old, next := before.Pods, now.Pods; len(old)+len(next) > 0; {
		was, is := none, none
		if len(old) > 0 && (len(next) == 0 || old[0].UID <= next[0].UID) {
			was = &old[0]
			old = old[1:]
		}
		if len(next) > 0 && (was == none || was.UID == next[0].UID) {
			is = &next[0]
			next = next[1:]
		}
		c.notePod(was, is)
	}
	c.noteClaims(before, now)
	for i := range now.Units {
		u := &now.Units[i]
		was := pools.UnitPlan{}
		for _, o := range before.Units {
			if o.Name == u.Name {
				was = o
			}
		}
		if was.Pool == u.Pool && was.Type == u.Type && was.CPUs.Equal(u.CPUs) && was.Reason.Code == u.Reason.Code {
			continue
		}
		c.Add(history.Event{Kind: history.Placed, Unit: u.Name, Pool: inspect.FullPool(u.Pool, u.Type), Value: u.CPUs.String(), Before: was.CPUs.String(), Code: string(u.Reason.Code), Cause: u.Reason.Text})
	}
}

// noteClaims adds the claims that have other CPUs or containers than before, and the claims that have ended.
func (c *HistoryLog) noteClaims(before, now *pools.Plan) {
	find := func(all []pools.ClaimPlan, uid string) *pools.ClaimPlan {
		if i := slices.IndexFunc(all, func(p pools.ClaimPlan) bool { return p.UID == uid }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	for i := range now.Claims {
		p := &now.Claims[i]
		was := cmp.Or(find(before.Claims, p.UID), &pools.ClaimPlan{})
		if was.UID == "" || !was.CPUs.Equal(p.CPUs) || !slices.Equal(was.Containers, p.Containers) || was.Reason.Code != p.Reason.Code {
			e := eventOf(now, p)
			e.Container, e.Value, e.Before, e.Code, e.Cause = strings.Join(p.Containers, ","), p.CPUs.String(), was.CPUs.String(), string(p.Reason.Code), p.Reason.Text
			c.Add(e)
		}
	}
	for i := range before.Claims {
		if p := &before.Claims[i]; find(now.Claims, p.UID) == nil {
			e := eventOf(before, p)
			e.Before, e.Cause = p.CPUs.String(), "the claim has ended"
			c.Add(e)
		}
	}
}

// eventOf returns an event with the names of a claim and of its pod.
func eventOf(plan *pools.Plan, p *pools.ClaimPlan) history.Event {
	e := history.Event{Kind: history.Claim, Claim: p.Namespace + "/" + p.Name, PodUID: p.PodUID}
	if i := slices.IndexFunc(plan.Pods, func(pod pools.PodPlan) bool { return pod.UID == p.PodUID }); i >= 0 {
		e.Pod = plan.Pods[i].Namespace + "/" + plan.Pods[i].Name
	}
	return e
}

// notePod adds the containers of a pod that a plan moves. Of shared containers it adds only
// the first placement and a change of the pool. Otherwise each new owner would be an event
// of all shared containers. Pause containers are left out.
func (c *HistoryLog) notePod(before, now *pools.PodPlan) {
	for i := range now.Containers {
		at := &now.Containers[i]
		was := placementOf(before, at.ID)
		if at.Kind == pools.Infra || was != nil && !moved(was, at) {
			continue
		}
		e := history.Event{Kind: history.Placed, Pod: now.Namespace + "/" + now.Name, PodUID: now.UID, Container: at.Name,
			Pool: inspect.FullPool(at.Pool, at.Type), Value: at.CPUs.String(), Code: string(at.Reason.Code), Cause: at.Reason.Text}
		if was != nil {
			e.Before = was.CPUs.String()
		}
		c.Add(e)
	}
	for i := range before.Containers {
		was := &before.Containers[i]
		if was.Kind != pools.Infra && placementOf(now, was.ID) == nil {
			c.Add(history.Event{Kind: history.Ended, Pod: before.Namespace + "/" + before.Name, PodUID: before.UID, Container: was.Name,
				Pool: inspect.FullPool(was.Pool, was.Type), Before: was.CPUs.String()})
		}
	}
}

// moved reports whether a placement has changed, except that its pool has other CPUs.
func moved(was, is *pools.Placement) bool {
	return was.Pool != is.Pool || was.Type != is.Type || was.Exclusive != is.Exclusive || was.Reason.Code != is.Reason.Code ||
		is.Pool == pools.Guaranteed && !was.CPUs.Equal(is.CPUs)
}

func placementOf(p *pools.PodPlan, id string) *pools.Placement {
	for i := range p.Containers {
		if p.Containers[i].ID == id {
			return &p.Containers[i]
		}
	}
	return nil
}
