package daemon

import (
	"cmp"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// chronicle is what the owner notes for operators. Nothing is decided by it.
type chronicle struct {
	log     *history.Log
	sources map[telemetry.Source]telemetry.SourceState // as last noted
}

func newChronicle() chronicle {
	c := chronicle{log: history.New()}
	c.add(history.Event{Kind: history.Started})
	return c
}

// add notes an event of now.
func (c *chronicle) add(e history.Event) {
	e.Time = time.Now()
	c.log.Add(e)
}

// noteAt notes an event of a cgroup, and whose that is.
func (l *loop) noteAt(at cgroup.Path, e history.Event) {
	e.Cgroup = string(at)
	if e.Container == "" {
		l.nameAt(at, &e)
	}
	l.chronicle.add(e)
}

// nameAt names who is in a cgroup.
func (l *loop) nameAt(at cgroup.Path, e *history.Event) {
	if c := l.model.containers[l.model.container(at)]; c != nil {
		e.Container = c.container.Name
		if pod := l.model.pods[c.container.PodID]; pod != nil {
			e.Pod, e.PodUID = pod.name(), pod.uid
		}
		return
	}
	if pod := l.model.pods[l.model.sandbox(at)]; pod != nil {
		e.Pod, e.PodUID = pod.name(), pod.uid
		if pod.pause == at {
			e.Container = infraName
		}
		return
	}
	e.Unit = l.model.unitAt(at)
}

// noteWrite notes a write and how it ended.
func (l *loop) noteWrite(w cgroup.Write, err error) {
	e := history.Event{Kind: history.Wrote, Via: string(w.Via), Property: w.Property, Value: w.Value, Cause: w.Reason}
	switch {
	case err == nil:
	case isGone(err):
		e.Kind, e.Error = history.Missed, err.Error()
	default:
		e.Kind, e.Error = history.Failed, err.Error()
	}
	l.noteAt(w.Path, e)
}

// noteProblem notes that something is not honoured, or is again.
func (l *loop) noteProblem(kind history.Kind, key problemKey, text string) {
	l.chronicle.add(history.Event{Kind: kind, Pod: key.pod, PodUID: key.uid, Container: key.container, Unit: key.unit, Code: string(key.code), Cause: text})
}

// noteMove notes what an operator has asked for.
func (l *loop) noteMove(m *moveAsked, err error) {
	e := history.Event{Kind: history.Move, PodUID: m.PodUID, Container: m.Container, Before: m.From.String(), Value: m.To.String(), Cause: "asked for on the control socket"}
	if m.PodUID == "" {
		e.Unit, e.Container = e.Container, ""
	}
	for _, pod := range l.model.pods {
		if pod.uid == m.PodUID {
			e.Pod = pod.name()
		}
	}
	if err != nil {
		e.Error = err.Error()
	}
	l.chronicle.add(e)
}

// noteSources notes the sources that fare differently.
func (c *chronicle) noteSources(now map[telemetry.Source]telemetry.SourceState) {
	for source, state := range now {
		if c.sources[source] != state {
			c.add(history.Event{Kind: history.Source, Property: string(source), Value: string(state), Before: string(c.sources[source])})
		}
	}
	c.sources = now
}

// notePlan notes who is to run elsewhere than before. Both plans are sorted.
func (c *chronicle) notePlan(before, now *pools.Plan) {
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
		c.add(history.Event{Kind: history.Placed, Unit: u.Name, Pool: fullPool(u.Pool, u.Type), Value: u.CPUs.String(), Before: was.CPUs.String(), Code: string(u.Reason.Code), Cause: u.Reason.Text})
	}
}

// notePod does so for the containers of a pod. Pause containers and those that share a
// pool follow it: of them only the first placement and a change of the pool are noted, or
// each owner that comes would be noted for all.
func (c *chronicle) notePod(before, now *pools.PodPlan) {
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
		c.add(e)
	}
	for i := range before.Containers {
		was := &before.Containers[i]
		if was.Kind != pools.Infra && placementOf(now, was.ID) == nil {
			c.add(history.Event{Kind: history.Ended, Pod: before.Namespace + "/" + before.Name, PodUID: before.UID, Container: was.Name,
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
