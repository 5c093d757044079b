package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func (l *Loop) publishSnapshot(v *telemetry.View) {
	l.latest.Store(&view.Snapshot{
		View: v, History: l.historyLog.Log.Snapshot(), Settings: l.settings, Plan: l.status.plan, Input: l.status.input, Targets: l.status.targets, Planned: l.status.planned,
		Deferred: l.status.deferred, Faults: l.status.faults, Problems: l.status.problems, Began: l.status.began,
		Config: l.status.configErr, Observes: l.Observes, Owed: len(l.status.owed),
	})
}

func (l *Loop) newObserver(o Options) *view.Answers {
	return &view.Answers{Last: l.latest.Load, Kernel: func(p cgroup.Path) *inspect.Kernel { return view.KernelOf(&l.Host, p) }, Build: o.Build, StartedValue: time.Now().UTC(), File: o.ConfigFile, Node: o.Environment.NodeName}
}
