package publish_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/auditor"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/publish"
	"github.com/cpupoold/cpupoold/internal/node/refusal"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/service"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/units"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// world is a node with one container, which has exclusive CPUs 4-5 and runs on all CPUs.
type world struct {
	*publish.Publisher
	node *nodefixture.Node
	pass planning.Pass
	path cgroup.Path
	now  time.Time
}

func newWorld(t *testing.T, yaml string, observe bool) *world {
	t.Helper()
	w := &world{node: nodefixture.New(t, nodefixture.Spec{}), now: time.Unix(1000, 0)}
	w.node.YAML = nodefixture.PoolsYAML + yaml
	c, err := w.node.Config()
	settings, h := new(desired.Settings), w.node.Host()
	if err == nil {
		_, err = settings.Begin(c, w.node.CPUs.Now(), nil)
	}
	notify, failed := service.NewNotifier(w.node.Logger())
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	h.Observes, h.RunDir = observe, ""
	log, m, journal := w.node.Logger(), inventory.New(h.Driver), undo.Document{}.Journal()
	objects, cache, backoffs, inPods := m.Objects(), kernelstate.New(h.Cgroups.Reader(), log), retry.New(), auxiliary.New(h.Driver)
	facts := &planning.New(planning.Sources{Journal: journal}, "").Facts
	s := publish.Sources{
		Facts: facts, Host: &h, Log: log, Now: func() time.Time { return w.now }, Notify: notify, Settings: settings, Objects: objects, Cache: cache, Journal: journal, Auxiliary: inPods, Backoffs: backoffs,
		Partitions: partition.New(partition.Sources{Host: &h, Log: log, Settings: settings, Objects: objects, Others: &facts.Others, Cache: cache,
			Memory: h.Cgroups.PartitionMemory(), Backoffs: backoffs, Journal: journal, Quiet: facts.Quiet}),
		Units: units.New(units.Sources{Host: &h, Settings: settings, Inventory: m, Cache: cache, Journal: journal, Backoffs: backoffs, Log: log}),
		Drifts: drift.New(drift.Sources{Objects: objects, Cache: cache, Originals: journal.Originals, Backoffs: backoffs, Formula: &facts.Formula, Log: log,
			AddEvent: func(cgroup.Path, history.Event) {}}),
		Refusals: refusal.New(objects, facts.Hints, log), Watch: treewatch.New(log), Requests: requests.New(m, cache, journal, time.Second, time.Now, log),
	}
	w.Publisher = publish.New(s)

	id := w.node.RunContainer(w.node.RunPod("u", "ran", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	w.path = cgroup.Path(w.node.Runtime.Cgroup(id))
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Namespace: "ran", Name: "du"}})
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, PodID: "p", State: cri.Running, CgroupsPath: string(w.path)}})
	w.pass.Planned, w.pass.Targets = true, []cgroup.Target{{Container: id, Path: w.path, CPUs: cpuset.Range(4, 5)}}
	w.pass.Plan = pools.Plan{Shared: settings.Pools.Shared, Pods: []pools.PodPlan{{UID: "u", Namespace: "ran", Name: "du",
		Containers: []pools.Placement{{ID: id, Name: "app", Pool: pools.Guaranteed, Exclusive: true, CPUs: cpuset.Range(4, 5)}}}}}
	w.pass.Owners = []desired.Owner{{Pod: "ran/du", Name: "app", ID: id, CPUs: cpuset.Range(4, 5)}}
	cache.Refresh(w.pass.Targets, objects)
	return w
}

// publish publishes a pass that has begun now.
func (w *world) publish() *telemetry.View {
	w.pass.Began = w.now
	w.Note(&w.pass)
	w.Publish(&w.pass, w.now)
	return w.Metrics()
}

// write writes the cpuset of the container.
func (w *world) write(cpus string) cgroup.Write {
	made := cgroup.Write{Path: w.path, Property: cgroup.FileCPUs, Value: cpus, Via: cgroup.File}
	err := w.Host.Cgroups.Apply(made)
	w.Cache.NoteWrite(made, err)
	w.Cache.Refresh(w.pass.Targets, w.Objects)
	w.Count(made, err)
	return made
}

// events returns the kinds of the events in the history.
func (w *world) events(kind history.Kind) int {
	return len(w.History().Snapshot().Select(history.Query{Kinds: []history.Kind{kind}}))
}

// TestFaults checks that a cgroup that is not in the desired state is a fault, which is logged once.
// It is no fault while a write is in progress, or while the journal keeps writes back.
func TestFaults(t *testing.T) {
	w := newWorld(t, "", false)
	for range 2 {
		if v := w.publish(); v.Faulty != 1 || v.Passes[telemetry.Failed] == 0 || !v.LastSuccess.IsZero() {
			t.Errorf("faulty %d, passes %v, last success %v", v.Faulty, v.Passes, v.LastSuccess)
		}
	}
	if n := len(w.node.Logged("not in the desired state")); n != 1 || w.events(history.Fault) != 1 {
		t.Errorf("the fault is logged %d times, with %d events", n, w.events(history.Fault))
	}
	record := cgroup.Write{Path: w.path, Container: w.pass.Targets[0].Container, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "4-5"}
	w.Cache.NoteSubmitted(record)
	if v := w.publish(); v.Faulty != 0 || !v.LastSuccess.IsZero() {
		t.Errorf("with a write in progress: faulty %d, last success %v", v.Faulty, v.LastSuccess)
	}
	w.Cache.NoteFinished(record, cgroup.UnitState{}, nil)
	w.write("4-5")
	if v := w.publish(); v.Faulty != 0 || !v.LastSuccess.Equal(w.now) || w.events(history.Cleared) == 0 {
		t.Errorf("after the write: faulty %d, last success %v", v.Faulty, v.LastSuccess)
	}
	w.pass.Unreadable = map[cgroup.Path]error{w.path: unix.EIO}
	if v := w.publish(); v.Faulty != 1 || !errors.Is(w.Latest().Faults[w.path], unix.EIO) {
		t.Errorf("unreadable: %v", w.Latest().Faults)
	}
	w.pass.Unreadable, w.pass.Deferred = nil, []cgroup.Deferred{{Path: w.path, Property: cgroup.FileCPUs, Reason: "another cgroup must release its CPUs"}}
	if v := w.publish(); v.Faulty != 1 {
		t.Error("a deferred write is no fault")
	}
	if w.Journal.Originals.Note(undo.Original{Path: w.path, File: cgroup.FileCPUs}); w.publish().Faulty != 0 {
		t.Error("faults while the journal keeps writes back")
	}
}

// TestReady checks that the node is ready once, without a write in progress.
func TestReady(t *testing.T) {
	w := newWorld(t, "", false)
	w.write("4-5")
	w.pass.Planned = false
	if w.Publish(&w.pass, w.now); w.IsReady() || w.Metrics().Ready {
		t.Error("ready before the first pass")
	}
	w.pass.Planned = true
	record := cgroup.Write{Path: w.path, Container: w.pass.Targets[0].Container, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "4-5"}
	w.Cache.NoteSubmitted(record)
	if w.publish(); w.IsReady() || !w.IsWorking(w.now) {
		t.Error("ready with a write in progress")
	}
	w.Cache.NoteFinished(record, cgroup.UnitState{}, nil)
	for range 2 {
		if v := w.publish(); !w.IsReady() || !v.Ready {
			t.Error("not ready in the desired state")
		}
	}
	if n := len(w.node.Logged("ready")); n != 1 || w.events(history.Ready) != 1 {
		t.Errorf("ready is logged %d times, with %d events", n, w.events(history.Ready))
	}
}

// TestProblems checks that a problem is logged when it begins and when it ends, although its text
// changes between.
func TestProblems(t *testing.T) {
	w := newWorld(t, "", false)
	for _, text := range []string{"2 CPUs are free", "1 CPU is free"} {
		w.pass.Plan.Problems = []pools.Problem{{Pod: "ran/du", PodUID: "u", Container: "app", Reason: pools.Reason{Code: "TooFewCPUs", Text: text}}}
		if v := w.publish(); v.Problems["TooFewCPUs"] != 1 || w.Latest().Problems[0].Text != text {
			t.Errorf("problems %v, %+v", v.Problems, w.Latest().Problems)
		}
	}
	w.pass.Plan.Problems = nil
	w.publish()
	count := func(message string) (n int) {
		for _, r := range w.node.Logged(message) {
			if r["code"] == "TooFewCPUs" {
				n++
			}
		}
		return n
	}
	if began, ended := count("problem appeared"), count("problem is over"); began != 1 || ended != 1 {
		t.Errorf("the problem begins %d times and ends %d times", began, ended)
	}
	if w.events(history.Problem) == 0 || w.events(history.Over) != 1 {
		t.Error("the history does not have the begin and the end of the problem")
	}
}

// TestWaitingNRI checks the problem of a runtime that does not complete the connection of NRI. It replaces
// the problem that claims lack NRI.
func TestWaitingNRI(t *testing.T) {
	w := newWorld(t, "", false)
	w.pass.Plan.Claims = []pools.ClaimPlan{{}}
	for _, c := range []struct {
		state                  nri.State
		waiting, claimsWithout int
	}{{nri.Absent, 0, 1}, {nri.Waiting, 1, 0}, {nri.Connected, 0, 0}} {
		w.States.NRI(c.state, errors.New("its reason"))
		if v := w.publish(); v.Problems["NRIWaits"] != c.waiting || v.Problems["ClaimsWithoutNRI"] != c.claimsWithout {
			t.Errorf("state %v: problems %v; want NRIWaits %d, ClaimsWithoutNRI %d", c.state, v.Problems, c.waiting, c.claimsWithout)
		}
	}
}

// TestWrites checks the counters of writes, and of writes that mode: observe omits.
func TestWrites(t *testing.T) {
	w := newWorld(t, "", true)
	made := w.write("4-5")
	w.Count(made, unix.EBUSY)
	for range 2 {
		w.Omit([]cgroup.Write{made})
	}
	v := w.publish()
	if v.Writes[telemetry.Write{Via: "file", Result: telemetry.OK}] != 1 || v.Writes[telemetry.Write{Via: "file", Result: telemetry.Failed}] != 1 || v.Observed["file"] != 1 || w.Latest().Owed != 1 {
		t.Errorf("writes %v, omitted %v", v.Writes, v.Observed)
	}
	w.Omit(nil)
	if v := w.publish(); v.Observed["file"] != 0 || len(w.node.Logged("would write")) != 1 || len(w.node.Logged("would no longer write")) != 1 {
		t.Errorf("omitted %v after none", v.Observed)
	}
	if w = newWorld(t, "", false); w.publish().Observed != nil {
		t.Error("omitted writes outside mode: observe")
	}
}

// TestNoise checks that the isolation of an owner is logged once.
func TestNoise(t *testing.T) {
	w := newWorld(t, "", false)
	w.pass.Targets[0].Exclusive = true
	w.publish()
	w.publish()
	if said := w.node.Logged("exclusive CPUs"); len(said) != 1 || said[0]["cpus"] != "4-5" || said[0]["container"] != "app" {
		t.Errorf("log: %v", said)
	}
	if len(w.node.Logged("kernel arguments that exclusive CPUs lack")) != 1 {
		t.Error("the missing arguments are not in the log, or more than once")
	}
}

// scanner scans as the audit does, and passes on the owners.
type scanner chan audit.Ownership

func (s scanner) Scan(o audit.Ownership, _ uint64) error {
	s <- o
	return nil
}

func (scanner) Evidence() (audit.Evidence, []string) { return audit.Evidence{}, nil }

// TestAudit checks that the audit scans with the owners of the last pass, only while it is on.
func TestAudit(t *testing.T) {
	w := newWorld(t, "audit: {interval: off}\n", false)
	scans := make(scanner, 8) // each publication can cause a scan, and Scan must not wait for the test
	w.OpenAudit = func() (auditor.Watcher, error) { return scans, nil }
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	defer running.Wait()
	defer cancel()
	audits := func(interval string) {
		w.node.YAML = nodefixture.PoolsYAML + "audit: {interval: " + interval + "}\n"
		c, err := w.node.Config()
		if err == nil {
			err = w.Settings.Change(c, w.Settings.Topology, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.publish()
	}
	w.publish()
	audits("1h")
	if o := <-scans; len(o.Pools) != 3 || !o.Pools[0].CPUs.Equal(cpuset.Range(4, 7)) {
		t.Errorf("the audit knows %+v", o)
	}
	w.node.Eventually("the result of the audit", func() bool { return w.Metrics().Audit != nil })
	audits("off")
	w.node.Eventually("the audit is off", func() bool { return w.Metrics().Audit == nil })
}
