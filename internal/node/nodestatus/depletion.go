package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// PressureType is the type of the condition of a depleted shared pool. No kubelet sets it.
const PressureType = "NodeCPUPressure"

// EvictValue is the value of the depletion taint if pods may be evicted.
const EvictValue = "evict"

// pressureHeartbeat is the interval while depleted: the evictor ignores an older condition.
const pressureHeartbeat = 5 * time.Minute

// Reasons of the condition.
const (
	reasonDepleted   = "SharedPoolDepleted"
	reasonSufficient = "SharedPoolSufficient"
)

// Depletion holds the size of the shared pool and the configured reactions to its depletion.
type Depletion struct {
	// CPUs is the size of the pool. The pool is depleted below Floor.
	CPUs, Floor int
	// ClearAfter is the time with enough CPUs after which the pool is no longer depleted.
	ClearAfter time.Duration
	// Show makes the Runner write the condition and, on depletion, the taint. Evict makes the
	// taint permit evictions.
	Show, Evict bool
}

type pressure struct {
	depleted        bool
	sufficientSince time.Time // when a depleted pool got enough CPUs again; zero otherwise
}

// next returns the state after an observation. Too few CPUs count immediately, enough CPUs after
// ClearAfter. The time is the end of ClearAfter, or zero.
func (p pressure) next(d *Depletion, now time.Time) (pressure, time.Time) {
	switch {
	case d.CPUs < d.Floor:
		return pressure{depleted: true}, time.Time{}
	case !p.depleted:
		return pressure{}, time.Time{}
	case p.sufficientSince.IsZero():
		p.sufficientSince = now
	}
	if over := p.sufficientSince.Add(d.ClearAfter); now.Before(over) {
		return p, over
	}
	return pressure{}, time.Time{}
}

// condition returns the condition without its times.
func (p pressure) condition(d *Depletion) *condition {
	switch {
	case !p.depleted:
		return &condition{Status: "False", Reason: reasonSufficient, Message: fmt.Sprintf("the shared pool has at least %d CPUs (depletion.floor)", d.Floor)}
	case p.sufficientSince.IsZero():
		return &condition{Status: "True", Reason: reasonDepleted, Message: fmt.Sprintf("the shared pool has %d CPUs, and should have %d (depletion.floor)", d.CPUs, d.Floor)}
	default:
		return &condition{Status: "True", Reason: reasonDepleted, Message: fmt.Sprintf(
			"the shared pool has its %d CPUs again (depletion.floor), and must keep them for %s (depletion.clearAfter)", d.Floor, d.ClearAfter)}
	}
}

// underPressure reports whether the Node shows depletion. A new daemon continues from it.
func (o *object) underPressure() bool {
	if c := o.condition(PressureType); c != nil && c.Status == "True" {
		return true
	}
	return slices.ContainsFunc(o.Spec.Taints, func(raw json.RawMessage) bool { return parseTaint(raw).Key == workload.DepletedTaint })
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// parseTaint reads a taint. If raw is not a taint, the result has no key.
func parseTaint(raw json.RawMessage) taint {
	var t taint
	if json.Unmarshal(raw, &t) != nil {
		return taint{}
	}
	return t
}

// wantedTaint returns the desired depletion taint, or nil.
func (p pressure) wantedTaint(d *Depletion) *taint {
	if !d.Show || !p.depleted {
		return nil
	}
	t := &taint{Key: workload.DepletedTaint, Effect: "NoSchedule"}
	if d.Evict {
		t.Value = EvictValue
	}
	return t
}

// updatePressure applies the size of the pool. It returns the time of the next update, or zero.
func (r *Runner) updatePressure(d *Depletion, now time.Time) time.Time {
	if d == nil {
		r.pressure, r.counts.Pressure = pressure{}, false
		return time.Time{}
	}
	if r.node != nil && !r.resumed {
		r.resumed = true
		if d.Show && !r.pressure.depleted && r.node.underPressure() {
			r.pressure = pressure{depleted: true, sufficientSince: now}
		}
	}
	was := r.pressure.depleted
	is, next := r.pressure.next(d, now)
	switch {
	case is.depleted && !was:
		r.Log.Warn("shared pool is depleted", "node", r.Name, "cpus", d.CPUs, "floor", d.Floor, "shown", d.Show)
	case was && !is.depleted:
		r.Log.Info("shared pool is no longer depleted", "node", r.Name, "cpus", d.CPUs, "floor", d.Floor)
	}
	r.pressure, r.counts.Pressure = is, is.depleted
	return next
}

func (r *Runner) updateDepletionTaint(ctx context.Context, d *Depletion) (time.Time, error) {
	if r.node == nil || d == nil {
		return time.Time{}, nil
	}
	patch := r.node.depletionTaintPatch(r.pressure.wantedTaint(d))
	if patch == nil {
		return time.Time{}, nil
	}
	now := r.Now()
	if earliest := r.taintChanged.Add(r.taintInterval); now.Before(earliest) {
		return earliest, nil
	}
	// Another client may revert each change. The interval then doubles.
	if now.Sub(r.taintChanged) < 4*r.taintInterval {
		r.taintInterval = min(2*r.taintInterval, maxPause)
	} else {
		r.taintInterval = r.Limits.Gap
	}
	if err := r.patch(ctx, "", mergePatch, patch); err != nil || r.node == nil {
		return time.Time{}, err
	}
	r.taintChanged = now
	r.Log.Info("taint of depletion changed", "node", r.Name, "taint", workload.DepletedTaint, "depleted", r.pressure.depleted)
	return time.Time{}, nil
}

// canRemoveStartupTaint reports whether the depletion taint is set, or refused for good. Until then
// the startup taint keeps pods without a CPU request away from a depleted node.
func (r *Runner) canRemoveStartupTaint(d *Depletion) bool {
	if r.node == nil || d == nil {
		return true
	}
	want := r.pressure.wantedTaint(d)
	if want == nil || r.node.depletionTaintPatch(want) == nil {
		return true
	}
	refused, answered := errors.AsType[*statusError](r.depleted.err)
	return answered && refused.isFinal()
}

// depletionTaintPatch returns the merge patch that sets the depletion taint, or nil.
func (o *object) depletionTaintPatch(want *taint) []byte {
	var have []taint
	for _, raw := range o.Spec.Taints {
		if t := parseTaint(raw); t.Key == workload.DepletedTaint {
			have = append(have, t)
		}
	}
	if want == nil && len(have) == 0 || want != nil && slices.Equal(have, []taint{*want}) {
		return nil
	}
	return o.taintsPatch(func(t taint) bool { return t.Key != workload.DepletedTaint }, want)
}
