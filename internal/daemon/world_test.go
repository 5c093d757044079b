package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testnode"
	"github.com/cpupoold/cpupoold/internal/testnode/scenario"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// world carries out the steps of a scenario on the fake node.
type world struct {
	*node
	r       *running
	configs []string
	pods    map[string]*worldPod
	seen    sight // when the node last came to rest
	epoch   int   // counts reloads: after one, owners may lose their CPUs
	owners  map[string]owner

	mu    sync.Mutex            // guards what follows, which writes look at
	armed int                   // writes until the daemon's death; -1: it lives
	dead  chan struct{}         // closed by the first write that is refused
	known map[string]cpuset.Set // exclusive sets, by the cgroup of the owner
	wrong []error
}

// worldPod is a pod with its containers by name; those that have exited keep theirs
// until they are removed.
type worldPod struct {
	id         string
	spec       scenario.PodSpec
	inits      bool // some have ended for good
	stopped    bool
	containers map[string]string
	created    map[string]bool // ids of those that are not started yet
}

// owner is who had exclusive CPUs at the last rest.
type owner struct {
	id    string
	cpus  cpuset.Set
	epoch int
}

func newWorld(t *testing.T) *world {
	w := &world{node: newNode(t), configs: modelConfigs(), pods: make(map[string]*worldPod), owners: make(map[string]owner), armed: -1}
	w.dir = fastDir(t)
	w.kubelet = newKubelet()
	w.yaml = w.configs[0]
	w.units.Install("du.service", cpuset.Set{})
	w.units.Install("telegraf.service", cpuset.Of(0, 1))
	w.tree.Intercept(w.write)
	w.r = w.start()
	return w
}

var errDead = errors.New("the daemon is dead")

// write stands before each write of the daemon's to a file.
func (w *world) write(x testnode.CgroupWrite) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed == 0 {
		select {
		case <-w.dead:
		default:
			close(w.dead)
		}
		return errDead
	}
	if w.armed > 0 {
		w.armed--
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
		if path+"/" != dir && cpus.Overlaps(held) && w.holds(path, held) {
			w.wrong = append(w.wrong, fmt.Errorf("write of %s to %s: %s has %s for itself", x.Value, x.Name, path, held))
		}
	}
	return nil
}

// holds says that a cgroup is still there, with these CPUs.
func (w *world) holds(path string, cpus cpuset.Set) bool {
	b, err := w.tree.ReadFile(path+"/cpuset.cpus", 1<<10)
	return err == nil && strings.TrimSpace(string(b)) == cpus.String()
}

// Do implements scenario.Node.
func (w *world) Do(s scenario.Step) error {
	if s.Kind == scenario.KillDaemon {
		w.mu.Lock()
		w.armed, w.dead = s.After, make(chan struct{})
		w.mu.Unlock()
		return nil
	}
	if err := w.act(s); err != nil {
		return err
	}
	w.mu.Lock()
	armed, dead := w.armed >= 0, w.dead
	w.mu.Unlock()
	if armed {
		if err := w.restAnd(dead); err != nil {
			return err
		}
		w.r.stop()
		w.mu.Lock()
		w.armed = -1
		w.mu.Unlock()
		w.r = w.start()
	}
	return w.rest()
}

// act does what a step says. What concerns something that is not there is nothing.
func (w *world) act(s scenario.Step) error {
	p := w.pods[s.Pod]
	switch s.Kind {
	case scenario.RunPod:
		return w.runPod(s.Pod, s.Of)
	case scenario.StopPod:
		p.stopped = true
		return w.runtime.StopPod(p.id)
	case scenario.RemovePod:
		delete(w.pods, s.Pod)
		return w.runtime.RemovePod(p.id)
	case scenario.CreateContainer, scenario.StartContainer, scenario.StopContainer, scenario.RemoveContainer:
		return w.actOn(p, s)
	case scenario.Reload:
		w.epoch++
		w.forget()
		w.yaml = w.configs[s.Config]
		w.r.loop.reload()
	case scenario.RestartDaemon, scenario.LoseJournal:
		w.r.stop()
		if s.Kind == scenario.LoseJournal {
			if err := os.Remove(filepath.Join(w.dir, "journal.json")); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
		w.r = w.start()
	case scenario.StartUnit:
		return w.units.Start(s.Unit)
	case scenario.StopUnit:
		if w.unitCPUs(s.Unit) != "" {
			return w.units.Stop(s.Unit)
		}
	case scenario.ReloadSystemd:
		w.units.Reload()
	case scenario.SilenceKubelet:
		w.kubelet.fail(errors.New("the kubelet restarts"))
	case scenario.UnsilenceKubelet:
		w.kubelet.fail(nil)
	}
	return nil
}

func (w *world) runPod(uid string, spec scenario.PodSpec) error {
	namespace, annotations := "default", map[string]string(nil)
	if spec.Management {
		namespace, annotations = "kube-system", management(nil)
	}
	if spec.Devices >= 0 {
		for _, name := range []string{"app-0", "app-1"} {
			w.kubelet.admit(namespace+"/"+uid+"/"+name, spec.Devices)
		}
	}
	res := cri.Resources{}
	if spec.CPUs > 0 {
		res = whole(spec.CPUs)
	}
	id, err := w.runtime.RunPod(testnode.PodSpec{UID: uid, Namespace: namespace, Name: uid, QoS: spec.QoS, Annotations: annotations, Resources: res})
	w.pods[uid] = &worldPod{id: id, spec: spec, containers: make(map[string]string), created: make(map[string]bool)}
	return err
}

func (w *world) actOn(p *worldPod, s scenario.Step) error {
	id := p.containers[s.Container]
	switch s.Kind {
	case scenario.CreateContainer:
		res := cri.Resources{Shares: uint64(max(s.Spec.Milli*1024/1000, 2))}
		if p.spec.QoS == "guaranteed" {
			res.Quota, res.Period = int64(s.Spec.Milli)*100, 100_000
		}
		p.inits = p.inits || s.Spec.Init
		id, err := w.runtime.CreateContainer(p.id, testnode.ContainerSpec{Name: s.Container, Resources: res})
		p.containers[s.Container], p.created[id] = id, true
		return err
	case scenario.StartContainer:
		delete(p.created, id)
		return w.runtime.StartContainer(id)
	case scenario.StopContainer:
		if w.isRunning(id) { // it may have been stopped for its refusal
			return w.runtime.StopContainer(id)
		}
	case scenario.RemoveContainer:
		delete(p.containers, s.Container)
		p.inits = true // of what is removed nobody knows any more what it was
		return w.runtime.RemoveContainer(id)
	}
	return nil
}

func (w *world) isRunning(id string) bool { return w.runtime.Cgroup(id) != "" && w.state(id).Populated }

// forget lets everybody move.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = nil
}

// sight is what the owner shows when it is asked.
type sight struct {
	plan      pools.Plan
	pools     pools.Pools
	resting   bool
	busy      map[string]bool // why not
	journaled bool
	connected bool // events come from the runtime
}

// inspection is an event by which the owner shows its state.
type inspection chan sight

func (i inspection) apply(l *loop) {
	now := time.Now()
	busy := map[string]bool{
		"planning":            !l.status.planned || !l.status.ready,
		"faults":              len(l.faults(now)) > 0,
		"writing":             l.working(now),
		"asking the kubelet":  l.hints.asking || len(l.hints.since) > 0,
		"reverting units":     len(l.status.reverting) > 0,
		"bad configuration":   l.status.configErr != nil,
		"writing files":       l.applications.busy,
		"reading":             len(l.tree.stale) > 0,
		"stopping containers": false,
	}
	for k, x := range l.refusals.now {
		if x.Stopped && l.model.containers[k.id] != nil {
			busy["stopping containers"] = true
		}
	}
	maps.DeleteFunc(busy, func(_ string, is bool) bool { return !is })
	resting := len(busy) == 0
	i <- sight{busy: busy, plan: l.status.plan, pools: l.settings.pools, resting: resting, journaled: l.ledger.durable == l.ledger.changes,
		connected: l.status.stream == cri.Connected}
}

func (w *world) inspect() sight {
	ask := make(inspection, 1)
	w.r.loop.box.post(ask)
	select {
	case s := <-ask:
		return s
	case <-time.After(patience):
		return sight{}
	}
}

// relist is a resync, for the half second in which a daemon that has started does
// not get events yet.
type relist struct{}

func (relist) apply(l *loop) { l.list() }

// look takes a look, and says whether the daemon rests and has seen everything: now,
// and after one more pass.
func (w *world) look() bool {
	if w.seen = w.inspect(); !w.seen.connected {
		w.r.loop.box.post(relist{})
	}
	if !w.seen.resting {
		return false
	}
	w.seen = w.inspect()
	return w.seen.resting && w.upToDate()
}

// rest waits until the daemon has nothing left to do and knows of everything.
func (w *world) rest() error {
	w.r.loop.box.post(reexecuted{}) // what was done behind its back counts too
	return w.await("the daemon to rest", w.look)
}

// restAnd is rest for a daemon that is to die.
func (w *world) restAnd(dead chan struct{}) error {
	return w.await("the daemon to rest or die", func() bool {
		select {
		case <-dead:
			return true
		default:
			return w.look()
		}
	})
}

func (w *world) await(what string, cond func() bool) error {
	deadline := time.Now().Add(patience / 3)
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited in vain for %s: %v, up to date: %t", what, w.seen.busy, w.upToDate())
		}
		<-tick.C
	}
	return nil
}

// upToDate says that the plan is about what there is: the containers that run, in
// pods that are there, and the units.
func (w *world) upToDate() bool {
	planned := make(map[string]pools.ContainerState)
	for _, p := range w.seen.plan.Pods {
		for _, c := range p.Containers {
			planned[c.ID] = c.State
		}
	}
	for _, p := range w.pods {
		if _, there := planned[p.id]; there == p.stopped {
			return false
		}
		for _, id := range p.containers {
			state, there := planned[id]
			if w.isRunning(id) != (there && state == pools.Running) || p.created[id] && !p.stopped != (there && state == pools.Created) {
				return false
			}
		}
	}
	for _, u := range w.seen.plan.Units {
		if cpus := w.unitCPUs(u.Name); cpus != "" && cpus != u.CPUs.String() {
			return false
		}
	}
	return true
}

func has[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

// place is where the plan puts a live container.
type place struct {
	name, key string
	cpus      cpuset.Set
	exclusive bool
}

// placed are the containers of the plan that run, by id.
func (w *world) placed() map[string]place {
	all := make(map[string]place)
	for _, p := range w.seen.plan.Pods {
		for _, c := range p.Containers {
			if c.State != pools.Running || !w.isRunning(c.ID) {
				continue
			}
			key := p.UID + "/" + c.Name
			all[c.ID] = place{name: key + " " + c.ID[:8], key: key, cpus: c.CPUs, exclusive: c.Exclusive}
		}
	}
	return all
}

// Check implements scenario.Node.
func (w *world) Check() error {
	w.mu.Lock()
	errs := w.wrong
	armed := w.armed >= 0
	w.mu.Unlock()
	if armed {
		return errors.Join(errs...) // the next step tells
	}
	errs = append(errs, pools.Check(w.seen.plan, w.seen.pools)...)
	claims, err := w.claimsOf()
	errs = append(append(errs, err), cpuset.CheckClaims(claims)...)
	errs = append(errs, w.checkOwners()...)
	return errors.Join(errs...)
}

// checkOwners says who has lost or changed exclusive CPUs without a reason, and
// remembers who has which now.
func (w *world) checkOwners() (errs []error) {
	owners, known := make(map[string]owner), make(map[string]cpuset.Set)
	for id, at := range w.placed() {
		if at.exclusive {
			owners[at.key] = owner{id, at.cpus, w.epoch}
			known[w.runtime.Cgroup(id)] = at.cpus
		}
	}
	for _, u := range w.seen.plan.Units {
		if u.Exclusive {
			owners["unit/"+u.Name] = owner{u.Name, u.CPUs, w.epoch}
		}
	}
	for key, before := range w.owners {
		now, still := owners[key]
		reloaded := before.epoch != w.epoch
		switch {
		case still && reloaded && !before.cpus.IsSubsetOf(w.seen.pools.Guaranteed):
		case still && before.cpus.IsSubsetOf(now.cpus): // it had less than it asks for
		case still && reloaded && now.cpus.IsSubsetOf(before.cpus): // to restore the floor
		case still && !now.cpus.Equal(before.cpus) && (now.id == before.id || !w.reuses(key)):
			errs = append(errs, fmt.Errorf("%s was moved from %s to %s", key, before.cpus, now.cpus))
		case !still && !reloaded && w.isRunning(before.id):
			errs = append(errs, fmt.Errorf("%s has lost %s", key, before.cpus))
		}
	}
	for key, before := range w.owners { // it may come back as another instance
		uid, _, _ := strings.Cut(key, "/")
		if p := w.pods[uid]; !has(owners, key) && p != nil && !p.stopped && before.epoch == w.epoch {
			owners[key] = before
		}
	}
	w.owners = owners
	w.mu.Lock()
	w.known = known
	w.mu.Unlock()
	return errs
}

// reuses says that a restarted container may get other CPUs than before: its pod has
// init containers, and which of them has ended for good nobody knows.
func (w *world) reuses(key string) bool {
	uid, _, _ := strings.Cut(key, "/")
	p := w.pods[uid]
	return p == nil || p.inits || p.spec.CPUs == 0
}

// tail is the end of the log.
func (w *world) tail() string {
	lines := bytes.Split(w.logs.Bytes(), []byte("\n"))
	return string(bytes.Join(lines[max(len(lines)-40, 0):], []byte("\n")))
}
