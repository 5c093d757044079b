package daemon

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// newNRINode returns a node whose runtime asks before it creates a container.
func newNRINode(t testing.TB) *node {
	t.Helper()
	return newNodeWith(t, testnode.RuntimeConfig{NRI: true})
}

// connected waits until the runtime asks the daemon.
func (r *running) connected() {
	r.T.Helper()
	r.view("NRI connected", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceOK })
}

// TestNobodyBeginsOutside checks that with NRI the first process of each container begins in
// its pool, whichever containers have to move for it, and with late or lost events.
func TestNobodyBeginsOutside(t *testing.T) {
	for name, yaml := range map[string]string{"fixed": nodefixture.PoolsYAML, "carved": nodefixture.CarvedYAML} {
		t.Run(name, func(t *testing.T) {
			n := newNRINode(t)
			n.YAML = yaml
			r := n.start()
			r.connected()
			shared, own := cpuset.Range(2, 3), cpuset.Range(4, 7)
			if name == "carved" {
				shared, own = cpuset.Range(2, 7), cpuset.Range(2, 7)
			}
			var mu sync.Mutex
			var group sync.WaitGroup
			var taken cpuset.Set
			for i := range 12 {
				pod := n.RunPod("u"+string(rune('a'+i)), "default", []string{"guaranteed", "burstable"}[min(i%4, 1)], []int{1, 0, 0, 0}[i%4], nil)
				res := cri.Resources{Shares: 512}
				if i%4 == 0 {
					res = nodefixture.WholeCPUs(1)
				}
				group.Go(func() {
					id, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: res})
					if err == nil {
						err = n.Runtime.StartContainer(id)
					}
					if err != nil {
						t.Error(err)
						return
					}
					on := n.Runtime.BeganOn(id)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case i%4 == 0:
						if on.Len() != 1 || !on.IsSubsetOf(own) || on.Overlaps(taken) {
							t.Errorf("owner began on %s; want one CPU of %s, and none of %s", on, own, taken)
						}
						taken = taken.Union(on)
					case !on.IsSubsetOf(shared):
						t.Errorf("shared container began on %s", on)
					}
				})
			}
			group.Wait()
			r.quiet()
			if name == "fixed" {
				n.CheckOccupants()
			} else {
				n.CheckAssigned()
			}
		})
	}
}

// TestLostNRI checks that containers which are created without NRI are placed when CRI reports
// them, and that the connection is made again.
func TestLostNRI(t *testing.T) {
	n := newNRINode(t)
	r := n.start()
	r.connected()
	n.Runtime.NRIDown()
	r.view("NRI lost", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceLost })
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(excl, "4-5")
	if err := n.Runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	r.connected()
	id, on := n.BeginContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	if on.String() != "2-3" {
		t.Errorf("container %s began on %s; want 2-3", id, on)
	}
	r.quiet()
	n.CheckOccupants()
}

// TestNRIAlone checks that the daemon needs neither events nor listings while NRI is connected.
func TestNRIAlone(t *testing.T) {
	n := newNRINode(t)
	defer n.Runtime.Hang("GetContainerEvents")()
	r := n.start()
	r.connected()
	defer n.Runtime.Hang("ListContainers")()
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	id, on := n.BeginContainer(pod, "app", nodefixture.WholeCPUs(2))
	if on.String() != "4-5" {
		t.Errorf("container %s began on %s; want 4-5", id, on)
	}
	if err := n.Runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	if err := n.Runtime.RemovePod(pod); err != nil {
		t.Fatal(err)
	}
	if _, on = n.BeginContainer(n.RunPod("f", "default", "guaranteed", 4, nil), "app", nodefixture.WholeCPUs(4)); on.String() != "4-7" {
		t.Errorf("after the first has gone the second begins on %s; want 4-7", on)
	}
}

// TestFailedCreationLeavesNothing checks a container that the runtime removes because its
// creation failed.
func TestFailedCreationLeavesNothing(t *testing.T) {
	n := newNRINode(t)
	r := n.start()
	r.connected()
	first := n.RunPod("e", "default", "guaranteed", 4, nil)
	n.BeginContainer(first, "app", nodefixture.WholeCPUs(4))
	second := n.RunPod("f", "default", "guaranteed", 1, nil)
	for attempt := range 3 {
		if _, err := n.Runtime.CreateContainer(second, testnode.ContainerSpec{Name: "app", Attempt: uint32(attempt), Resources: nodefixture.WholeCPUs(1)}); err == nil {
			t.Fatal("created although no CPU is free")
		}
	}
	if err := n.Runtime.StopPod(first); err != nil {
		t.Fatal(err)
	}
	if err := n.Runtime.RemovePod(first); err != nil {
		t.Fatal(err)
	}
	n.Eventually("a CPU of its own, as the kubelet tries again", func() bool {
		id, err := n.Runtime.CreateContainer(second, testnode.ContainerSpec{Name: "app", Attempt: n.NextAttempt(second, "app") + 3, Resources: nodefixture.WholeCPUs(1)})
		return err == nil && n.Runtime.StartContainer(id) == nil && n.Runtime.BeganOn(id).Len() == 1
	})
	r.quiet()
	n.CheckOccupants()
}

// TestRestoreOfThoseBornWithNRI checks that restore brings containers that were created with
// NRI to the values that they would have had without the daemon.
func TestRestoreOfThoseBornWithNRI(t *testing.T) {
	populate := func(n *node) {
		n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
		n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
		n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	}
	without := newNRINode(t)
	populate(without)

	n := newNRINode(t)
	r := n.start()
	r.connected()
	populate(n)
	r.quiet()
	r.stop()
	if n.Dump() == without.Dump() {
		t.Fatal("the daemon has changed nothing")
	}
	report, err := n.restore()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Differs {
		if !d.Harmless {
			t.Errorf("%s %s is %q; want %q: %s", d.Path, d.File, d.Now, d.Value, d.Reason)
		}
	}
	if diff := cmp.Diff(without.Dump(), strings.ReplaceAll(n.Dump(), `cpus="0-7"`, `cpus=""`)); diff != "" {
		t.Errorf("tree (-without the daemon +restored):\n%s", diff)
	}
}
