package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

func (l *loop) onStream(e streamChanged) {
	l.status.stream = e.state
	l.log.Info("runtime event stream", "state", e.state.String(), "error", e.err)
	if e.state == cri.Connected || e.state == cri.Unsupported {
		l.list() // what happened before is only in a list
	}
}

func (l *loop) onRuntimeEvent(e runtimeEvent) {
	if p := l.model.Pods[e.ContainerID]; p != nil {
		if p.Unconfirmed && e.Kind == cri.ContainerCreated {
			l.fetchPod(e.ContainerID)
		}
		switch e.Kind {
		case cri.ContainerStopped:
			p.Pod.Ready = false
		case cri.ContainerDeleted:
			l.model.ForgetExpected(e.ContainerID)
			l.model.Remove(e.ContainerID)
			l.model.Unlist(e.ContainerID)
		}
		return
	}
	if c := l.model.Containers[e.ContainerID]; c != nil {
		if c.Unconfirmed && e.Kind == cri.ContainerCreated {
			l.fetchContainer(e.ContainerID) // what it has on record in the end
		}
		switch e.Kind {
		case cri.ContainerStarted:
			c.Advance(cri.Running)
			l.tree.Distrust(c.Path)
		case cri.ContainerStopped:
			c.Advance(cri.Exited)
			if c.Container.FinishedAt.IsZero() {
				c.Container.FinishedAt = e.At
				c.Finish(e.At)
			}
		case cri.ContainerDeleted:
			l.model.Remove(e.ContainerID)
		}
		return
	}
	switch e.Kind {
	case cri.ContainerDeleted:
		l.model.Remove(e.ContainerID)
		return
	case cri.ContainerStopped:
		return // never known, and over
	}
	if e.ContainerID == e.PodID {
		l.fetchPod(e.ContainerID)
		return
	}
	if l.model.Pods[e.PodID] == nil && e.PodID != "" {
		l.fetchPod(e.PodID)
	}
	l.fetchContainer(e.ContainerID)
}

func (l *loop) fetchPod(id string) {
	asOf := l.model.Clock
	l.Asks.Submit(id, func(ctx context.Context) actor.Event {
		f, err := inventory.LookAtPod(ctx, l.Runtime, l.Units, l.Driver, id, inventory.UnitPatience)
		return podFetched{id: id, asOf: asOf, pod: f, err: err}
	})
}

func (l *loop) fetchContainer(id string) {
	asOf := l.model.Clock
	l.Asks.Submit(id, func(ctx context.Context) actor.Event {
		f, err := inventory.LookAtContainer(ctx, l.Runtime, l.Units, l.Driver, id, inventory.UnitPatience)
		f.AsOf = asOf
		return containerFetched{id: id, container: f, err: err}
	})
}

// supersede asks about the earlier instances of a container that has a new one. The
// kubelet makes that once the one before is over, and of one whose start has failed the
// runtime tells nobody: it would keep the CPUs that both have on record from the new one.
func (l *loop) supersede(c *inventory.ContainerEntry) {
	key := l.model.KeyOf(c)
	for id, e := range l.model.Members(key.PodUID) {
		if e.Container.State != cri.Exited && !e.Unborn && l.model.KeyOf(e) == key && e.Container.CreatedAt.Before(c.Container.CreatedAt) {
			l.fetchContainer(id)
		}
	}
}

func (l *loop) onPod(e podFetched) {
	switch {
	case l.model.Outdated(e.id, e.asOf):
		return
	case e.err == nil:
		l.model.PutPod(e.pod)
	case errors.Is(e.err, cri.ErrNotFound):
		if p := l.model.Pods[e.id]; p != nil && p.Expected(time.Now()) {
			return // not there yet
		}
		l.model.Unlist(e.id)
	default:
		l.log.Warn("read pod", "sandbox", e.id, "error", e.err)
		return // the next listing tries again
	}
	l.reappear(e.id)
}

func (l *loop) onContainer(e containerFetched) {
	switch {
	case l.model.Outdated(e.id, e.container.AsOf):
		return
	case e.err == nil:
		known := l.model.Containers[e.id] != nil
		l.model.PutContainer(e.container)
		c := l.model.Containers[e.id]
		if !known {
			l.supersede(c)
		}
		l.tree.Relearn(c.Path, c.Record())
		if pod := c.Container.PodID; pod != "" && l.model.Pods[pod] == nil {
			l.fetchPod(pod) // the event did not name it
		}
	case errors.Is(e.err, cri.ErrNotFound):
		if c := l.model.Containers[e.id]; c != nil && c.Expected(time.Now()) {
			return // not there yet
		}
		l.model.RemoveAsOf(e.id, e.container.AsOf)
	default:
		l.log.Warn("read container", "container", e.id, "error", e.err)
		return // the next listing tries again
	}
	l.reappear(e.id)
}
