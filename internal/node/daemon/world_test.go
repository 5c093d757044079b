package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// world carries out the steps of a scenario on the fake node.
type world struct {
	*node
	r       *running
	live    *liveProgram // of the running daemon
	configs []string
	pods    *scenario.Pods
	seen    loopState // At the last rest.
	silent  bool      // The kubelet does not answer.
	checks  int
	moves   map[control.Outcome]int
	parted  int // Number of partitions that were seen.
	parked  int // Number of times that CPUs were parked.
	rested  int // Number of times that CPUs stayed out of the shared pool.
	alone   int // Containers that a partial pass would have placed.
	mixed   int // Containers with shared CPUs in addition to exclusive ones, where owners are partitions.

	mu    sync.Mutex            // Guards the fields below, which write reads.
	armed int                   // Writes until the daemon is killed; -1: it runs on.
	dead  chan struct{}         // Closed by the first write that is refused.
	cut   chan struct{}         // Closed when NRI is disconnected for that; nil before.
	known map[string]cpuset.Set // Exclusive CPUs, by the owner's cgroup.
	// shares are the shared CPUs of owners.
	shares map[string]cpuset.Set
	wrong  []error
}

// newWorld returns a world whose kernel has no partitions (0), safe ones (1), or partitions
// with defects that the configuration accepts (2).
func newWorld(t *testing.T, nri bool, partitions uint64) *world {
	runtime := testnode.RuntimeConfig{NRI: nri}
	n := newNodeWith(t, runtime)
	configs := modelConfigs()
	switch partitions {
	case 1:
		n = newPartitionNode(t, 7, 0, runtime)
	case 2:
		n = newPartitionNode(t, 6, 12, runtime)
	}
	if partitions > 0 {
		configs = scenario.Partitions(configs)
	}
	w := &world{node: n, configs: configs, armed: -1, moves: make(map[control.Outcome]int)}
	w.pods = scenario.NewPods(fakeRuntime{w.Runtime, w})
	w.Kubelet = nodefixture.NewKubelet()
	w.YAML = w.configs[0]
	w.RunHostServices()
	w.Units.Install("du.service", cpuset.Set{})
	w.Units.Install("telegraf.service", cpuset.Of(0, 1))
	w.Tree.Intercept(w.write)
	w.startDaemon()
	return w
}

// startDaemon starts a daemon with a live audit.
func (w *world) startDaemon() {
	w.r = w.start()
	live := w.r.watchLive(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = live
}

var errDead = errors.New("the daemon is dead")

// write is called before each write of the daemon to a file.
func (w *world) write(x testnode.CgroupWrite) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed == 0 {
		select {
		case <-w.dead:
		default:
			close(w.dead)
			cut := make(chan struct{})
			w.cut = cut
			go func() { // a killed daemon sends no reply
				defer close(cut)
				w.Runtime.NRIDown()
			}()
		}
		return errDead
	}
	if w.armed > 0 {
		w.armed--
	}
	if w.live != nil {
		_ = w.live.write(x)
	}
	dir, file := filepath.Split(x.Name)
	if file != "cpuset.cpus" {
		return nil
	}
	cpus, err := cpuset.Parse(x.Value)
	if err != nil || cpus.IsEmpty() {
		w.wrong = append(w.wrong, fmt.Errorf("write of %q to %s", x.Value, x.Name))
	}
	for path, held := range w.known {
		// Containers of one pod can share its CPUs from now on: Check knows whether they do.
		ofPod := cpus.Equal(held) && filepath.Dir(path) == filepath.Dir(filepath.Clean(dir))
		if path+"/" != dir && !ofPod && cpus.Overlaps(held) && w.holds(path, held) {
			w.wrong = append(w.wrong, fmt.Errorf("write of %s to %s: %s has %s for itself", x.Value, x.Name, path, held))
		}
	}
	return nil
}

// holds reports whether a cgroup exists and still has these CPUs.
func (w *world) holds(path string, cpus cpuset.Set) bool {
	b, err := w.Tree.ReadFile(path+"/cpuset.cpus", 1<<10)
	if err != nil {
		return false
	}
	has, err := cpuset.Parse(strings.TrimSpace(string(b)))
	return err == nil && has.Equal(cpus.Union(w.shares[path]))
}

// forgetShares is called before a step that may turn exclusive CPUs of an owner into shared
// ones of it, for which the owner's files do not change.
func (w *world) forgetShares(s scenario.Step) {
	switch s.Kind {
	case scenario.MoveOwner, scenario.ResizeContainer, scenario.Reload, scenario.PlugCPUs:
		w.mu.Lock()
		defer w.mu.Unlock()
		for path := range w.shares {
			delete(w.known, path)
		}
	}
}

// Do implements scenario.Node.
func (w *world) Do(s scenario.Step) error {
	if s.Kind == scenario.KillDaemon {
		w.mu.Lock()
		w.armed, w.dead = s.After, make(chan struct{})
		w.mu.Unlock()
		return nil
	}
	w.forgetShares(s)
	if err := w.act(s); err != nil {
		return err
	}
	w.mu.Lock()
	armed, dead := w.armed >= 0, w.dead
	w.mu.Unlock()
	if armed {
		if err := w.awaitIdleOrDeath(dead); err != nil {
			return err
		}
		w.r.stop()
		w.mu.Lock()
		w.armed = -1
		cut := w.cut
		w.cut = nil
		w.mu.Unlock()
		if cut != nil {
			<-cut
			if err := w.Runtime.NRIUp(); err != nil {
				return err
			}
		}
		w.startDaemon()
	}
	return w.awaitIdle()
}

// act carries out a step.
func (w *world) act(s scenario.Step) error {
	if s.Kind == scenario.RunPod && s.Of.Devices >= 0 {
		for _, name := range []string{"app-0", "app-1"} {
			w.Kubelet.Admit(s.Of.Namespace()+"/"+s.Pod+"/"+name, s.Of.Devices)
		}
	}
	if done, err := w.pods.Do(s); done || err != nil {
		return err
	}
	switch s.Kind {
	case scenario.Reload:
		w.forget()
		w.YAML = w.configs[s.Config]
		w.r.loop.watchers.reload()
	case scenario.RestartDaemon, scenario.LoseJournal:
		w.r.stop()
		if s.Kind == scenario.LoseJournal {
			if err := os.Remove(filepath.Join(w.Dir, "journal.json")); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
		w.startDaemon()
	case scenario.StartUnit:
		return w.Units.Start(s.Unit)
	case scenario.StopUnit:
		if w.UnitCPUs(s.Unit) != "" {
			return w.Units.Stop(s.Unit)
		}
	case scenario.ReloadSystemd:
		w.Units.Reload()
	case scenario.SilenceKubelet:
		w.Kubelet.Fail(errors.New("the kubelet restarts"))
		w.silent = true
	case scenario.UnsilenceKubelet:
		w.Kubelet.Fail(nil)
		w.silent = false
	case scenario.PlugCPUs:
		w.SetOnline(nodefixture.AllCPUsBut(s.Offline...))
	case scenario.MoveOwner:
		if m, ok := scenario.MoveOf(s, w.seen.plan, w.seen.pools); ok {
			return w.move(m)
		}
	case scenario.ForeignWrite:
		w.seen = w.inspect()
		if x, ok := scenario.WriteOf(s, w.seen.asPlanned, w.Topology.Possible); ok {
			return w.writeExternally(x)
		}
	}
	return nil
}

// move requests a move as an operator does. The daemon decides whether it is possible, but must
// refuse CPUs of other owners.
func (w *world) move(m scenario.Move) error {
	w.mu.Lock()
	armed, dead := w.armed >= 0, w.dead
	w.mu.Unlock()
	ctx, giveUp := context.WithTimeout(w.T.Context(), nodefixture.Timeout)
	defer giveUp()
	if armed {
		go func() {
			select {
			case <-dead:
				giveUp()
			case <-ctx.Done():
			}
		}()
	}
	outcome, err := requestMove(ctx, w.r.loop, control.Move{PodUID: m.Owner.PodUID, Container: m.Owner.Container, From: m.From, To: m.To})
	w.moves[outcome]++
	switch {
	case outcome == control.Refused:
		return nil // no owner has moved
	case m.Taken, outcome == control.Unverified && !armed:
		return fmt.Errorf("move %+v: %s, %w", m, outcome, err)
	}
	w.pods.Moved(m, outcome == control.Done)
	return nil
}

// fakeRuntime implements scenario.Runtime.
type fakeRuntime struct {
	*testnode.Runtime
	w *world
}

func (r fakeRuntime) CPUs(id string) (cpuset.Set, bool) {
	if r.Cgroup(id) == "" {
		return cpuset.Set{}, false
	}
	st := r.w.State(id)
	return st.Effective, st.Populated
}

// Resize allows the container to move, since it may request less.
func (r fakeRuntime) Resize(id string, to cri.Resources) error {
	r.w.mu.Lock()
	delete(r.w.known, r.Cgroup(id))
	r.w.mu.Unlock()
	return r.Runtime.Resize(id, to)
}

func (r fakeRuntime) UnitCPUs(name string) (cpuset.Set, bool) {
	cpus, err := cpuset.Parse(r.w.UnitCPUs(name))
	return cpus, err == nil && !cpus.IsEmpty()
}

// forget allows all owners to move.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = nil
}

// loopState is the state of the loop at the end of a pass.
type loopState struct {
	plan      pools.Plan
	pools     pools.Pools
	resting   bool
	busy      map[string]bool // reasons against rest
	journaled bool
	connected bool // the runtime's events are connected
	asPlanned []cgroup.Target
	cpus      *topology.Topology
}

// stateOf returns the state of a loop, with behind if other events wait to be handled.
func stateOf(l *Loop, behind bool) loopState {
	now := l.now()
	busy := map[string]bool{
		"handling events":     behind,
		"planning":            !l.last.Planned || !l.publisher.IsReady(),
		"faults":              l.publisher.Latest() != nil && len(l.publisher.Latest().Faults) > 0,
		"writing":             l.publisher.IsWorking(now),
		"asking systemd":      l.inventory.Objects().Units().HasUnnamed(l.settings.UnitNames()) || len(l.units.Leaving()) > 0,
		"bad configuration":   l.publisher.States.ConfigErr() != nil,
		"writing files":       !l.publisher.Files.Due().IsZero(),
		"reading":             l.cache.HasStale(),
		"watching cgroups":    l.notices.Tree.Watcher() == nil || len(l.notices.Tree.Wake()) > 0,
		"stopping containers": false,
	}
	busy["making partitions"] = l.partitions.Counts()["underway"] > 0 || slices.ContainsFunc(l.partitions.Problems(nil), func(p pools.Problem) bool {
		return p.Code == "NoPartition" || p.Code == "NoParking" && strings.HasPrefix(p.Text, "free CPUs")
	})
	for name := range l.journal.Originals.OfUnits() {
		if l.inventory.Objects().Units().ConfiguredAs(l.settings.UnitNames(), name) == "" {
			busy["reverting units"] = true
		}
	}
	for i := range l.last.Plan.Pods {
		for _, c := range l.last.Plan.Pods[i].Containers {
			key := pools.Key{PodUID: l.last.Plan.Pods[i].UID, Container: c.Name}
			if c.Reason.Code == pools.CodeWaiting && !l.planner.Hints.IsOverdue(key, now) {
				busy["asking the kubelet"] = true
			}
		}
	}
	for e := range l.inventory.Objects().Containers() {
		if e.IsUnconfirmed() {
			busy["waiting for the runtime to show what NRI has told of"] = true
		}
	}
	for e := range l.inventory.Objects().Containers() {
		if _, toStop := e.NextStop(); toStop {
			busy["stopping containers"] = true
		}
	}
	maps.DeleteFunc(busy, func(_ string, is bool) bool { return !is })
	resting := len(busy) == 0
	asPlanned := slices.DeleteFunc(slices.Clone(l.last.Targets), func(t cgroup.Target) bool {
		c := l.cache.Current(t.Path)
		return !c.Exists || cgroup.Verify(t, c.State) != nil
	})
	return loopState{busy: busy, asPlanned: asPlanned, plan: l.last.Plan, pools: l.settings.Pools, resting: resting, journaled: !l.journal.Pending(),
		connected: l.publisher.States.View(&l.Host, false)[telemetry.CRIEvents] == telemetry.SourceOK, cpus: l.settings.Topology}
}

// inspect returns the state that a pass has left. Events of the same batch may have changed
// facts and not yet the plan. So the errand posts another one, which is handled after the
// pass, and counts only if it is the first in its batch.
func (w *world) inspect() loopState {
	seen := make(chan loopState, 1)
	w.r.loop.box.Post(errand(func(l *Loop) {
		before := l.box.Take()
		for _, e := range before {
			l.box.Post(e)
		}
		l.box.Post(errand(func(l *Loop) { seen <- stateOf(l, len(before) > 0) }))
	}))
	select {
	case s := <-seen:
		return s
	case <-time.After(nodefixture.Timeout):
		return loopState{}
	}
}

// isIdle reports whether the daemon rests and has seen everything, now and after one more pass.
func (w *world) isIdle() bool {
	if w.seen = w.inspect(); !w.seen.connected {
		w.r.requestList()
	}
	if !w.seen.resting {
		return false
	}
	w.seen = w.inspect()
	return w.seen.resting && w.seen.cpus == w.CPUs.Now() && w.pods.Known(w.seen.plan) == nil
}

// awaitIdle waits until the daemon has nothing left to do and has seen everything.
func (w *world) awaitIdle() error {
	if err := w.checkPartitionMemory(); err != nil {
		return err
	}
	w.r.loop.box.Post(systemdReloaded{}) // external changes count, too
	return w.await("the daemon to rest", w.isIdle)
}

// checkPartitionMemory checks that the remembered state of partitions is right when all notices are
// handled.
func (w *world) checkPartitionMemory() error {
	if !w.Kernel.Remote {
		return nil
	}
	var why error
	if w.await("the daemon to know of partitions", func() bool {
		w.r.inspectOnly(func(l *Loop) { why = checkMemory(l) })
		return why == nil
	}) == nil {
		return nil
	}
	return why
}

// awaitIdleOrDeath is rest for a daemon that is about to be killed.
func (w *world) awaitIdleOrDeath(dead chan struct{}) error {
	return w.await("the daemon to rest or die", func() bool {
		select {
		case <-dead:
			return true
		default:
			return w.isIdle()
		}
	})
}

func (w *world) await(what string, cond func() bool) error {
	if !nodefixture.Within(nodefixture.Timeout, cond) {
		return errors.Join(fmt.Errorf("waited in vain for %s: %v", what, w.seen.busy), w.pods.Known(w.seen.plan))
	}
	return nil
}

// Check implements scenario.Node.
func (w *world) Check() error {
	w.mu.Lock()
	errs := w.wrong
	armed := w.armed >= 0
	w.mu.Unlock()
	if armed {
		return errors.Join(errs...) // the check after the next step counts
	}
	if w.checks++; w.checks%coldEvery == 0 && !w.silent { // a cold start needs the kubelet's answers, which the daemon has
		errs = append(errs, w.coldStart())
	}
	if !w.seen.plan.Resting.IsEmpty() {
		w.rested++
	}
	w.r.inspect(func(l *Loop) {
		alone, err := checkAlone(l)
		w.alone += alone
		errs = append(errs, err)
	})
	_, live := w.live.mark()
	errs = append(errs, live, w.awaitLive())
	exclusive, err := w.pods.Check(w.seen.plan, w.seen.pools)
	errs = append(errs, w.checkPartitions(exclusive))
	known, shares := make(map[string]cpuset.Set), make(map[string]cpuset.Set)
	for id, cpus := range exclusive {
		known[w.Runtime.Cgroup(id)] = cpus
		if _, p := w.seen.plan.App(id); p != nil && !p.Mixed.IsEmpty() {
			shares[w.Runtime.Cgroup(id)] = p.Mixed
		}
	}
	w.mu.Lock()
	w.known, w.shares = known, shares
	w.mu.Unlock()
	return errors.Join(append(errs, err)...)
}

// awaitLive waits until the live audit watches exactly the CPUs of owners.
func (w *world) awaitLive() (err error) {
	for range 200 {
		w.r.inspect(func(l *Loop) { err = w.live.differs(l) })
		if err == nil {
			return nil
		}
	}
	return err
}

// checkPartitions checks that owners are partitions if the kernel supports them.
func (w *world) checkPartitions(exclusive map[string]cpuset.Set) error {
	if !w.Kernel.Remote {
		return nil
	}
	var errs []error
	if w.Tree.Crashed() || !w.Tree.Leaked().IsEmpty() {
		errs = append(errs, fmt.Errorf("kernel crashed: %t, lost CPUs: %s", w.Tree.Crashed(), w.Tree.Leaked()))
	}
	park, _ := w.Parked()
	if park.Partition.Valid() {
		w.parked++
	}
	for id, cpus := range exclusive {
		st := w.State(id)
		if park.Partition.Valid() && park.Effective.Overlaps(cpus) {
			errs = append(errs, fmt.Errorf("CPUs %s are parked, and %s has %s for itself", park.Effective, w.Runtime.Cgroup(id), cpus))
		}
		if !st.Populated {
			continue
		}
		if _, p := w.seen.plan.App(id); p != nil && !p.Mixed.IsEmpty() {
			if w.mixed++; st.Partition.Valid() {
				errs = append(errs, fmt.Errorf("%s shares %s, and is %s with %s", w.Runtime.Cgroup(id), p.Mixed, st.Partition, st.Effective))
			}
			continue
		}
		if st.Partition.Valid() && st.Effective.Equal(cpus) {
			w.parted++
		} else {
			errs = append(errs, fmt.Errorf("%s has %s for itself, and is %s with %s", w.Runtime.Cgroup(id), cpus, st.Partition, st.Effective))
		}
	}
	return errors.Join(errs...)
}

// coldEvery is the number of steps per check of a cold start, which takes as long as they do.
const coldEvery = 4

// coldStart checks that a daemon which starts now makes the same plan without a write.
func (w *world) coldStart() error {
	var why error
	if w.await("what a cold start would do", func() bool {
		w.seen = w.inspect()
		why = w.compareCold()
		return why == nil
	}) == nil {
		return nil
	}
	return why
}

func (w *world) compareCold() error {
	if !w.seen.journaled {
		return errors.New("journal is not on disk")
	}
	o, h := w.options(), w.Host()
	p, err := preview.OnHost(w.T.Context(), &h, o.Config, o.Topology, false, o.Log)
	if err != nil {
		return err
	}
	if len(p.Writes)+len(p.Deferred)+len(p.Unread) > 0 {
		err = fmt.Errorf("a cold start has to do: %v %v %v", p.Writes, p.Deferred, p.Unread)
	}
	if d := cmp.Diff(w.seen.plan.Assignments, p.Plan.Assignments); d != "" {
		err = errors.Join(err, fmt.Errorf("a cold start assigns (-warm +cold):\n%s", d))
	}
	return err
}

// tail returns the end of the log.
func (w *world) tail() string {
	lines := bytes.Split(w.Logs.Bytes(), []byte("\n"))
	return string(bytes.Join(lines[max(len(lines)-40, 0):], []byte("\n")))
}
