package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// farewell is how long the end of the daemon may take for the condition to go.
const farewell = 3 * time.Second

// maxGap is how late a busy node's resources are patched.
const maxGap = 4 * time.Second

// State is what the daemon wants to be seen of the node. It is not changed once shown.
type State struct {
	// Names are those of the resources.
	Names workload.Names
	// OnlyCondition leaves all of the Node as it is but Condition; nothing else of what
	// would change it counts then.
	OnlyCondition bool
	// Resources says that Pools are advertised; else all resources are withdrawn.
	Resources bool
	Pools     []Pool
	Pods      []Pod
	// Condition is the node's condition; nil shows none.
	Condition *Condition
	// Heartbeat is how often the condition is written while it does not change; never
	// where it is zero.
	Heartbeat time.Duration
	// Taint is the key of the startup taint, which goes as soon as Verified and
	// Depletion is shown; empty leaves all taints alone.
	Taint    string
	Verified bool
	// Depletion is of the shared pool; nil leaves what is shown of it as it is.
	Depletion *Depletion
	// Topology is the node's NodeResourceTopology object; nil shows none.
	Topology *Topology
	// Problems become events of pods, and of the Node.
	Problems []Problem
}

// ConditionOnly returns the state of a node on which another daemon enforces the
// configuration, or none: Condition is shown. Resources, taints and objects stay as they
// are, and no event is written, since no request was refused.
func (s State) ConditionOnly() *State {
	s.OnlyCondition, s.Resources, s.Pools, s.Pods = true, false, nil, nil
	s.Taint, s.Depletion, s.Topology, s.Problems = "", nil, nil, nil
	return &s
}

// Condition is how the daemon fares.
type Condition struct {
	Ready bool
	// Reason is one word in CamelCase, Message a sentence.
	Reason, Message string
}

// Options are what a Runner needs.
type Options struct {
	// Name is that of the Node.
	Name   string
	Access *Access
	// Record is the kubelet's record: see [ReadRecord].
	Record string
	// Sys is sysfs, for State.Topology.
	Sys fs.FS
	// Topology says that there may be one to withdraw.
	Topology bool
	// Version is the program's, for the API server's log.
	Version string
	Limits  Limits
	Log     *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

func (o Options) client() client {
	return client{access: o.Access, agent: manager + "/" + o.Version, limits: o.Limits.orDefault()}
}

// Runner shows a node to its cluster.
type Runner struct {
	Options
	state  atomic.Pointer[State]
	wake   chan struct{} // holds a token when state has changed
	seen   chan seen
	stats  atomic.Pointer[Stats]
	linked atomic.Bool // there is a watch

	// What follows is of the goroutine of work alone.
	client   client
	node     *object // as it was last seen; nil when there is none
	newest   uint64  // the version that our last patch has made
	cache    recordCache
	reporter *reporter
	counts   Stats
	gap      time.Duration
	asked    wanted // by the last patch, which was at
	patched  time.Time

	status, taint, depleted, events attempts

	topology topologies
	pressure pressure
	resumed  bool // pressure has gone on from what the Node showed
	tainted  time.Time
	taintGap time.Duration // until the next change of the taint of depletion
}

// New makes a Runner; Run makes it work.
func New(o Options) *Runner {
	o.Limits = o.Limits.orDefault()
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Runner{
		Options: o, wake: make(chan struct{}, 1), seen: make(chan seen), client: o.client(), reporter: newReporter(o.Limits.Settle),
		counts:   Stats{Patches: make(map[Result]uint64), Events: make(map[Result]uint64)},
		gap:      o.Limits.Gap,
		status:   newAttempts("status", o.Limits),
		taint:    newAttempts("startup taint", o.Limits),
		depleted: newAttempts("taint of depletion", o.Limits),
		events:   newAttempts("events", o.Limits),
		topology: topologies{attempts: newAttempts("NodeResourceTopology", o.Limits)},
		taintGap: o.Limits.Gap,
	}
	r.stats.Store(&Stats{})
	return r
}

// Show hands over what is to be seen from now on. It never waits.
func (r *Runner) Show(s *State) {
	r.state.Store(s)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and then takes the node's condition back; the resources
// stay, as the pods that they count do.
func (r *Runner) Run(ctx context.Context) {
	if !sleep(ctx, rand.N(r.Limits.Start)) {
		return
	}
	var watching sync.WaitGroup
	watching.Go(func() { r.follow(ctx) })
	r.work(ctx)
	watching.Wait()
}

// work keeps the Node as wanted.
func (r *Runner) work(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next := r.step(ctx); !next.IsZero() {
			timer.Reset(max(next.Sub(r.Now()), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			r.leave()
			r.leaveTopology()
			return
		case <-r.wake:
		case s := <-r.seen:
			r.take(s)
		case <-timer.C:
		}
	}
}

// take notes what the watch tells, unless it is older than what our own patch has
// answered: it would be patched again for nothing.
func (r *Runner) take(s seen) {
	switch {
	case s.node == nil:
		r.node, r.newest = nil, 0
	case s.fresh || s.node.version() >= r.newest:
		r.node, r.newest = s.node, 0
	}
}

// step makes the requests that are due, and says when the next one is; zero stands
// for not before something happens.
func (r *Runner) step(ctx context.Context) time.Time {
	state := r.state.Load()
	if state == nil || ctx.Err() != nil {
		return time.Time{}
	}
	now := r.Now()
	r.reporter.note(state.Problems, now)
	next := r.press(state.Depletion, now)
	want := r.want(state)
	defer r.publish()
	shown := false
	next = sooner(next, r.attempt(ctx, &r.status, func(ctx context.Context) (next time.Time, err error) {
		shown, next, err = r.change(ctx, state, want)
		return next, err
	}))
	if state.OnlyCondition {
		return sooner(next, r.attempt(ctx, &r.events, r.tell))
	}
	// Before the startup taint goes, or pods would come in between: see depletionSettled.
	next = sooner(next, r.attempt(ctx, &r.depleted, func(ctx context.Context) (time.Time, error) { return r.taintDepleted(ctx, state.Depletion) }))
	if shown && state.Verified && r.depletionSettled(state.Depletion) {
		next = sooner(next, r.attempt(ctx, &r.taint, func(ctx context.Context) (time.Time, error) { return r.untaint(ctx, state.Taint) }))
	}
	next = sooner(next, r.attempt(ctx, &r.topology.attempts, func(ctx context.Context) (time.Time, error) { return r.showTopology(ctx, state.Topology) }))
	return sooner(next, r.attempt(ctx, &r.events, r.tell))
}

// want is what the status is to show.
func (r *Runner) want(s *State) wanted {
	var w wanted
	record, err := r.cache.read(r.Record)
	if record == nil && err == nil {
		err = fmt.Errorf("no %s; pods outside of management pools are taken to be counted", r.Record)
	}
	if err == nil {
		r.cache.told = ""
	} else if note := err.Error(); note != r.cache.told {
		r.cache.told = note
		r.Log.Warn("what pods ask for is not known from the kubelet", "error", err)
	}
	w.resources = make(map[string]int64)
	r.counts.Amounts = nil
	if s.Resources {
		r.counts.Amounts = Advertise(s.Pools, s.Pods, record)
		for _, a := range r.counts.Amounts {
			w.resources[a.Resource] = a.Milli
		}
	}
	if s.OnlyCondition {
		w.resources, w.keepPressure = nil, true
	}
	if c := s.Condition; c != nil {
		w.condition, w.heartbeat = &condition{Status: "False", Reason: c.Reason, Message: c.Message}, s.Heartbeat
		if c.Ready {
			w.condition.Status = "True"
		}
	}
	if d := s.Depletion; d == nil {
		w.keepPressure = true
	} else if d.Show {
		w.pressure = r.pressure.condition(d)
	}
	return w
}

// change patches the status of the Node where it is not as wanted, and says whether it
// is now. The time is when it is to be looked at again.
func (r *Runner) change(ctx context.Context, s *State, want wanted) (shown bool, next time.Time, err error) {
	if r.node == nil {
		return false, time.Time{}, nil
	}
	now := r.Now()
	patch := r.node.statusPatch(want, s.Names, now)
	if patch == nil {
		return true, r.node.conditionsDue(want), nil
	}
	if earliest := r.patched.Add(r.gap); now.Before(earliest) {
		return false, earliest, nil
	}
	r.pace(want, now)
	if err := r.patch(ctx, "/status", strategicPatch, patch); err != nil {
		r.gap, r.patched = r.Limits.Gap, time.Time{} // the pause after the failure is enough
		return false, time.Time{}, err
	}
	return true, r.Now().Add(r.gap), nil
}

// untaint removes the startup taint.
func (r *Runner) untaint(ctx context.Context, key string) (time.Time, error) {
	if r.node == nil { // the patch of the status has found out
		return time.Time{}, nil
	}
	patch := r.node.taintPatch(key) // of the version that there is now
	if patch == nil {
		return time.Time{}, nil
	}
	if err := r.patch(ctx, "", mergePatch, patch); err != nil || r.node == nil {
		return time.Time{}, err
	}
	r.Log.Info("startup taint removed", "node", r.Name, "taint", key)
	r.taint.due = r.Now().Add(r.Limits.Gap) // somebody may put it there again and again
	return r.taint.due, nil
}

// pace lets the gap between patches grow while there is always something to patch, and
// most of all while somebody undoes them.
func (r *Runner) pace(want wanted, now time.Time) {
	longest := maxGap
	if reflect.DeepEqual(want, r.asked) {
		longest = longestPause
	}
	if now.Sub(r.patched) < 4*r.gap {
		r.gap = min(2*r.gap, max(longest, r.gap))
	} else {
		r.gap = r.Limits.Gap
	}
	r.asked, r.patched = want, now
}

// patch makes one patch, and goes on from what it has made.
func (r *Runner) patch(ctx context.Context, subresource, kind string, patch []byte) error {
	err := r.client.connect()
	result := new(object)
	if err == nil {
		err = r.client.call(ctx, "PATCH", path(r.Name, subresource), kind, patch, result)
	}
	switch {
	case err == nil:
		r.counts.Patches[OK]++
		r.node, r.newest = result, result.version()
		r.Log.Debug("node patched", "node", r.Name, "patch", string(patch))
		return nil
	case isStatus(err, 404):
		// It is gone, and the watch has not told, or could not.
		r.counts.Patches[Failed]++
		r.node, r.newest = nil, 0
		return nil
	case isStatus(err, 409):
		// The watch tells of the change, if it has not yet.
		r.counts.Patches[Conflict]++
	default:
		r.counts.Patches[Failed]++
	}
	return fmt.Errorf("patch node %s: %w", r.Name, err)
}

// tell writes one event that is due. The next one waits for its turn: behind a slow API
// server the resources are not to come after all events.
func (r *Runner) tell(ctx context.Context) (time.Time, error) {
	now := r.Now()
	next, later := r.reporter.due(now)
	if next == nil {
		return later, nil
	}
	err := r.client.connect()
	var name string
	if err == nil {
		name, err = r.client.tell(ctx, next, r.Name, now)
	}
	status, answered := errors.AsType[*statusError](err)
	switch {
	case err == nil:
		r.counts.Events[OK]++
	case answered && (status.final() || status.Code == http.StatusConflict): // 409: it has been made already
		// The namespace ends, or events are forbidden: it is of no use to insist.
		r.Log.Debug("event is refused", "pod", next.Namespace+"/"+next.Pod, "error", err)
		r.counts.Events[Failed]++
		name = ""
	default:
		r.counts.Events[Failed]++
		return time.Time{}, fmt.Errorf("event of pod %s/%s: %w", next.Namespace, next.Pod, err)
	}
	r.reporter.spent(next, name, now)
	return now, nil
}

// leave takes the condition back, also one that was written by a request of which the
// answer has not come. Depletion does not end with the daemon.
func (r *Runner) leave() {
	if r.node == nil || r.node.condition(ConditionType) == nil && r.asked.condition == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	patch := encode(map[string]any{"status": map[string]any{"conditions": []any{noCondition(ConditionType)}}})
	if err := r.patch(ctx, "/status", strategicPatch, patch); err != nil {
		r.Log.Warn("the node's condition stays", "node", r.Name, "condition", ConditionType, "error", err)
	}
}
