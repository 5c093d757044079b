package refusal

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// StopRetryDelay is the delay after a failed stop of a refused container.
const StopRetryDelay = 5 * time.Second

// decideStops decides once about each started instance whether it must stop, and returns
// refused ones. A later reload or resize never stops a container, and neither does a daemon
// that has not seen its creation: the container may have begun its work. The kubelet restarts
// stopped containers with growing delays.
func (r *Log) decideStops(p pools.Plan, fail bool, now time.Time) (toStop []Key) {
	for pod, c := range p.Containers() {
		e := r.inventory.Container(c.ID)
		if e == nil || c.State != pools.Running {
			continue
		}
		key := Key{pools.Key{PodUID: pod.UID, Container: c.Name}, c.ID}
		final := c.Reason.Code != pools.CodeWaiting || r.hints.IsOverdue(key.Key, now)
		if e.DecideStop(final, fail && c.Refused != nil, now) {
			r.setStopped(key, true)
			r.log.Warn("stopping refused container", "pod", r.current[key].Pod, "container", c.Name, "container_id", c.ID)
			toStop = append(toStop, key)
		}
	}
	return toStop
}

// NextStop calls earlier with the times at which failed stops are due again.
func (r *Log) NextStop(earlier func(time.Time)) {
	for e := range r.inventory.Containers() {
		if at, toStop := e.NextStop(); toStop {
			earlier(at)
		}
	}
}

// NoteStop records the result of stopping a refused container. After an error Note returns
// the container again when StopRetryDelay is over.
func (r *Log) NoteStop(k Key, err error, now time.Time) {
	if e := r.inventory.Container(k.ID); e != nil {
		e.NoteStop(err, now.Add(StopRetryDelay))
	}
	if err != nil {
		r.log.Error("refused container is not stopped; it runs in the shared pool until the next try", "container_id", k.ID, "error", err)
		r.setStopped(k, false)
	}
}

func (r *Log) setStopped(k Key, is bool) {
	if x, known := r.current[k]; known {
		x.Stopped = is
		r.current[k] = x
	}
}
