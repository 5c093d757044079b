package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// shutdownTimeout is the maximum time to remove the condition when the daemon stops.
const shutdownTimeout = 3 * time.Second

// maxPatchInterval is the maximum interval between patches of a node that changes often.
const maxPatchInterval = 4 * time.Second

// State is the desired state of the node in the cluster. A published value does not change.
type State struct {
	// Names holds the names of the resources.
	Names workload.Names
	// OnlyCondition limits changes of the Node to Condition: the other fields have no effect.
	OnlyCondition bool
	// Resources makes the Runner advertise Pools. Otherwise it removes all resources.
	Resources bool
	Pools     []capacity.Pool
	Pods      []Pod
	// Condition is the condition of the node; nil removes it.
	Condition *Condition
	// Heartbeat is the interval of writes of an unchanged condition; 0 disables them.
	Heartbeat time.Duration
	// Taint is the key of the startup taint; empty changes no taint. The Runner removes the
	// taint when Verified is set and Depletion is written.
	Taint    string
	Verified bool
	// Depletion describes the shared pool; nil changes nothing about depletion.
	Depletion *Depletion
	// Topology is the NodeResourceTopology object of the node; nil removes it.
	Topology *Topology
	// Problems become events of pods, and of the Node.
	Problems []Problem
}

// ConditionOnly returns a state with only the condition. It is for a daemon that does not
// enforce the configuration: resources, taints and objects may belong to another daemon. It
// has no events, because no request was refused.
func (s State) ConditionOnly() *State {
	s.OnlyCondition, s.Resources, s.Pools, s.Pods = true, false, nil, nil
	s.Taint, s.Depletion, s.Topology, s.Problems = "", nil, nil, nil
	return &s
}

// Condition is the state of the daemon.
type Condition struct {
	Ready bool
	// Reason is one word in CamelCase, Message a sentence.
	Reason, Message string
}

// Options configures a Runner.
type Options struct {
	// Name is the name of the Node.
	Name   string
	Access *Access
	// Record is the path of the kubelet's record: see [ReadRecord].
	Record string
	// Sys is sysfs. State.Topology needs it.
	Sys fs.FS
	// Topology makes Withdraw delete the NodeResourceTopology object.
	Topology bool
	// Version is the version of this program, for the log of the API server.
	Version string
	Limits  Limits
	Log     *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

func (o Options) client() client {
	return client{access: o.Access, agent: manager + "/" + o.Version, limits: o.Limits.withDefaults()}
}

// Runner publishes a node to its cluster.
type Runner struct {
	Options
	state      atomic.Pointer[State]
	wake       chan struct{} // holds a token when state has changed
	watched    chan watchedNode
	stats      atomic.Pointer[Stats]
	isWatching atomic.Bool // a watch is open

	// Only the goroutine of work uses the fields below.
	client         client
	node           *object // latest state; nil if it does not exist
	patchedVersion uint64  // version after the last own patch
	cache          recordCache
	reporter       *reporter
	counts         Stats
	patchInterval  time.Duration
	lastWanted     wanted // by the last patch, at lastPatch
	lastPatch      time.Time

	status, taint, depleted, events attempts

	topology      topologyState
	pressure      pressure
	resumed       bool // pressure has continued from the state of the Node
	taintChanged  time.Time
	taintInterval time.Duration // minimum interval between changes of the depletion taint
}

// New returns a Runner. Call Run to start it.
func New(o Options) *Runner {
	o.Limits = o.Limits.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Runner{
		Options: o, wake: make(chan struct{}, 1), watched: make(chan watchedNode), client: o.client(), reporter: &reporter{settle: o.Limits.Settle, reported: make(map[problemKey]*reportedProblem), tokens: eventBurst},
		counts:        Stats{NodeView: telemetry.NodeView{Patches: make(map[telemetry.Result]uint64), Events: make(map[telemetry.Result]uint64)}},
		patchInterval: o.Limits.Gap,
		status:        newAttempts("status", o.Limits),
		taint:         newAttempts("startup taint", o.Limits),
		depleted:      newAttempts("taint of depletion", o.Limits),
		events:        newAttempts("events", o.Limits),
		topology:      topologyState{attempts: newAttempts("NodeResourceTopology", o.Limits)},
		taintInterval: o.Limits.Gap,
	}
	r.stats.Store(&Stats{})
	return r
}

// Show replaces the desired state. It does not wait.
func (r *Runner) Show(s *State) {
	r.state.Store(s)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes the desired state until ctx ends. Then it removes the condition, not the resources.
func (r *Runner) Run(ctx context.Context) {
	if !sleep(ctx, rand.N(r.Limits.Start)) {
		return
	}
	var watching sync.WaitGroup
	watching.Go(func() { r.watchNode(ctx) })
	r.work(ctx)
	watching.Wait()
}

// work processes new states, changes of the Node and due requests until ctx ends.
func (r *Runner) work(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next := r.step(ctx); !next.IsZero() {
			timer.Reset(max(next.Sub(r.Now()), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			r.removeCondition()
			r.withdrawTopologyAtExit()
			return
		case <-r.wake:
		case s := <-r.watched:
			r.noteNode(s)
		case <-timer.C:
		}
	}
}

// noteNode stores the Node, unless it is older than the own patch.
func (r *Runner) noteNode(s watchedNode) {
	switch {
	case s.node == nil:
		r.node, r.patchedVersion = nil, 0
	case s.isFirst || s.node.version() >= r.patchedVersion:
		r.node, r.patchedVersion = s.node, 0
	}
}

// step sends the due requests. It returns the time of the next one, or zero.
func (r *Runner) step(ctx context.Context) time.Time {
	state := r.state.Load()
	if state == nil || ctx.Err() != nil {
		return time.Time{}
	}
	now := r.Now()
	r.reporter.note(state.Problems, now)
	next := r.updatePressure(state.Depletion, now)
	want := r.wantedStatus(state)
	defer r.publish()
	shown := false
	next = earlier(next, r.attempt(ctx, &r.status, func(ctx context.Context) (next time.Time, err error) {
		shown, next, err = r.patchStatus(ctx, state, want)
		return next, err
	}))
	if state.OnlyCondition {
		return earlier(next, r.attempt(ctx, &r.events, r.writeEvent))
	}
	// Before the startup taint is removed: see canRemoveStartupTaint.
	next = earlier(next, r.attempt(ctx, &r.depleted, func(ctx context.Context) (time.Time, error) { return r.updateDepletionTaint(ctx, state.Depletion) }))
	if shown && state.Verified && r.canRemoveStartupTaint(state.Depletion) {
		next = earlier(next, r.attempt(ctx, &r.taint, func(ctx context.Context) (time.Time, error) { return r.removeStartupTaint(ctx, state.Taint) }))
	}
	next = earlier(next, r.attempt(ctx, &r.topology.attempts, func(ctx context.Context) (time.Time, error) { return r.showTopology(ctx, state.Topology) }))
	return earlier(next, r.attempt(ctx, &r.events, r.writeEvent))
}

func (r *Runner) wantedStatus(s *State) wanted {
	var w wanted
	record, err := r.cache.read(r.Record)
	if record == nil && err == nil {
		err = fmt.Errorf("no file %s; pods outside of management pools count as requesting their resource", r.Record)
	}
	if err == nil {
		r.cache.loggedError = ""
	} else if note := err.Error(); note != r.cache.loggedError {
		r.cache.loggedError = note
		r.Log.Warn("cannot read requests of pods from the kubelet's record", "error", err)
	}
	w.resources = make(map[string]int64)
	r.counts.Resources = nil
	if s.Resources {
		r.counts.Resources = Advertise(s.Pools, s.Pods, record)
		for _, a := range r.counts.Resources {
			w.resources[a.Name] = a.Milli
		}
	}
	if s.OnlyCondition {
		w.resources = nil
	}
	ready := wantedCondition{typ: ConditionType, heartbeat: s.Heartbeat}
	if c := s.Condition; c != nil {
		ready.condition = &condition{Status: "False", Reason: c.Reason, Message: layout.Clip(c.Message, maxMessage)}
		if c.Ready {
			ready.condition.Status = "True"
		}
	}
	w.conditions = append(w.conditions, ready)
	if d := s.Depletion; d != nil && !s.OnlyCondition {
		pressure := wantedCondition{typ: PressureType, heartbeat: s.Heartbeat}
		if d.Show {
			pressure.condition = r.pressure.condition(d)
		}
		if d.Show && r.pressure.depleted { // evictions depend on the age of the condition
			pressure.heartbeat = pressureHeartbeat
		}
		w.conditions = append(w.conditions, pressure)
	}
	return w
}

// patchStatus reports whether the Node is as wanted, and the time of the next check.
func (r *Runner) patchStatus(ctx context.Context, s *State, want wanted) (shown bool, next time.Time, err error) {
	if r.node == nil {
		return false, time.Time{}, nil
	}
	now := r.Now()
	patch := r.node.statusPatch(want, s.Names, now)
	if patch == nil {
		return true, r.node.conditionsDue(want), nil
	}
	if earliest := r.lastPatch.Add(r.patchInterval); now.Before(earliest) {
		return false, earliest, nil
	}
	r.adjustPatchInterval(want, now)
	if err := r.patch(ctx, "/status", strategicPatch, patch); err != nil {
		r.patchInterval, r.lastPatch = r.Limits.Gap, time.Time{} // the pause after the failure replaces the interval
		return false, time.Time{}, err
	}
	return true, r.Now().Add(r.patchInterval), nil
}

func (r *Runner) removeStartupTaint(ctx context.Context, key string) (time.Time, error) {
	if r.node == nil || key == "" { // the patch of the status may have answered 404
		return time.Time{}, nil
	}
	patch := r.node.taintsPatch(func(t taint) bool { return t.Key != key }, nil)
	if patch == nil {
		return time.Time{}, nil
	}
	if err := r.patch(ctx, "", mergePatch, patch); err != nil || r.node == nil {
		return time.Time{}, err
	}
	r.Log.Info("startup taint removed", "node", r.Name, "taint", key)
	r.taint.due = r.Now().Add(r.Limits.Gap) // another client may add it repeatedly
	return r.taint.due, nil
}

// adjustPatchInterval doubles the interval while each interval needs a patch. The limit is higher
// for repeated patches, because another client reverts them.
func (r *Runner) adjustPatchInterval(want wanted, now time.Time) {
	limit := maxPatchInterval
	if reflect.DeepEqual(want, r.lastWanted) {
		limit = maxPause
	}
	if now.Sub(r.lastPatch) < 4*r.patchInterval {
		r.patchInterval = min(2*r.patchInterval, max(limit, r.patchInterval))
	} else {
		r.patchInterval = r.Limits.Gap
	}
	r.lastWanted, r.lastPatch = want, now
}

func (r *Runner) patch(ctx context.Context, subresource, kind string, patch []byte) error {
	result := new(object)
	err := r.client.call(ctx, "PATCH", path(r.Name, subresource), kind, patch, result)
	switch {
	case err == nil:
		r.counts.Patches[telemetry.OK]++
		r.node, r.patchedVersion = result, result.version()
		r.Log.Debug("node patched", "node", r.Name, "patch", string(patch))
		return nil
	case isStatus(err, 404):
		// The Node was deleted, and the watch has not reported it yet.
		r.counts.Patches[telemetry.Failed]++
		r.node, r.patchedVersion = nil, 0
		return nil
	case isStatus(err, 409):
		// The watch reports the change.
		r.counts.Patches[telemetry.Conflict]++
	default:
		r.counts.Patches[telemetry.Failed]++
	}
	return fmt.Errorf("patch node %s: %w", r.Name, err)
}

// writeEvent writes one event at a time: with a slow API server the resources must not wait.
func (r *Runner) writeEvent(ctx context.Context) (time.Time, error) {
	now := r.Now()
	next, later := r.reporter.due(now)
	if next == nil {
		return later, nil
	}
	name, err := r.client.writeEvent(ctx, next, r.Name, now)
	status, answered := errors.AsType[*statusError](err)
	switch {
	case err == nil:
		r.counts.Events[telemetry.OK]++
	case answered && status.isFinal():
		// A retry fails too: the namespace is being deleted, or events are forbidden.
		r.Log.Debug("API server refuses event", "pod", next.Namespace+"/"+next.Pod, "error", err)
		r.counts.Events[telemetry.Failed]++
		name = ""
	default:
		r.counts.Events[telemetry.Failed]++
		return time.Time{}, fmt.Errorf("write event of pod %s/%s: %w", next.Namespace, next.Pod, err)
	}
	r.reporter.noteWritten(next, name, now)
	return now, nil
}

// removeCondition removes the condition, also the one of a request without an answer.
func (r *Runner) removeCondition() {
	wasWanted := func(c wantedCondition) bool { return c.typ == ConditionType && c.condition != nil }
	if r.node == nil || r.node.condition(ConditionType) == nil && !slices.ContainsFunc(r.lastWanted.conditions, wasWanted) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	patch := encode(map[string]any{"status": map[string]any{"conditions": []any{map[string]string{"$patch": "delete", "type": ConditionType}}}})
	if err := r.patch(ctx, "/status", strategicPatch, patch); err != nil {
		r.Log.Warn("cannot remove condition of node", "node", r.Name, "condition", ConditionType, "error", err)
	}
}
