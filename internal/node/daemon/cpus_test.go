package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// fakeCPUs are the node's CPUs as the kernel tells of them.
type fakeCPUs struct {
	mu      sync.Mutex // guards what follows
	top     *topology.Topology
	deaf    bool // events are lost
	err     error
	changed chan struct{} // closed, and another one, with each event

	listening     int // daemons
	events, heard int // that there were, and of which a daemon has been told
}

func newCPUs(top *topology.Topology) *fakeCPUs {
	return &fakeCPUs{top: top, changed: make(chan struct{})}
}

func (c *fakeCPUs) now() *topology.Topology {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.top
}

func (c *fakeCPUs) Watch(ctx context.Context, changed func() error) error {
	c.listens(1)
	defer c.listens(-1)
	for {
		c.mu.Lock()
		next, err, events := c.changed, c.err, c.events
		c.mu.Unlock()
		if err == nil {
			err = changed()
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.heard = events
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

func (c *fakeCPUs) listens(more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listening += more
}

// isHeard says that a daemon that listens has been told of the last event: its loop deals
// with that before all that comes later.
func (c *fakeCPUs) isHeard() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listening == 0 || c.heard == c.events
}

func (c *fakeCPUs) Read(*topology.Topology) (*topology.Topology, error) { return c.now(), nil }

// fail breaks the source, or with nil mends it.
func (c *fakeCPUs) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	c.event()
}

// event wakes those who listen.
func (c *fakeCPUs) event() {
	c.events++
	close(c.changed)
	c.changed = make(chan struct{})
}

// set changes the CPUs, and tells of it unless nobody is to hear.
func (c *fakeCPUs) set(top *topology.Topology) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.top = top; !c.deaf {
		c.event()
	}
}

// online makes these and no others of the node's CPUs run, as the kernel does: the
// cpusets have changed when it tells of it, and who listens has heard.
func (n *node) online(cpus cpuset.Set) {
	n.t.Helper()
	top, err := topology.Read(withOnline(sysfs(eightCPUs), cpus))
	if err != nil {
		n.t.Fatal(err)
	}
	n.tree.SetOnline(cpus)
	n.cpus.set(top)
	n.eventually("CPUs heard of", n.cpus.isHeard)
}

// withOnline takes the CPUs out of a sysfs that are not online.
func withOnline(fs fstest.MapFS, online cpuset.Set) fstest.MapFS {
	fs["devices/system/cpu/online"] = &fstest.MapFile{Data: []byte(online.String() + "\n")}
	for name := range fs {
		var cpu int
		if _, err := fmt.Sscanf(name, "devices/system/cpu/cpu%d/", &cpu); err == nil && !online.Contains(cpu) {
			delete(fs, name)
		}
	}
	return fs
}

// without are all the node's CPUs but some.
func without(cpus ...int) cpuset.Set {
	return cpuset.Range(0, eightCPUs-1).Difference(cpuset.Of(cpus...))
}

// trio is a container in each pool, and a second owner.
type trio struct{ management, shared, owner, other string }

func (n *node) trio() trio {
	n.t.Helper()
	var all trio
	all.owner = n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(all.owner, "4-5")
	all.other = n.container(n.pod("b", "default", "guaranteed", 1, nil), "app", whole(1))
	n.runsOn(all.other, "6")
	all.management = n.container(n.pod("m", "kube-system", "burstable", 0, management(nil)), "app", cri.Resources{Shares: 102})
	all.shared = n.container(n.pod("s", "default", "besteffort", 0, nil), "app", cri.Resources{Shares: 2})
	return all
}

// TestHotplug takes a CPU of each pool away and brings it back. Resync is far away.
func TestHotplug(t *testing.T) {
	for _, nri := range []bool{false, true} {
		t.Run(fmt.Sprintf("nri=%t", nri), func(t *testing.T) {
			n := newNodeWith(t, testnode.RuntimeConfig{NRI: nri})
			r := n.start()
			r.quiet()
			of := n.trio()
			on := func(management, shared, owner, other string) {
				t.Helper()
				n.runsOn(of.management, management)
				n.runsOn(of.shared, shared)
				n.runsOn(of.owner, owner)
				n.runsOn(of.other, other)
				r.quiet()
				for id, cpus := range map[string]string{of.management: management, of.shared: shared, of.owner: owner, of.other: other} {
					// By its own request, and not by what is left of it.
					if st := n.state(id); st.CPUs.String() != cpus || n.recordedCPUs(id) != cpus {
						t.Errorf("%s has cpuset.cpus %s and %s on record; want %s", id, st.CPUs, n.recordedCPUs(id), cpus)
					}
				}
				n.check()
			}
			on("0-1", "2-3", "4-5", "6")
			n.online(without(0, 3))
			on("1", "2", "4-5", "6")
			n.online(without(5)) // there is another one
			on("0-1", "2-3", "4,7", "6")
			n.online(without(4, 5)) // 5 has gone before it could come back
			on("0-1", "2-3", "7", "6")
			r.view("shortage in the metrics", func(v *telemetry.View) bool {
				return v.Problems[string(pools.CodeOffline)] == 1 && v.Problems[string(pools.CodeShort)] == 1
			})
			n.online(without(4)) // 5 is nobody's by now
			on("0-1", "2-3", "5,7", "6")
			n.online(without(4, 6)) // none is free, and all of the other's have gone
			on("0-1", "2-3", "5,7", "2-3")
			n.online(without(4))
			on("0-1", "2-3", "5,7", "6")
			n.online(without())
			on("0-1", "2-3", "5,7", "6")
		})
	}
}

// TestHotplugOfWholePools: the last CPU of each pool, one pool after another.
func TestHotplugOfWholePools(t *testing.T) {
	n := newNode(t)
	r := n.start()
	of := n.trio()
	on := func(management, shared, owner string) {
		t.Helper()
		n.runsOn(of.management, management)
		n.runsOn(of.shared, shared)
		n.runsOn(of.owner, owner)
		r.quiet()
	}
	on("0-1", "2-3", "4-5")
	n.online(without(2, 3))
	on("0-1", "0-1", "4-5")
	adapted := func(what string) {
		t.Helper()
		r.view("adaption in the metrics: "+what, func(v *telemetry.View) bool { return strings.Contains(strings.Join(v.Adapted, "\n"), what) })
	}
	adapted("it runs on CPUs 0-1 together with the partitions")
	n.online(without(0, 1))
	on("2-3", "2-3", "4-5")
	adapted("its pods are placed like any others")
	n.online(without(4, 5, 6, 7))
	on("0-1", "2-3", "2-3")
	adapted("the pool is empty")
	n.online(without())
	on("0-1", "2-3", "4-5")
	r.view("nothing adapted", func(v *telemetry.View) bool { return len(v.Adapted) == 0 })
}

// TestHotplugUnheard: an event is lost, and the resync finds what has changed; the
// source is lost, and then again there.
func TestHotplugUnheard(t *testing.T) {
	n := newNode(t)
	n.yaml = strings.Replace(n.yaml, "resyncPeriod: 10m", "resyncPeriod: 1s", 1)
	r := n.start()
	of := n.trio()
	state := func(want telemetry.SourceState) {
		t.Helper()
		r.view("source "+string(want), func(v *telemetry.View) bool { return v.Sources[telemetry.CPUs] == want })
	}
	state(telemetry.SourceOK)
	n.cpus.mu.Lock()
	n.cpus.deaf = true
	n.cpus.mu.Unlock()
	n.online(without(4))
	n.runsOn(of.owner, "5,7")
	n.cpus.fail(errors.New("no more uevents"))
	state(telemetry.SourceLost)
	n.cpus.fail(nil)
	state(telemetry.SourceOK)
}

// TestHotplugBesideARestart: CPUs come and go while no daemon runs, and what an owner
// is without outlives the daemon.
func TestHotplugBesideARestart(t *testing.T) {
	n := newNode(t)
	n.yaml = strings.Replace(n.yaml, "cpus: 4-7", "cpus: 4-6", 1)
	r := n.start()
	of := n.trio()
	r.quiet()
	r.stop()
	n.online(without(5))
	r = n.start()
	n.runsOn(of.owner, "4")
	r.quiet()
	n.eventually("journal", func() bool {
		for _, a := range n.journal().Assignments {
			if a.PodUID == "a" && a.CPUs.String() == "4" && a.Away.String() == "5" {
				return true
			}
		}
		return false
	})
	r.stop()
	r = n.start()
	late := n.container(n.pod("c", "default", "guaranteed", 1, nil), "app", whole(1))
	r.quiet()
	n.runsOn(late, "2-3")
	r.stop()
	n.online(without())
	r = n.start()
	n.runsOn(of.owner, "4-5")
	r.quiet()
	n.runsOn(late, "2-3")
	n.runsOn(of.other, "6")
}

// TestHotplugAndNRI: what the runtime is answered while CPUs are offline.
func TestHotplugAndNRI(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	r := n.start()
	r.connected()
	r.quiet()
	of := n.trio()
	n.online(without(5, 7))
	n.runsOn(of.owner, "4")
	pod := n.pod("c", "default", "guaranteed", 1, nil)
	_, err := n.runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: whole(1)})
	if err == nil || !strings.Contains(err.Error(), "0 of 2 CPUs of the guaranteed pool are free") {
		t.Fatalf("a container that there is no CPU for: %v; want a refusal with the numbers", err)
	}
	n.online(without(5))
	n.runsOn(of.owner, "4,7")
	n.online(without())
	r.quiet()
	late := n.container(pod, "app", whole(1))
	if got := n.state(late).Effective.String(); got != "5" {
		t.Errorf("a container that is created when a CPU is back runs on %s; want 5 from the beginning", got)
	}
}

// recordedCPUs are those that the runtime has on record for a container.
func (n *node) recordedCPUs(id string) string {
	n.t.Helper()
	c, err := n.client.ContainerStatus(n.t.Context(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	cpus, err := c.RecordedCPUs()
	if err != nil {
		n.t.Fatal(err)
	}
	return cpus.String()
}

// TestHotplugTellsChanges: of CPUs that come and go the log tells what is another than
// before, once.
func TestHotplugTellsChanges(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.quiet()
	n.online(without(2, 3))
	n.eventually("the adaption told", func() bool { return len(n.logged("configuration in force")) == 2 })
	n.online(without(2, 3, 7))
	n.eventually("the next adaption told", func() bool { return len(n.logged("configuration in force")) == 3 })
	r.quiet()
	told := make(map[any]int)
	for _, line := range n.logged("configuration adapted to this machine") {
		told[line["adaption"]]++
	}
	if len(told) < 3 {
		t.Errorf("told these adaptions: %v; want those of both pools", told)
	}
	for what, times := range told {
		if times != 1 {
			t.Errorf("told %d times: %v", times, what)
		}
	}
	n.online(without(2, 3, 7)) // nothing but another topology, as when only what is present has changed
	r.quiet()
	if got := len(n.logged("CPUs have come or gone")); got != 2 {
		t.Errorf("told %d times that CPUs have come or gone; want 2", got)
	}
	if got := len(n.logged("configuration in force")); got != 3 {
		t.Errorf("told %d times which configuration is in force; want 3", got)
	}
}
