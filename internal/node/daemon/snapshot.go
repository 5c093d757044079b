package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func (l *Loop) publishSnapshot(v *telemetry.View) {
	l.latest.Store(&view.Snapshot{
		View: v, History: l.historyLog.Log.Snapshot(), Settings: l.settings, Plan: l.status.plan, Input: l.status.input, Targets: l.status.targets, Planned: l.status.planned,
		Deferred: l.status.deferred, Faults: l.status.faults, Problems: l.status.problems, Began: l.status.began,
		Config: l.status.configErr, Observes: l.Observes, Owed: len(l.status.unwritten),
	})
}

func (l *Loop) newObserver(o Options) *view.Answers {
	return &view.Answers{Last: l.latest.Load, Kernel: func(p cgroup.Path) *inspect.Kernel { return view.KernelOf(&l.Host, p) }, Build: o.Build, StartedValue: time.Now().UTC(), File: o.ConfigFile, Node: o.Environment.NodeName}
}

// noteAt notes an event of a cgroup, and whose that is.
func (l *Loop) noteAt(at cgroup.Path, e history.Event) {
	e.Cgroup = string(at)
	if e.Container == "" {
		l.nameAt(at, &e)
	}
	l.historyLog.Add(e)
}

// nameAt names who is in a cgroup.
func (l *Loop) nameAt(at cgroup.Path, e *history.Event) {
	if c := l.inventory.ContainerAt(at); c != nil {
		e.Container = c.Container.Name
		if pod := l.inventory.PodOf(c); pod != nil {
			e.Pod, e.PodUID = pod.Name(), pod.UID
		}
		return
	}
	if pod := l.inventory.PodAt(at); pod != nil {
		e.Pod, e.PodUID = pod.Name(), pod.UID
		if pod.Pause == at {
			e.Container = inventory.InfraName
		}
		return
	}
	e.Unit = l.inventory.UnitAt(at)
}

// noteWrite notes a write and how it ended.
func (l *Loop) noteWrite(w cgroup.Write, err error) {
	e := history.Event{Kind: history.Wrote, Via: string(w.Via), Property: w.Property, Value: w.Value, Cause: w.Reason}
	switch {
	case err == nil:
	case hostenv.IsGone(err):
		e.Kind, e.Error = history.Missed, err.Error()
	default:
		e.Kind, e.Error = history.Failed, err.Error()
	}
	l.noteAt(w.Path, e)
}

// noteProblem notes that something is not honoured, or is again.
func (l *Loop) noteProblem(kind history.Kind, key problemKey, text string) {
	l.historyLog.Add(history.Event{Kind: kind, Pod: key.pod, PodUID: key.uid, Container: key.container, Unit: key.unit, Code: string(key.code), Cause: text})
}

// noteMove notes what an operator has asked for.
func (l *Loop) noteMove(m *moveRequest, err error) {
	e := history.Event{Kind: history.Move, PodUID: m.PodUID, Container: m.Container, Before: m.From.String(), Value: m.To.String(), Cause: "asked for on the control socket"}
	if m.PodUID == "" {
		e.Unit, e.Container = e.Container, ""
	}
	for pod := range l.inventory.Pods() {
		if pod.UID == m.PodUID {
			e.Pod = pod.Name()
		}
	}
	if err != nil {
		e.Error = err.Error()
	}
	l.historyLog.Add(e)
}
