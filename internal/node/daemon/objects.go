package daemon

import (
	"context"
	"errors"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// streamChanged reports the state of the event stream.
type streamChanged struct {
	state cri.StreamState
	err   error
}

func (e streamChanged) apply(l *Loop) {
	l.publisher.States.Stream(e.state, e.err)
	if e.state == cri.Connected || e.state == cri.Unsupported {
		l.list() // earlier events are lost
	}
}

// runtimeEvent is an event of the runtime's event stream.
type runtimeEvent struct{ cri.Event }

// scope returns scopeAll for the start of a container that the daemon has not placed yet.
// With NRI the daemon places containers before they exist.
func (e runtimeEvent) scope(l *Loop) scope {
	return oneUnless(e.Kind == cri.ContainerStarted && !l.inventory.Objects().HasNRI() || e.Kind == cri.ContainerStopped && l.partitions.Has(e.ContainerID))
}

func (e runtimeEvent) sandbox() string { return e.ContainerID } // or the id of a container

func (e runtimeEvent) apply(l *Loop) {
	sandbox, container, started := l.inventory.Event(e.Event)
	if sandbox != "" {
		l.fetchPod(sandbox)
	}
	if container != "" {
		l.fetchContainer(container)
	}
	if started != "" {
		l.cache.Invalidate(started)
	}
}

func (l *Loop) fetchPod(id string) {
	asOf := l.inventory.Clock()
	l.workers.Queries.Submit(id, func(ctx context.Context) event {
		return podFetched{lookup.FetchPod(ctx, &l.Host, id, asOf)}
	})
}

func (l *Loop) fetchContainer(id string) {
	asOf := l.inventory.Clock()
	l.workers.Queries.Submit(id, func(ctx context.Context) event {
		return containerFetched{lookup.FetchContainer(ctx, &l.Host, id, asOf)}
	})
}

// fetchEarlier fetches the earlier instances of a container. Until the runtime reports the
// end of such an instance, it holds the CPUs that are recorded for both.
func (l *Loop) fetchEarlier(c *inventory.Container) {
	for _, id := range c.EarlierInstances() {
		l.fetchContainer(id)
	}
}

// podFetched is the result of fetchPod.
type podFetched struct{ lookup.PodStatus }

func (e podFetched) scope(l *Loop) scope {
	return oneUnless(e.Err == nil && (!l.inventory.Objects().HasNRI() || l.inventory.Objects().Pod(e.ID) == nil))
}

func (e podFetched) sandbox() string { return e.ID }

func (e podFetched) apply(l *Loop) {
	if l.inventory.PutPod(e.PodStatus) {
		l.notices.Removed.Fetched(e.ID)
	} else if e.Err != nil && !errors.Is(e.Err, cri.ErrNotFound) {
		l.log.Warn("read pod", "sandbox", e.ID, "error", e.Err) // the next listing tries again
	}
}

// containerFetched is the result of fetchContainer.
type containerFetched struct{ lookup.ContainerStatus }

func (e containerFetched) scope(l *Loop) scope {
	return oneUnless(e.Err == nil && (!l.inventory.Objects().HasNRI() || l.inventory.Objects().Container(e.ID) == nil || e.State == cri.Exited && l.partitions.Has(e.ID)))
}

func (e containerFetched) apply(l *Loop) {
	isNew := l.inventory.Objects().Container(e.ID) == nil
	if !l.inventory.PutContainer(e.ContainerStatus) {
		if e.Err != nil && !errors.Is(e.Err, cri.ErrNotFound) {
			l.log.Warn("read container", "container", e.ID, "error", e.Err) // the next listing tries again
		}
		return
	}
	if c := l.inventory.Objects().Container(e.ID); c != nil {
		if isNew {
			l.fetchEarlier(c)
		}
		if c.HasRecord(e.ContainerStatus) {
			l.cache.SetRecord(c.Path, c.Record())
		}
		if pod := c.Container.PodID; pod != "" && l.inventory.Objects().Pod(pod) == nil {
			l.fetchPod(pod) // the event did not contain its id
		}
	}
	l.notices.Removed.Fetched(e.ID)
}
