package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Moments of a creation at which no function of the fake runtime runs.
const (
	asked   testnode.Moment = "asked"   // CreateContainer begins
	created testnode.Moment = "created" // CreateContainer has returned
	started testnode.Moment = "started" // StartContainer has returned
	placed  testnode.Moment = "placed"  // the daemon has nothing left to do
)

// creationDeath is a point in the creation of a container at which the daemon is killed.
type creationDeath struct {
	name string
	// at is the moment at which do runs.
	at testnode.Moment
	// before runs before the creation; nil: nothing.
	before func(*killable)
	// do kills the daemon, or lets its loop freeze later. Then the test kills the daemon.
	do func(*killable)
	// unanswered reports whether the runtime gets no reply to the creation.
	unanswered bool
}

func creationDeaths() []creationDeath {
	return []creationDeath{
		{name: "before the decision", at: asked, do: freezeAt[createRequest], unanswered: true},
		{name: "during the save", at: asked, do: func(d *killable) { d.freezeInSave(false) }, unanswered: true},
		{name: "after the save", at: asked, do: func(d *killable) { d.freezeInSave(true) }, unanswered: true},
		{name: "after the reply", at: testnode.Answered, do: kill},
		{name: "after the reply, changes in memory alone", at: testnode.Answered, before: (*killable).hangDisk, do: kill},
		{name: "after the creation", at: created, do: kill},
		{name: "before the start question", at: testnode.Made, do: kill},
		{name: "after the start question", at: testnode.Made, do: freezeAt[startRequest]},
		{name: "after the start reply", at: testnode.Allowed, do: kill},
		{name: "after the start", at: started, do: kill},
		{name: "after the placement", at: placed, do: kill},
	}
}

func kill(d *killable) { d.kill() }

// killable is a daemon that a test kills. Its loop freezes at a point: from then on the daemon
// writes nothing and sends no reply.
type killable struct {
	*running
	frozen chan struct{}
	over   chan struct{}
	finish func() // closes over
	// kill ends the daemon without any further write, update or reply, and waits. The next
	// daemon can connect to NRI.
	kill func()
}

func (n *node) startToKill() *killable {
	n.T.Helper()
	d := &killable{running: n.start(), frozen: make(chan struct{}), over: make(chan struct{})}
	d.finish = sync.OnceFunc(func() { close(d.over) })
	d.kill = sync.OnceFunc(d.end)
	n.T.Cleanup(d.finish)
	d.connected()
	return d
}

// freeze stops the loop. The caller is on the loop's goroutine.
func (d *killable) freeze() {
	d.Runtime.NRIDown() // at once, and first: the end of the daemon would send a refusal
	close(d.frozen)
	<-d.over
}

func (d *killable) end() {
	select {
	case <-d.frozen:
	default:
		d.loop.box.Post(unasked(func(*Loop) { d.freeze() }))
		<-d.frozen
	}
	d.Tree.Intercept(func(testnode.CgroupWrite) error { return errDead })
	d.cancel()
	d.finish()
	d.stop()
	d.Runtime.AwaitUpdates() // its clients have ended, and the next program must not compete with it
	d.Tree.Intercept(nil)
}

// freezeAt freezes the loop when the runtime has sent a request of type R. The loop has not
// handled it. The runtime sends no request before the loop has replied to its question about an
// update of the daemon. So freezeAt waits until no update is in progress.
func freezeAt[R event](d *killable) {
	d.Eventually("no update in progress", func() bool {
		isIdle := make(chan bool)
		d.loop.box.Post(unasked(func(l *Loop) {
			idle := !l.cache.Writes.HasBusy()
			isIdle <- idle
			for idle {
				if slices.ContainsFunc(l.box.Take(), func(e event) bool { _, is := e.(R); return is }) {
					d.freeze()
					return
				}
				select {
				case <-l.box.Wake():
				case <-d.over:
					return
				}
			}
		}))
		return <-isIdle
	})
}

// freezeInSave freezes the loop in a save of the journal: before the save, or with done after it.
// The daemon has no file in memory, so a decided reply waits for the save.
func (d *killable) freezeInSave(done bool) {
	d.awaitSave() // a save in progress would delay the save after the reply
	d.inspectOnly(func(l *Loop) {
		l.RecentDir = ""
		l.workers.Disk = &freezingDisk{Workers: l.workers.Disk, d: d, change: l.journal.Newest(), done: done}
	})
}

// awaitSave waits until the journal is on disk.
func (d *killable) awaitSave() {
	d.Eventually("journal on disk", func() bool {
		isSaved := false
		d.inspect(func(l *Loop) { isSaved = !l.journal.Pending() })
		return isSaved
	})
}

// hangDisk makes all later saves of the journal hang. The file in memory alone has later changes.
func (d *killable) hangDisk() {
	d.awaitSave()
	d.inspectOnly(func(l *Loop) { l.workers.Disk = hungDisk{l.workers.Disk} })
}

// hungDisk never finishes a save of the journal.
type hungDisk struct{ actor.Workers[event] }

func (h hungDisk) Submit(key string, j actor.Job[event]) {
	if key != "journal" {
		h.Workers.Submit(key, j)
	}
}

// freezingDisk freezes the loop in the first save after a change that has a reply.
type freezingDisk struct {
	actor.Workers[event]
	d      *killable
	change int
	done   bool
}

func (f *freezingDisk) Submit(key string, j actor.Job[event]) {
	l := f.d.loop
	if key != "journal" || l.journal.Newest() == f.change || !l.requests.IsEmpty() || l.requests.HeldUntil().IsZero() {
		f.Workers.Submit(key, j)
		return
	}
	if f.done {
		if e, ok := j(f.d.T.Context()).(saved); !ok || e.err != nil {
			f.d.T.Errorf("save of the journal: %+v", e)
		}
	}
	f.d.freeze()
}

// newborn is a container. The daemon is killed during its creation.
type newborn struct {
	name, namespace, qos string
	cpus                 int
	annotations          map[string]string
	resources            cri.Resources
}

func newborns() []newborn {
	return []newborn{
		{name: "shared", namespace: "default", qos: "burstable", resources: cri.Resources{Shares: 512, Quota: 80_000, Period: 100_000}},
		{name: "exclusive", namespace: "default", qos: "guaranteed", cpus: 2, resources: nodefixture.WholeCPUs(2)},
		{name: "management", namespace: "kube-system", qos: "burstable", annotations: nodefixture.LimitedManagement("app", 409, 500), resources: cri.Resources{Shares: 2}},
	}
}

// runOthers runs a container of each pool.
func (n *node) runOthers() {
	n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.RunContainer(n.RunPod("e", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
}

// create creates and starts the container, and calls visit at each moment.
func (b newborn) create(n *node, visit func(testnode.Moment)) (id string, err error) {
	n.Runtime.OnMoment(visit)
	defer n.Runtime.OnMoment(nil)
	pod, err := n.Runtime.RunPod(testnode.PodSpec{UID: b.name, Namespace: b.namespace, Name: b.name, QoS: b.qos, Annotations: b.annotations, Resources: nodefixture.WholeCPUs(b.cpus)})
	if err != nil {
		return "", err
	}
	visit(asked)
	if id, err = n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: b.resources}); err != nil {
		return "", err
	}
	visit(created)
	if err = n.Runtime.StartContainer(id); err == nil {
		visit(started)
		visit(placed)
	}
	return id, err
}

// values returns the files of all cgroups, the CPUs and NUMA nodes in the records of the runtime,
// and the properties in systemd. Values with the same effect count as equal. All CPUs or NUMA
// nodes count as none, because restore cannot always clear a set. The default weight of a unit
// counts as none. Shares and quota in the record are not compared: the reply to a creation changes
// them, and restore does not change them back (ADR 0004).
func (n *node) values() map[string]string {
	n.T.Helper()
	set := func(value, all string) string {
		if value == all {
			return ""
		}
		return value
	}
	values := n.Settings()
	for name, value := range values {
		switch {
		case strings.HasSuffix(name, "/"+cgroup.FileCPUs):
			values[name] = set(value, "0-7")
		case strings.HasSuffix(name, "/"+cgroup.FileMems):
			values[name] = set(value, "0-1")
		}
	}
	err := walk.Cgroups(cgroup.New(n.Tree), "", func(p cgroup.Path) error {
		unit, ok := p.Unit()
		if !ok {
			return nil
		}
		u, err := n.Units.Properties(n.T.Context(), unit)
		const unset = 100 // the weight of a unit without CPUWeight
		if u.Weight == unset {
			u.Weight = 0
		}
		values["systemd: "+unit] = fmt.Sprintf("CPUs %q, nodes %q, weight %d, quota %d", set(u.CPUs.String(), "0-7"), set(u.Mems.String(), "0-1"), u.Weight, u.Quota)
		return err
	})
	if err != nil {
		n.T.Fatal(err)
	}
	_, containers, err := n.Client.List(n.T.Context())
	if err != nil {
		n.T.Fatal(err)
	}
	for _, c := range containers {
		if c, err = n.Client.ContainerStatus(n.T.Context(), c.ID); err != nil {
			n.T.Fatal(err)
		}
		values["runtime: "+c.ID] = fmt.Sprintf("CPUs %q, nodes %q", set(c.Recorded.CPUs, "0-7"), set(c.Recorded.Mems, "0-1"))
	}
	return values
}

// checkRestore restores the node, and compares it with a node without a daemon.
func (n *node) checkRestore(without map[string]string) {
	n.T.Helper()
	report, err := n.restore()
	if err != nil {
		n.T.Error(err)
	}
	for _, d := range report.Differs {
		if !d.Harmless {
			n.T.Errorf("%s %s is %q after restore; want %q: %s", d.Path, d.File, d.Now, d.Value, d.Reason)
		}
	}
	if diff := cmp.Diff(without, n.values()); diff != "" {
		n.T.Errorf("node (-without a daemon +restored):\n%s", diff)
	}
}

// TestDeathDuringCreation kills the daemon at each point in the creation of a container. The
// runtime then creates the container on its own. After restore, the node equals a node on which
// no daemon ran. If another daemon starts instead of restore, it places the container.
func TestDeathDuringCreation(t *testing.T) {
	for _, b := range newborns() {
		without := newNRINode(t)
		without.runOthers()
		if _, err := b.create(without, func(testnode.Moment) {}); err != nil {
			t.Fatal(err)
		}
		want := without.values()
		for pool, yaml := range map[string]string{"fixed": nodefixture.PoolsYAML, "carved": nodefixture.CarvedYAML} {
			for _, p := range creationDeaths() {
				for _, next := range []bool{false, true} {
					name := strings.Join([]string{b.name, pool, p.name, map[bool]string{false: "restore", true: "next daemon"}[next]}, "/")
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						n, id := p.runInTime(t, yaml, b)
						if next {
							n.checkNextDaemon(id, b)
						}
						n.checkRestore(want)
					})
				}
			}
		}
	}
}

// runInTime is run on a new node. It runs again if the disk was so slow that a reply went out
// before the journal was saved.
func (p creationDeath) runInTime(t *testing.T, yaml string, b newborn) (n *node, id string) {
	t.Helper()
	for range 10 {
		n = newNRINode(t)
		n.YAML = yaml
		id = p.run(n, b)
		if len(n.Logged("journal is late; writes go ahead, and restore may not know the values that they replace")) == 0 {
			return n, id
		}
	}
	t.Fatal("the disk needs more than 500 ms for a file, in each of ten runs")
	return nil, ""
}

// run kills a daemon during the creation of b, and returns the id of the container.
func (p creationDeath) run(n *node, b newborn) string {
	n.T.Helper()
	d := n.startToKill()
	n.runOthers()
	d.quiet()
	go func() {
		<-d.frozen
		d.kill()
	}()
	id, err := b.create(n, func(m testnode.Moment) {
		if m == asked && p.before != nil {
			d.quiet()
			p.before(d)
		}
		if m != p.at {
			return
		}
		if m == asked || m == placed {
			d.quiet()
		}
		p.do(d)
	})
	if err != nil {
		n.T.Fatal(err)
	}
	nodefixture.Receive(n.Node, "the daemon is killed", d.frozen)
	d.kill() // waits for its end
	if cpus := n.RecordedCPUs(id); (cpus == "") != p.unanswered {
		n.T.Errorf("the container has the recorded CPUs %q; reply lost: %t", cpus, p.unanswered)
	}
	return id
}

// checkNextDaemon checks that another daemon places all containers.
func (n *node) checkNextDaemon(id string, b newborn) {
	n.T.Helper()
	if err := n.Runtime.NRIUp(); err != nil {
		n.T.Fatal(err)
	}
	r := n.start()
	r.connected()
	r.quiet()
	n.CheckAssigned()
	pool := map[string]cpuset.Set{"management": cpuset.Range(0, 1), "exclusive": cpuset.Range(2, 7), "shared": cpuset.Range(2, 7)}[b.name]
	st := n.State(id)
	if !st.Effective.IsSubsetOf(pool) || b.cpus > 0 && st.Effective.Len() != b.cpus {
		n.T.Errorf("the %s container is on CPUs %s\n%s", b.name, st.Effective, n.Dump())
	}
	if recorded := n.RecordedCPUs(id); recorded != st.CPUs.String() {
		n.T.Errorf("recorded CPUs %s; want %s", recorded, st.CPUs)
	}
	r.stop()
}
