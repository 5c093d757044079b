package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
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
func (l *loop) submit(w cgroup.Write, refused *cpuset.Set) {
	l.tree.Submitted(w)
	l.Seals.Submit(string(w.Path), func(ctx context.Context) actor.Event {
		ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
		defer cancel()
		if !refused.IsEmpty() {
			// That it has none is no better: from kernel 7.0 on it would clear the file.
			if u := hostenv.UnitState(ctx, l.Units, w.Path); !u.Known || !u.CPUs.Equal(*refused) {
				return written{write: w, unit: u, unmade: true}
			}
		}
		err := l.Seal(ctx, w)
		if cpus, ok := kernelstate.SealValue(w); ok && err != nil {
			*refused = cpus
		}
		return written{write: w, unit: hostenv.UnitState(ctx, l.Units, w.Path), err: err}
	})
}

func (l *loop) onWritten(e written) {
	now := time.Now()
	if l.model.Awaited(cgroup.Target{Container: e.write.Container}) {
		e.unit = cgroup.UnitState{} // of a scope that is being made
	}
	if _, seals := kernelstate.SealValue(e.write); seals {
		l.exposures.told(e.write.Path, false)
	}
	l.tree.Finished(e.write, e.unit, e.err)
	if e.unmade {
		return
	}
	l.count(e.write, e.err)
	switch {
	case e.err == nil:
		l.bench.Succeed(e.write, now)
		if e.write.Via == cgroup.CRI {
			delete(l.promises.broken, e.write.Container)
			if c := l.model.Containers[e.write.Container]; c != nil && c.Container.State == cri.Created {
				c.FoundBy(telemetry.WaySpec)
			}
		}
	case hostenv.IsGone(e.err):
		l.vanish(e.write.Path)
		l.bench.Refuse(e.write, e.err, now) // in case that only its recorder is gone
	default:
		l.bench.Refuse(e.write, e.err, now)
	}
}
