package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// submit hands a write to a worker. Writes of one cgroup are made in order. The CPUs
// that its runtime has refused to record in this round are for its jobs alone: systemd
// must not be told a weight then, with which it would put others back.
func (l *loop) submit(w cgroup.Write, refused *cpuset.Set) {
	l.tree.submitted(w)
	l.seals.submit(string(w.Path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, updateTimeout)
		defer cancel()
		if !refused.IsEmpty() {
			// That it has none is no better: from kernel 7.0 on it would clear the file.
			if u := unitState(ctx, l.units, w.Path); !u.Known || !u.CPUs.Equal(*refused) {
				return written{write: w, unit: u, unmade: true}
			}
		}
		err := l.seal(ctx, w)
		if cpus, ok := sealValue(w); ok && err != nil {
			*refused = cpus
		}
		return written{write: w, unit: unitState(ctx, l.units, w.Path), err: err}
	})
}

// seal makes a write that takes its time; it runs in a worker.
func (h *host) seal(ctx context.Context, w cgroup.Write) error {
	switch w.Via {
	case cgroup.DBus:
		return h.units.Apply(ctx, w)
	case cgroup.File:
		return h.cgroups.Apply(w)
	}
	set, err := cpuset.Parse(w.Value)
	switch {
	case err != nil:
		return err
	case w.Property == cgroup.CRIMems:
		return h.runtime.UpdateMems(ctx, w.Container, set)
	}
	return h.runtime.UpdateCPUs(ctx, w.Container, set)
}

func (l *loop) onWritten(e written) {
	now := time.Now()
	if l.model.awaited(cgroup.Target{Container: e.write.Container}) {
		e.unit = cgroup.UnitState{} // of a scope that is being made
	}
	if _, seals := sealValue(e.write); seals {
		l.exposures.told(e.write.Path, false)
	}
	l.tree.finished(e.write, e.unit, e.err)
	if e.unmade {
		return
	}
	l.count(e.write, e.err)
	switch {
	case e.err == nil:
		l.bench.succeed(e.write, now)
		if e.write.Via == cgroup.CRI {
			delete(l.promises.broken, e.write.Container)
			if c := l.model.containers[e.write.Container]; c != nil && c.container.State == cri.Created {
				c.foundBy(telemetry.WaySpec)
			}
		}
	case isGone(e.err):
		l.vanish(e.write.Path)
		l.bench.refuse(e.write, e.err, now) // in case that only its recorder is gone
	default:
		l.bench.refuse(e.write, e.err, now)
	}
}
