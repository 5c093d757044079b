package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// submit hands a write to a worker. Writes of one cgroup are made in order. The CPUs
// that its runtime has refused to record in this round are for its jobs alone: systemd
// must not be told a weight then, with which it would put others back.
func (l *Loop) submit(w cgroup.Write, refused *cpuset.Set) {
	l.cache.NoteSubmitted(w)
	l.workers.Updates.Submit(string(w.Path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
		defer cancel()
		if !refused.IsEmpty() {
			// That it has none is no better: from kernel 7.0 on it would clear the file.
			if u := hostenv.UnitState(ctx, l.Units, w.Path); !u.Known || !u.CPUs.Equal(*refused) {
				return written{write: w, unit: u, unmade: true}
			}
		}
		err := l.Record(ctx, w)
		if cpus, ok := kernelstate.PersistedCPUs(w); ok && err != nil {
			*refused = cpus
		}
		return written{write: w, unit: hostenv.UnitState(ctx, l.Units, w.Path), err: err}
	})
}

func (e written) scope(*Loop) scope { return oneUnless(e.err != nil || e.unmade) }

func (e written) apply(l *Loop) {
	now := l.now()
	if l.inventory.Awaited(cgroup.Target{Container: e.write.Container}) {
		e.unit = cgroup.UnitState{} // of a scope that is being made
	}
	if _, seals := kernelstate.PersistedCPUs(e.write); seals {
		l.exposureMeter.told(e.write.Path, false)
	}
	l.cache.NoteFinished(e.write, e.unit, e.err)
	if e.unmade {
		return
	}
	l.count(e.write, e.err)
	switch {
	case e.err == nil:
		l.backoffs.Succeed(e.write, now)
		if e.write.Via == cgroup.CRI {
			delete(l.pendingUpdates.broken, e.write.Container)
			if c := l.inventory.Container(e.write.Container); c != nil && c.Container.State == cri.Created {
				c.FoundBy(telemetry.WaySpec)
			}
		}
	case hostenv.IsGone(e.err):
		l.cgroupGone(e.write.Path)
		l.backoffs.Refuse(e.write, e.err, now) // in case that only its recorder is gone
	default:
		l.backoffs.Refuse(e.write, e.err, now)
	}
}

func (written) ownResult() {}
