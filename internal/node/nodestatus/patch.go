package nodestatus

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// ConditionType is the type of the node's condition.
const ConditionType = "CPUPoolsReady"

// rewording is how often a message may change of which the reason does not.
const rewording = 30 * time.Second

// maxMessage bounds the text of a condition and of an event (1 KiB in events.k8s.io).
const maxMessage = 1000

// wanted is what the status of the Node is to show.
type wanted struct {
	// resources are the extended resources, in thousandths; nil leaves all as they
	// are, an empty map withdraws all.
	resources map[string]int64
	// condition is the condition without its times; nil withdraws it.
	condition *condition
	// heartbeat is how old the condition may become; zero: as old as it likes.
	heartbeat time.Duration
	// pressure is the condition of depletion, likewise, unless that is to stay as it is.
	pressure     *condition
	keepPressure bool
}

// wantedCondition is a condition of a type, and how old it may become.
type wantedCondition struct {
	typ       string
	condition *condition
	heartbeat time.Duration
}

// conditions are those that the status shows or is not to show. Depletion is rare, and
// what is done about it may be grave: while there is any, it is always kept fresh.
func (w *wanted) conditions() []wantedCondition {
	all := []wantedCondition{{ConditionType, w.condition, w.heartbeat}}
	if w.keepPressure {
		return all
	}
	pressed := wantedCondition{PressureType, w.pressure, w.heartbeat}
	if w.pressure != nil && w.pressure.Status == "True" {
		pressed.heartbeat = pressureHeartbeat
	}
	return append(all, pressed)
}

// list is a part of a patch: values by key, nil deletes.
type list map[string]*string

// statusPatch is the strategic merge patch that makes the status as wanted, nil when
// it is.
func (o *object) statusPatch(want wanted, names workload.Names, now time.Time) []byte {
	status := make(map[string]any)
	if want.resources != nil {
		for field, is := range map[string]map[string]string{"capacity": o.Status.Capacity, "allocatable": o.Status.Allocatable} {
			if changes := o.resourceChanges(is, want.resources, names); len(changes) > 0 {
				status[field] = changes
			}
		}
	}
	var conditions []any
	for _, c := range want.conditions() {
		if change := o.conditionChange(c, now); change != nil {
			conditions = append(conditions, change)
		}
	}
	if conditions != nil {
		status["conditions"] = conditions
	}
	if len(status) == 0 {
		return nil
	}
	return encode(map[string]any{"status": status})
}

// resourceChanges compares quantities, not texts: the API server writes 4000 as 4k.
func (o *object) resourceChanges(is map[string]string, want map[string]int64, names workload.Names) list {
	changes := make(list)
	for name, milli := range want {
		have, there := is[name]
		if value, err := parseMilli(have); !there || err != nil || value != milli*1000 {
			text := strconv.FormatInt(milli, 10)
			changes[name] = &text
		}
	}
	for name := range is {
		if _, ok := want[name]; !ok && o.ours(name, names) {
			changes[name] = nil
		}
	}
	return changes
}

// ours says that a resource has been put here by this program: by its name, or because
// the API server has noted so, which tells those of another configured domain.
func (o *object) ours(name string, names workload.Names) bool {
	if _, cores := names.CoresType(name); cores || name == names.SharedResource() || name == names.GuaranteedResource() {
		return true
	}
	if !strings.Contains(name, "/") {
		return false
	}
	for _, m := range o.Metadata.ManagedFields {
		if m.Manager != manager {
			continue
		}
		if _, ok := m.Fields.Status.Capacity["f:"+name]; ok {
			return true
		}
		if _, ok := m.Fields.Status.Allocatable["f:"+name]; ok {
			return true
		}
	}
	return false
}

// conditionChange is the entry of a patch for a condition, nil for none.
func (o *object) conditionChange(want wantedCondition, now time.Time) any {
	is := o.condition(want.typ)
	if want.condition == nil {
		if is == nil {
			return nil
		}
		return noCondition(want.typ)
	}
	next := *want.condition
	next.Type, next.Heartbeat, next.Transition = want.typ, now.UTC().Truncate(time.Second), now.UTC().Truncate(time.Second)
	next.Message = clip(next.Message)
	if is != nil && is.Status == next.Status {
		next.Transition = is.Transition
		// A heartbeat of the future was written before somebody has set the clock.
		if limit, ages := next.mayAge(is, want.heartbeat); !ages || now.Sub(is.Heartbeat).Abs() < limit {
			return nil
		}
	}
	return next
}

// conditionsDue is when a condition that is as wanted for now is to be written again,
// zero for not before something happens.
func (o *object) conditionsDue(want wanted) (due time.Time) {
	for _, c := range want.conditions() {
		is := o.condition(c.typ)
		if c.condition == nil || is == nil {
			continue
		}
		next := *c.condition
		next.Message = clip(next.Message)
		if limit, ages := next.mayAge(is, c.heartbeat); ages {
			due = sooner(due, is.Heartbeat.Add(limit))
		}
	}
	return due
}

// mayAge says how old what there is of a condition may become, or that age is nothing
// to it.
func (c *condition) mayAge(is *condition, heartbeat time.Duration) (limit time.Duration, ages bool) {
	switch {
	case is.Status != c.Status || is.Reason != c.Reason:
		return 0, true
	case is.Message != c.Message:
		return rewording, true
	}
	return heartbeat, heartbeat > 0
}

// noCondition is the entry of a patch that deletes a condition.
func noCondition(typ string) map[string]string {
	return map[string]string{"$patch": "delete", "type": typ}
}

// taintPatch is the merge patch that removes the taint with this key, nil when there is
// none.
func (o *object) taintPatch(key string) []byte {
	if key == "" {
		return nil
	}
	return o.taintsPatch(func(t taint) bool { return t.Key != key }, nil)
}

// taintsPatch is the merge patch that removes the taints that are not to be kept and
// adds one, unless that is nil; nil when nothing changes. Taints have no merge key, so
// the patch has the list as it is to be, and fails when the Node has changed since (409).
func (o *object) taintsPatch(keep func(taint) bool, add *taint) []byte {
	kept := make([]any, 0, len(o.Spec.Taints)+1)
	for _, raw := range o.Spec.Taints {
		if keep(taintOf(raw)) {
			kept = append(kept, raw)
		}
	}
	if add == nil && len(kept) == len(o.Spec.Taints) {
		return nil
	}
	if add != nil {
		kept = append(kept, add)
	}
	return encode(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.Metadata.ResourceVersion},
		"spec":     map[string]any{"taints": kept},
	})
}

// encode writes what cannot fail to be written: maps, texts, and JSON that was read
// before.
func encode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}

// clip shortens a text to what the API takes.
func clip(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "…"
}
