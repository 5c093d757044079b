package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// placedContainers is a container in each pool, and a second owner.
type placedContainers struct{ management, shared, owner, other string }

func (n *node) runInEachPool() placedContainers {
	n.T.Helper()
	var all placedContainers
	all.owner = n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(all.owner, "4-5")
	all.other = n.RunContainer(n.RunPod("b", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(all.other, "6")
	all.management = n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(nil)), "app", cri.Resources{Shares: 102})
	all.shared = n.RunContainer(n.RunPod("s", "default", "besteffort", 0, nil), "app", cri.Resources{Shares: 2})
	return all
}

// TestHotplug takes a CPU of each pool offline and back online. The resync is far away.
func TestHotplug(t *testing.T) {
	for _, nri := range []bool{false, true} {
		t.Run(fmt.Sprintf("nri=%t", nri), func(t *testing.T) {
			n := newNodeWith(t, testnode.RuntimeConfig{NRI: nri})
			r := n.start()
			r.quiet()
			of := n.runInEachPool()
			on := func(management, shared, owner, other string) {
				t.Helper()
				n.AwaitCPUs(of.management, management)
				n.AwaitCPUs(of.shared, shared)
				n.AwaitCPUs(of.owner, owner)
				n.AwaitCPUs(of.other, other)
				r.quiet()
				for id, cpus := range map[string]string{of.management: management, of.shared: shared, of.owner: owner, of.other: other} {
					// The cpuset must be written; an effective set that happens to be right is
					// not enough.
					if st := n.State(id); st.CPUs.String() != cpus || n.RecordedCPUs(id) != cpus {
						t.Errorf("%s has cpuset.cpus %s and %s on record; want %s", id, st.CPUs, n.RecordedCPUs(id), cpus)
					}
				}
				n.CheckOccupants()
			}
			on("0-1", "2-3", "4-5", "6")
			n.SetOnline(nodefixture.AllCPUsBut(0, 3))
			on("1", "2", "4-5", "6")
			n.SetOnline(nodefixture.AllCPUsBut(5)) // another CPU is free
			on("0-1", "2-3", "4,7", "6")
			n.SetOnline(nodefixture.AllCPUsBut(4, 5)) // 5 goes offline before it can come back
			on("0-1", "2-3", "7", "6")
			r.view("shortage in the metrics", func(v *telemetry.View) bool {
				return v.Problems[string(pools.CodeOffline)] == 1 && v.Problems[string(pools.CodeShort)] == 1
			})
			n.SetOnline(nodefixture.AllCPUsBut(4)) // 5 has no owner now
			on("0-1", "2-3", "5,7", "6")
			n.SetOnline(nodefixture.AllCPUsBut(4, 6)) // no CPU is free, and the other owner has lost its only one
			on("0-1", "2-3", "5,7", "2-3")
			n.SetOnline(nodefixture.AllCPUsBut(4))
			on("0-1", "2-3", "5,7", "6")
			n.SetOnline(nodefixture.AllCPUsBut())
			on("0-1", "2-3", "5,7", "6")
		})
	}
}

// TestHotplugOfWholePools takes the last CPU of each pool offline, one pool after another.
func TestHotplugOfWholePools(t *testing.T) {
	n := newNode(t)
	r := n.start()
	of := n.runInEachPool()
	on := func(management, shared, owner string) {
		t.Helper()
		n.AwaitCPUs(of.management, management)
		n.AwaitCPUs(of.shared, shared)
		n.AwaitCPUs(of.owner, owner)
		r.quiet()
	}
	on("0-1", "2-3", "4-5")
	n.SetOnline(nodefixture.AllCPUsBut(2, 3))
	on("0-1", "0-1", "4-5")
	adapted := func(what string) {
		t.Helper()
		r.view("adaption in the metrics: "+what, func(v *telemetry.View) bool { return strings.Contains(strings.Join(v.Adapted, "\n"), what) })
	}
	adapted("it runs on CPUs 0-1 together with the partitions")
	n.SetOnline(nodefixture.AllCPUsBut(0, 1))
	on("2-3", "2-3", "4-5")
	adapted("its pods are placed like any others")
	n.SetOnline(nodefixture.AllCPUsBut(4, 5, 6, 7))
	on("0-1", "2-3", "2-3")
	adapted("the pool is empty")
	n.SetOnline(nodefixture.AllCPUsBut())
	on("0-1", "2-3", "4-5")
	r.view("nothing adapted", func(v *telemetry.View) bool { return len(v.Adapted) == 0 })
}

// TestHotplugUnheard checks that the resync finds a change whose event was lost, and that a
// lost source of events is opened again.
func TestHotplugUnheard(t *testing.T) {
	n := newNode(t)
	n.YAML = strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 1s", 1)
	r := n.start()
	of := n.runInEachPool()
	state := func(want telemetry.SourceState) {
		t.Helper()
		r.view("source "+string(want), func(v *telemetry.View) bool { return v.Sources[telemetry.CPUs] == want })
	}
	state(telemetry.SourceOK)
	n.CPUs.LoseEvents()
	n.SetOnline(nodefixture.AllCPUsBut(4))
	r.within(2*time.Second, "the owner on other CPUs", func() bool { return n.State(of.owner).Effective.String() == "5,7" })
	n.CPUs.Fail(errors.New("no more uevents"))
	state(telemetry.SourceLost)
	n.CPUs.Fail(nil)
	state(telemetry.SourceOK)
}

// TestHotplugDuringRestart takes CPUs offline and online while no daemon runs. The next
// daemon remembers which CPUs of an owner are offline.
func TestHotplugDuringRestart(t *testing.T) {
	n := newNode(t)
	n.YAML = strings.Replace(n.YAML, "cpus: 4-7", "cpus: 4-6", 1)
	r := n.start()
	of := n.runInEachPool()
	r.quiet()
	r.stop()
	n.SetOnline(nodefixture.AllCPUsBut(5))
	r = n.start()
	n.AwaitCPUs(of.owner, "4")
	r.quiet()
	n.Eventually("journal", func() bool {
		for _, a := range n.Journal().Assignments {
			if a.PodUID == "a" && a.CPUs.String() == "4" && a.Away.String() == "5" {
				return true
			}
		}
		return false
	})
	r.stop()
	r = n.start()
	late := n.RunContainer(n.RunPod("c", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	r.quiet()
	n.AwaitCPUs(late, "2-3")
	r.stop()
	n.SetOnline(nodefixture.AllCPUsBut())
	r = n.start()
	n.AwaitCPUs(of.owner, "4-5")
	r.quiet()
	n.AwaitCPUs(late, "2-3")
	n.AwaitCPUs(of.other, "6")
}

// TestHotplugAndNRI checks the replies to the runtime while CPUs are offline.
func TestHotplugAndNRI(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	r := n.start()
	r.connected()
	r.quiet()
	of := n.runInEachPool()
	n.SetOnline(nodefixture.AllCPUsBut(5, 7))
	n.AwaitCPUs(of.owner, "4")
	pod := n.RunPod("c", "default", "guaranteed", 1, nil)
	_, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: nodefixture.WholeCPUs(1)})
	if err == nil || !strings.Contains(err.Error(), "0 of 2 CPUs of the guaranteed pool are free") {
		t.Fatalf("a container that there is no CPU for: %v; want a refusal with the numbers", err)
	}
	n.SetOnline(nodefixture.AllCPUsBut(5))
	n.AwaitCPUs(of.owner, "4,7")
	n.SetOnline(nodefixture.AllCPUsBut())
	r.quiet()
	late := n.RunContainer(pod, "app", nodefixture.WholeCPUs(1))
	if got := n.State(late).Effective.String(); got != "5" {
		t.Errorf("a container that is created when a CPU is back runs on %s; want 5 from the beginning", got)
	}
}

// TestHotplugTellsChanges checks that the log contains each change of the pools once.
func TestHotplugTellsChanges(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.quiet()
	n.SetOnline(nodefixture.AllCPUsBut(2, 3))
	n.Eventually("the adaption told", func() bool { return len(n.Logged("configuration in force")) == 2 })
	n.SetOnline(nodefixture.AllCPUsBut(2, 3, 7))
	n.Eventually("the next adaption told", func() bool { return len(n.Logged("configuration in force")) == 3 })
	r.quiet()
	told := make(map[any]int)
	for _, line := range n.Logged("configuration adapted to this machine") {
		told[line["adaption"]]++
	}
	if len(told) < 3 {
		t.Errorf("told these adaptions: %v; want those of both pools", told)
	}
	for what, times := range told {
		if times != 1 {
			t.Errorf("told %d times: %v; want 1", times, what)
		}
	}
	n.SetOnline(nodefixture.AllCPUsBut(2, 3, 7)) // only the topology differs
	r.quiet()
	if got := len(n.Logged("the online CPUs have changed")); got != 2 {
		t.Errorf("logged %d changes of the online CPUs; want 2", got)
	}
	if got := len(n.Logged("configuration in force")); got != 3 {
		t.Errorf("told %d times which configuration is in force; want 3", got)
	}
}
