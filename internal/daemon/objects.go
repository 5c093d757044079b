package daemon

import (
	"context"
	"errors"
	"time"

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
	if p := l.model.pods[e.ContainerID]; p != nil {
		if p.unconfirmed && e.Kind == cri.ContainerCreated {
			l.fetchPod(e.ContainerID)
		}
		switch e.Kind {
		case cri.ContainerStopped:
			p.pod.Ready = false
		case cri.ContainerDeleted:
			l.model.forgetExpected(e.ContainerID)
			l.model.remove(e.ContainerID)
			l.model.unlist(e.ContainerID)
		}
		return
	}
	if c := l.model.containers[e.ContainerID]; c != nil {
		if c.unconfirmed && e.Kind == cri.ContainerCreated {
			l.fetchContainer(e.ContainerID) // what it has on record in the end
		}
		switch e.Kind {
		case cri.ContainerStarted:
			c.advance(cri.Running)
			l.tree.distrust(c.path)
		case cri.ContainerStopped:
			c.advance(cri.Exited)
			if c.container.FinishedAt.IsZero() {
				c.container.FinishedAt = e.At
				c.finish(e.At)
			}
		case cri.ContainerDeleted:
			l.model.remove(e.ContainerID)
		}
		return
	}
	switch e.Kind {
	case cri.ContainerDeleted:
		l.model.remove(e.ContainerID)
		return
	case cri.ContainerStopped:
		return // never known, and over
	}
	if e.ContainerID == e.PodID {
		l.fetchPod(e.ContainerID)
		return
	}
	if l.model.pods[e.PodID] == nil && e.PodID != "" {
		l.fetchPod(e.PodID)
	}
	l.fetchContainer(e.ContainerID)
}

func (l *loop) fetchPod(id string) {
	asOf := l.model.clock
	l.asks.submit(id, func(ctx context.Context) event {
		f, err := lookAtPod(ctx, l.runtime, l.units, l.driver, id, unitPatience)
		return podFetched{id: id, asOf: asOf, pod: f, err: err}
	})
}

func (l *loop) fetchContainer(id string) {
	asOf := l.model.clock
	l.asks.submit(id, func(ctx context.Context) event {
		f, err := lookAtContainer(ctx, l.runtime, l.units, l.driver, id, unitPatience)
		f.asOf = asOf
		return containerFetched{id: id, container: f, err: err}
	})
}

// supersede asks about the earlier instances of a container that has a new one. The
// kubelet makes that once the one before is over, and of one whose start has failed the
// runtime tells nobody: it would keep the CPUs that both have on record from the new one.
func (l *loop) supersede(c *containerEntry) {
	key := l.model.keyOf(c)
	for id, e := range l.model.members(key.PodUID) {
		if e.container.State != cri.Exited && !e.unborn && l.model.keyOf(e) == key && e.container.CreatedAt.Before(c.container.CreatedAt) {
			l.fetchContainer(id)
		}
	}
}

func (l *loop) onPod(e podFetched) {
	switch {
	case l.model.outdated(e.id, e.asOf):
		return
	case e.err == nil:
		l.model.putPod(e.pod)
	case errors.Is(e.err, cri.ErrNotFound):
		if p := l.model.pods[e.id]; p != nil && p.expected(time.Now()) {
			return // not there yet
		}
		l.model.unlist(e.id)
	default:
		l.log.Warn("read pod", "sandbox", e.id, "error", e.err)
		return // the next listing tries again
	}
	l.reappear(e.id)
}

func (l *loop) onContainer(e containerFetched) {
	switch {
	case l.model.outdated(e.id, e.container.asOf):
		return
	case e.err == nil:
		known := l.model.containers[e.id] != nil
		l.model.putContainer(e.container)
		c := l.model.containers[e.id]
		if !known {
			l.supersede(c)
		}
		l.tree.relearn(c.path, c.record())
		if pod := c.container.PodID; pod != "" && l.model.pods[pod] == nil {
			l.fetchPod(pod) // the event did not name it
		}
	case errors.Is(e.err, cri.ErrNotFound):
		if c := l.model.containers[e.id]; c != nil && c.expected(time.Now()) {
			return // not there yet
		}
		l.model.removeAsOf(e.id, e.container.asOf)
	default:
		l.log.Warn("read container", "container", e.id, "error", e.err)
		return // the next listing tries again
	}
	l.reappear(e.id)
}
