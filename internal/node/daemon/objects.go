package daemon

import (
	"context"
	"errors"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

func (streamChanged) scope(*Loop) scope { return scopeAll }

func (e streamChanged) apply(l *Loop) {
	l.status.stream = e.state
	l.log.Info("runtime event stream", "state", e.state.String(), "error", e.err)
	if e.state == cri.Connected || e.state == cri.Unsupported {
		l.list() // what happened before is only in a list
	}
}

// scope: where the runtime asks first (NRI), a container is placed before it exists, else
// when its start event arrives.
func (e runtimeEvent) scope(l *Loop) scope {
	return oneUnless(e.Kind == cri.ContainerStarted && !l.inventory.AsksFirst || e.Kind == cri.ContainerStopped && l.parted(e.ContainerID))
}

func (e runtimeEvent) apply(l *Loop) {
	if p := l.inventory.Pod(e.ContainerID); p != nil {
		if p.Unconfirmed && e.Kind == cri.ContainerCreated {
			l.fetchPod(e.ContainerID)
		}
		switch e.Kind {
		case cri.ContainerStopped:
			p.Pod.Ready = false
		case cri.ContainerDeleted:
			l.inventory.ForgetExpected(e.ContainerID)
			l.inventory.Remove(e.ContainerID)
			l.inventory.Unlist(e.ContainerID)
		}
		return
	}
	if c := l.inventory.Container(e.ContainerID); c != nil {
		if c.Unconfirmed && e.Kind == cri.ContainerCreated {
			l.fetchContainer(e.ContainerID) // what it has on record in the end
		}
		switch e.Kind {
		case cri.ContainerStarted:
			c.Advance(cri.Running)
			l.cache.Invalidate(c.Path)
		case cri.ContainerStopped:
			c.Advance(cri.Exited)
			if c.Container.FinishedAt.IsZero() {
				c.Container.FinishedAt = e.At
				c.Finish(e.At, l.now())
			}
		case cri.ContainerDeleted:
			l.inventory.Remove(e.ContainerID)
		}
		return
	}
	switch e.Kind {
	case cri.ContainerDeleted:
		l.inventory.Remove(e.ContainerID)
		return
	case cri.ContainerStopped:
		return // never known, and over
	}
	if e.ContainerID == e.PodID {
		l.fetchPod(e.ContainerID)
		return
	}
	if l.inventory.Pod(e.PodID) == nil && e.PodID != "" {
		l.fetchPod(e.PodID)
	}
	l.fetchContainer(e.ContainerID)
}

func (l *Loop) fetchPod(id string) {
	asOf := l.inventory.Clock
	l.workers.Queries.Submit(id, func(ctx context.Context) event {
		f, err := inventory.FetchPod(ctx, l.Runtime, l.Units, l.Driver, id, inventory.UnitPatience)
		return podFetched{id: id, asOf: asOf, pod: f, err: err}
	})
}

func (l *Loop) fetchContainer(id string) {
	asOf := l.inventory.Clock
	l.workers.Queries.Submit(id, func(ctx context.Context) event {
		f, err := inventory.FetchContainer(ctx, l.Runtime, l.Units, l.Driver, id, inventory.UnitPatience)
		f.AsOf = asOf
		return containerFetched{id: id, container: f, err: err}
	})
}

// supersede asks about the earlier instances of a container that has a new one. The
// kubelet makes that once the one before is over, and of one whose start has failed the
// runtime tells nobody: it would keep the CPUs that both have on record from the new one.
func (l *Loop) supersede(c *inventory.Container) {
	key := l.inventory.KeyOf(c)
	for id, e := range l.inventory.Members(key.PodUID) {
		if e.Container.State != cri.Exited && !e.Asked && l.inventory.KeyOf(e) == key && e.Container.CreatedAt.Before(c.Container.CreatedAt) {
			l.fetchContainer(id)
		}
	}
}

func (e podFetched) scope(l *Loop) scope {
	return oneUnless(e.err == nil && (!l.inventory.AsksFirst || l.inventory.Pod(e.id) == nil))
}

func (e podFetched) apply(l *Loop) {
	switch {
	case l.inventory.Outdated(e.id, e.asOf):
		return
	case e.err == nil:
		l.inventory.PutPod(e.pod)
	case errors.Is(e.err, cri.ErrNotFound):
		if p := l.inventory.Pod(e.id); p != nil && p.Expected(l.now()) {
			return // not there yet
		}
		l.inventory.Unlist(e.id)
	default:
		l.log.Warn("read pod", "sandbox", e.id, "error", e.err)
		return // the next listing tries again
	}
	l.cgroupBack(e.id)
}

func (e containerFetched) scope(l *Loop) scope {
	return oneUnless(e.err == nil && (!l.inventory.AsksFirst || l.inventory.Container(e.id) == nil || e.container.State == cri.Exited && l.parted(e.id)))
}

func (e containerFetched) apply(l *Loop) {
	switch {
	case l.inventory.Outdated(e.id, e.container.AsOf):
		return
	case e.err == nil:
		known := l.inventory.Container(e.id) != nil
		l.inventory.PutContainer(e.container)
		c := l.inventory.Container(e.id)
		if !known {
			l.supersede(c)
		}
		l.cache.SetRecord(c.Path, c.Record())
		if pod := c.Container.PodID; pod != "" && l.inventory.Pod(pod) == nil {
			l.fetchPod(pod) // the event did not name it
		}
	case errors.Is(e.err, cri.ErrNotFound):
		if c := l.inventory.Container(e.id); c != nil && c.Expected(l.now()) {
			return // not there yet
		}
		l.inventory.RemoveAsOf(e.id, e.container.AsOf)
	default:
		l.log.Warn("read container", "container", e.id, "error", e.err)
		return // the next listing tries again
	}
	l.cgroupBack(e.id)
}
