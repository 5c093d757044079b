package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/quantity"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// ConditionType is the type of the condition that reports the state of the daemon.
const ConditionType = "CPUPoolsReady"

// messageInterval is the minimum interval between changes of a message with the same reason.
const messageInterval = 30 * time.Second

// maxMessage is the maximum length in bytes of a message or note (1 KiB in events.k8s.io).
const maxMessage = 1000

// wanted is the desired status of the Node.
type wanted struct {
	resources  map[string]int64  // thousandths of a CPU. nil changes no resource, an empty map removes all.
	conditions []wantedCondition // others keep their state
}

type wantedCondition struct {
	typ       string
	condition *condition    // without its times; nil removes it
	heartbeat time.Duration // maximum age; zero means no limit
}

// statusPatch returns the strategic merge patch of the status, or nil if nothing differs.
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
	for _, c := range want.conditions {
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

// resourceChanges returns the values to patch, nil to delete one. It compares quantities, because
// the API server writes 4000 as 4k.
func (o *object) resourceChanges(is map[string]string, want map[string]int64, names workload.Names) map[string]*string {
	changes := make(map[string]*string)
	for name, milli := range want {
		have, there := is[name]
		if value, err := quantity.Milli(have); !there || err != nil || value != milli*1000 {
			text := strconv.FormatInt(milli, 10)
			changes[name] = &text
		}
	}
	for name := range is {
		if _, ok := want[name]; !ok && o.isOwnResource(name, names) {
			changes[name] = nil
		}
	}
	return changes
}

// isOwnResource also checks managed fields: an earlier daemon may have had another domain.
func (o *object) isOwnResource(name string, names workload.Names) bool {
	written := func(m managedEntry) bool {
		_, capacity := m.Fields.Status.Capacity["f:"+name]
		_, allocatable := m.Fields.Status.Allocatable["f:"+name]
		return m.Manager == manager && (capacity || allocatable)
	}
	return names.IsPool(name) || strings.Contains(name, "/") && slices.ContainsFunc(o.Metadata.ManagedFields, written)
}

// conditionChange returns the entry of a patch for a condition, or nil.
func (o *object) conditionChange(want wantedCondition, now time.Time) any {
	is := o.condition(want.typ)
	switch {
	case want.condition == nil && is == nil:
		return nil
	case want.condition == nil:
		return map[string]string{"$patch": "delete", "type": want.typ}
	}
	next := *want.condition
	next.Type, next.Heartbeat, next.Transition = want.typ, now.UTC().Truncate(time.Second), now.UTC().Truncate(time.Second)
	if is != nil && is.Status == next.Status {
		next.Transition = is.Transition
		// A heartbeat in the future was written before the clock was set back.
		if limit, ages := next.maxAge(is, want.heartbeat); !ages || now.Sub(is.Heartbeat).Abs() < limit {
			return nil
		}
	}
	return next
}

// conditionsDue returns the time of the next write of a condition, or zero.
func (o *object) conditionsDue(want wanted) (due time.Time) {
	for _, c := range want.conditions {
		if is := o.condition(c.typ); c.condition != nil && is != nil {
			if limit, ages := c.condition.maxAge(is, c.heartbeat); ages {
				due = earlier(due, is.Heartbeat.Add(limit))
			}
		}
	}
	return due
}

// maxAge returns the maximum age of the condition is; ages is false if its age does not matter.
func (c *condition) maxAge(is *condition, heartbeat time.Duration) (limit time.Duration, ages bool) {
	switch {
	case is.Status != c.Status || is.Reason != c.Reason:
		return 0, true
	case is.Message != c.Message:
		return messageInterval, true
	}
	return heartbeat, heartbeat > 0
}

// taintsPatch replaces all taints, because they have no merge key. The resource version makes it
// fail if the Node has changed since (409). It returns nil without a change.
func (o *object) taintsPatch(keep func(taint) bool, add *taint) []byte {
	kept := make([]any, 0, len(o.Spec.Taints)+1)
	for _, raw := range o.Spec.Taints {
		if keep(parseTaint(raw)) {
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

// encode returns v as JSON, for values that always have an encoding.
func encode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}

// object holds the fields of a Node that the Runner uses.
type object struct {
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`

		ManagedFields []managedEntry `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		Taints []json.RawMessage `json:"taints"`
	} `json:"spec"`
	Status struct {
		Capacity    map[string]string `json:"capacity"`
		Allocatable map[string]string `json:"allocatable"`
		Conditions  []condition       `json:"conditions"`
	} `json:"status"`
}

type managedEntry struct {
	Manager string `json:"manager"`
	Fields  struct {
		Status struct {
			Capacity    map[string]json.RawMessage `json:"f:capacity"`
			Allocatable map[string]json.RawMessage `json:"f:allocatable"`
		} `json:"f:status"`
	} `json:"fieldsV1"`
}

type condition struct {
	Type       string    `json:"type"`
	Status     string    `json:"status"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	Heartbeat  time.Time `json:"lastHeartbeatTime"`
	Transition time.Time `json:"lastTransitionTime"`
}

// version returns the resource version, which grows (KEP-5504), or 0 if it is not a number.
func (o *object) version() uint64 {
	v, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// condition returns the condition of a type, or nil.
func (o *object) condition(typ string) *condition {
	i := slices.IndexFunc(o.Status.Conditions, func(c condition) bool { return c.Type == typ })
	if i < 0 {
		return nil
	}
	return &o.Status.Conditions[i]
}

// maxConflicts is the maximum number of attempts while the Node changes.
const maxConflicts = 5

// Withdraw removes everything that a Runner publishes: the resources, the conditions, the
// depletion taint and, with Options.Topology, the NodeResourceTopology object. It returns the
// names of the removed resources. A missing Node is no error.
func Withdraw(ctx context.Context, o Options, names workload.Names) ([]string, error) {
	c := o.client()
	if err := c.connect(); err != nil {
		return nil, err
	}
	var topology error // does not stop the removal of the others
	if o.Topology {
		topology = c.deleteTopology(ctx, o.Name)
	}
	withdrawn := make(map[string]bool)
	for tries := 1; ; tries++ {
		switch err := withdrawOnce(ctx, &c, o.Name, names, withdrawn); {
		case err == nil || isStatus(err, 404):
			return slices.Sorted(maps.Keys(withdrawn)), topology
		case !isStatus(err, 409) || tries == maxConflicts:
			return slices.Sorted(maps.Keys(withdrawn)), errors.Join(topology, err)
		}
	}
}

// withdrawOnce makes one attempt. It adds the removed resources to withdrawn.
func withdrawOnce(ctx context.Context, c *client, name string, names workload.Names, withdrawn map[string]bool) error {
	is := new(object)
	if err := c.call(ctx, "GET", path(name, ""), "", nil, is); err != nil {
		return err
	}
	ours := is.resourceChanges(is.Status.Capacity, nil, names)
	maps.Copy(ours, is.resourceChanges(is.Status.Allocatable, nil, names))
	nothing := wanted{resources: map[string]int64{}, conditions: []wantedCondition{{typ: ConditionType}, {typ: PressureType}}}
	if patch := is.statusPatch(nothing, names, time.Time{}); patch != nil {
		is = new(object)
		if err := c.call(ctx, "PATCH", path(name, "/status"), strategicPatch, patch, is); err != nil {
			return err
		}
	}
	for resource := range ours {
		withdrawn[resource] = true
	}
	patch := is.depletionTaintPatch(nil)
	if patch == nil {
		return nil
	}
	if err := c.call(ctx, "PATCH", path(name, ""), mergePatch, patch, nil); err != nil {
		return fmt.Errorf("remove taint %s: %w", workload.DepletedTaint, err)
	}
	return nil
}
