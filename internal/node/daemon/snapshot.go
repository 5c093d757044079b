package daemon

import (
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/auditor"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// publishSnapshot replaces the state that operators see.
func (l *Loop) publishSnapshot(v *telemetry.View) {
	l.latest.Store(&view.Snapshot{
		View: v, History: l.historyLog.Snapshot(), Settings: l.settings, Plan: l.status.plan, Input: l.status.input, Targets: l.status.targets, Auxiliary: l.status.auxiliary, Planned: l.status.planned,
		Deferred: l.status.deferred, Faults: l.status.faults, Problems: l.status.problems, Began: l.status.began,
		Config: l.status.configErr, Observes: l.Observes, Owed: len(l.status.unwritten), System: l.others.SystemPartition(l.inventory),
	})
}

// newAnswers returns the answers for the control socket.
func (l *Loop) newAnswers(o Options) *view.Answers {
	return view.NewAnswers(l.latest.Load, l.Cgroups, o.Build, o.ConfigFile, o.Environment.NodeName)
}

// noteAt adds an event of a cgroup to the history.
func (l *Loop) noteAt(at cgroup.Path, e history.Event) { l.historyLog.AddAt(l.inventory, at, e) }

// node returns the state from which cluster and metrics derive their values.
func (l *Loop) node() view.Node {
	return view.Node{Settings: &l.settings, Plan: &l.status.plan, Planned: l.status.planned, Inventory: l.inventory, Lost: l.partitions.Lost()}
}

// noteProblem adds the begin or the end of a problem to the history.
func (l *Loop) noteProblem(kind history.Kind, key problemKey, text string) {
	l.historyLog.Add(history.Event{Kind: kind, Pod: key.pod, PodUID: key.uid, Container: key.container, Unit: key.unit, Code: string(key.code), Cause: text})
}

// showAudit passes the owners of CPUs after a pass to the auditor.
func (l *Loop) showAudit() {
	s := auditor.Scene{Interval: l.settings.Config.AuditInterval}
	if s.Interval > 0 {
		s.Ownership = l.settings.Ownership(l.status.plan, l.inventory, l.units.Hosts(), l.status.auxiliary)
	}
	l.auditor.Show(s)
}
