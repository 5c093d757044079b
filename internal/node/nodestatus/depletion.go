package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// PressureType is the type of the condition that says that the shared pool is depleted.
// No kubelet has one of this name; it is that of Kubernetes' own design.
const PressureType = "NodeCPUPressure"

// EvictValue is the value of the taint where pods may be evicted for it.
const EvictValue = "evict"

// pressureHeartbeat is how often the condition is written while the pool is depleted: who
// evicts pods for it must know it from one that a dead daemon has left.
const pressureHeartbeat = 5 * time.Minute

// Reasons of the condition.
const (
	reasonDepleted   = "SharedPoolDepleted"
	reasonSufficient = "SharedPoolSufficient"
)

// Depletion is what there is to know of the shared pool, and what is to be done when it
// is depleted.
type Depletion struct {
	// CPUs is how many the pool has, Floor with how many it is not depleted.
	CPUs, Floor int
	// ClearAfter is how long it must have had enough again.
	ClearAfter time.Duration
	// Show says that the Node gets the condition, and with depletion the taint; Evict
	// that the taint says that pods may be evicted.
	Show, Evict bool
}

// pressure is whether the shared pool counts as depleted.
type pressure struct {
	on bool
	// fine is since when it has had enough again; zero while it has not, or was never
	// depleted.
	fine time.Time
}

// next follows the size of the pool: too few CPUs count at once, enough of them after
// ClearAfter. The time is when that will be; zero stands for not before the size changes.
func (p pressure) next(d *Depletion, now time.Time) (pressure, time.Time) {
	switch {
	case d.CPUs < d.Floor:
		return pressure{on: true}, time.Time{}
	case !p.on:
		return pressure{}, time.Time{}
	case p.fine.IsZero():
		p.fine = now
	}
	if over := p.fine.Add(d.ClearAfter); now.Before(over) {
		return p, over
	}
	return pressure{}, time.Time{}
}

// condition is the condition without its times.
func (p pressure) condition(d *Depletion) *condition {
	switch {
	case !p.on:
		return &condition{Status: "False", Reason: reasonSufficient, Message: fmt.Sprintf("the shared pool has at least %d CPUs (depletion.floor)", d.Floor)}
	case p.fine.IsZero():
		return &condition{Status: "True", Reason: reasonDepleted, Message: fmt.Sprintf("the shared pool has %d CPUs, and should have %d (depletion.floor)", d.CPUs, d.Floor)}
	default:
		return &condition{Status: "True", Reason: reasonDepleted, Message: fmt.Sprintf(
			"the shared pool has its %d CPUs again (depletion.floor), and must keep them for %s (depletion.clearAfter)", d.Floor, d.ClearAfter)}
	}
}

// underPressure says that the Node shows depletion: a daemon that starts goes on from
// there.
func (o *object) underPressure() bool {
	if c := o.condition(PressureType); c != nil && c.Status == "True" {
		return true
	}
	for _, raw := range o.Spec.Taints {
		if taintOf(raw).Key == workload.DepletedTaint {
			return true
		}
	}
	return false
}

// taint is a taint of a Node.
type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// taintOf reads a taint; one that is none has no key.
func taintOf(raw json.RawMessage) taint {
	var t taint
	if json.Unmarshal(raw, &t) != nil {
		return taint{}
	}
	return t
}

// wantedTaint is the taint that there is to be, nil for none.
func (p pressure) wantedTaint(d *Depletion) *taint {
	if !d.Show || !p.on {
		return nil
	}
	t := &taint{Key: workload.DepletedTaint, Effect: "NoSchedule"}
	if d.Evict {
		t.Value = EvictValue
	}
	return t
}

// press follows the pool's size, and says when to look again.
func (r *Runner) press(d *Depletion, now time.Time) time.Time {
	if d == nil {
		r.pressure, r.counts.Pressure = pressure{}, false
		return time.Time{}
	}
	if r.node != nil && !r.resumed {
		r.resumed = true
		if d.Show && !r.pressure.on && r.node.underPressure() {
			r.pressure = pressure{on: true, fine: now}
		}
	}
	was := r.pressure.on
	is, next := r.pressure.next(d, now)
	switch {
	case is.on && !was:
		r.Log.Warn("shared pool is depleted", "node", r.Name, "cpus", d.CPUs, "floor", d.Floor, "shown", d.Show)
	case was && !is.on:
		r.Log.Info("shared pool is not depleted any more", "node", r.Name, "cpus", d.CPUs, "floor", d.Floor)
	}
	r.pressure, r.counts.Pressure = is, is.on
	return next
}

// taintDepleted puts the taint of depletion on the Node, or removes it.
func (r *Runner) taintDepleted(ctx context.Context, d *Depletion) (time.Time, error) {
	if r.node == nil || d == nil {
		return time.Time{}, nil
	}
	patch := r.node.depletedPatch(r.pressure.wantedTaint(d))
	if patch == nil {
		return time.Time{}, nil
	}
	now := r.Now()
	if earliest := r.tainted.Add(r.taintGap); now.Before(earliest) {
		return earliest, nil
	}
	// Who removes it each time, or puts it back, is answered more and more slowly.
	if now.Sub(r.tainted) < 4*r.taintGap {
		r.taintGap = min(2*r.taintGap, longestPause)
	} else {
		r.taintGap = r.Limits.Gap
	}
	if err := r.patch(ctx, "", mergePatch, patch); err != nil || r.node == nil {
		return time.Time{}, err
	}
	r.tainted = now
	r.Log.Info("taint of depletion changed", "node", r.Name, "taint", workload.DepletedTaint, "depleted", r.pressure.on)
	return time.Time{}, nil
}

// depletionSettled says that the startup taint may go: the Node, as it was last seen, has
// the taint of depletion that it should have, or the API server will never take it. As
// long as it may yet be written, pods without a CPU request are not to come before it.
func (r *Runner) depletionSettled(d *Depletion) bool {
	if r.node == nil || d == nil {
		return true
	}
	want := r.pressure.wantedTaint(d)
	if want == nil || r.node.depletedPatch(want) == nil {
		return true
	}
	refused, answered := errors.AsType[*statusError](r.depleted.err)
	return answered && refused.final()
}

// depletedPatch is the merge patch with which the Node has the taint of depletion as
// wanted, nil when it has.
func (o *object) depletedPatch(want *taint) []byte {
	as := false // it is there, as wanted
	patch := o.taintsPatch(func(t taint) bool {
		if t.Key != workload.DepletedTaint {
			return true
		}
		keep := want != nil && t == *want && !as
		as = as || keep
		return keep
	}, nil)
	if want == nil || as {
		return patch
	}
	return o.taintsPatch(func(t taint) bool { return t.Key != workload.DepletedTaint }, want)
}
