package view

import (
	"cmp"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// HistoryLog is what the owner notes for operators. Nothing is decided by it.
type HistoryLog struct {
	Log     *history.Log
	sources map[telemetry.Source]telemetry.SourceState // as last noted
	now     func() time.Time
}

func NewHistoryLog(now func() time.Time) HistoryLog {
	c := HistoryLog{Log: history.New(), now: now}
	c.Add(history.Event{Kind: history.Started})
	return c
}

// Add notes an event of now.
func (c *HistoryLog) Add(e history.Event) {
	e.Time = c.now()
	c.Log.Add(e)
}

// NoteSources notes the sources that fare differently.
func (c *HistoryLog) NoteSources(now map[telemetry.Source]telemetry.SourceState) {
	for source, state := range now {
		if c.sources[source] != state {
			c.Add(history.Event{Kind: history.Source, Property: string(source), Value: string(state), Before: string(c.sources[source])})
		}
	}
	c.sources = now
}

// NotePlan notes who is to run elsewhere than before. Both plans are sorted.
func (c *HistoryLog) NotePlan(before, now *pools.Plan) {
	old, next := before.Pods, now.Pods
	for len(old) > 0 || len(next) > 0 {
		order := 0
		switch {
		case len(old) == 0:
			order = 1
		case len(next) == 0:
			order = -1
		default:
			order = cmp.Compare(old[0].UID, next[0].UID)
		}
		switch {
		case order < 0:
			c.notePod(&old[0], &pools.PodPlan{})
			old = old[1:]
		case order > 0:
			c.notePod(&pools.PodPlan{}, &next[0])
			next = next[1:]
		default:
			c.notePod(&old[0], &next[0])
			old, next = old[1:], next[1:]
		}
	}
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
		c.Add(history.Event{Kind: history.Placed, Unit: u.Name, Pool: fullPool(u.Pool, u.Type), Value: u.CPUs.String(), Before: was.CPUs.String(), Code: string(u.Reason.Code), Cause: u.Reason.Text})
	}
}

// notePod does so for the containers of a pod. Pause containers and those that share a
// pool follow it: of them only the first placement and a change of the pool are noted, or
// each owner that comes would be noted for all.
func (c *HistoryLog) notePod(before, now *pools.PodPlan) {
	for i := range now.Containers {
		at := &now.Containers[i]
		was := placementOf(before, at.ID)
		if at.Kind == pools.Infra || was != nil && !moved(was, at) {
			continue
		}
		e := history.Event{Kind: history.Placed, Pod: now.Namespace + "/" + now.Name, PodUID: now.UID, Container: at.Name,
			Pool: fullPool(at.Pool, at.Type), Value: at.CPUs.String(), Code: string(at.Reason.Code), Cause: at.Reason.Text}
		if was != nil {
			e.Before = was.CPUs.String()
		}
		c.Add(e)
	}
	for i := range before.Containers {
		was := &before.Containers[i]
		if was.Kind != pools.Infra && placementOf(now, was.ID) == nil {
			c.Add(history.Event{Kind: history.Ended, Pod: before.Namespace + "/" + before.Name, PodUID: before.UID, Container: was.Name,
				Pool: fullPool(was.Pool, was.Type), Before: was.CPUs.String()})
		}
	}
}

// moved says that a placement is another one, and not just what its pool has now.
func moved(was, is *pools.Placement) bool {
	return was.Pool != is.Pool || was.Type != is.Type || was.Exclusive != is.Exclusive || was.Reason.Code != is.Reason.Code ||
		is.Exclusive && !was.CPUs.Equal(is.CPUs)
}

func placementOf(p *pools.PodPlan, id string) *pools.Placement {
	for i := range p.Containers {
		if p.Containers[i].ID == id {
			return &p.Containers[i]
		}
	}
	return nil
}

// fullPool names a pool, and which of the management pools.
func fullPool(p pools.Pool, typ string) string {
	if typ == "" || typ == string(p) {
		return string(p)
	}
	return string(p) + "/" + typ
}
