package daemon

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// newNRINode is a node whose runtime asks before it creates a container.
func newNRINode(t testing.TB) *node {
	t.Helper()
	return newNodeWith(t, testnode.RuntimeConfig{NRI: true})
}

// connected waits until the runtime asks the daemon.
func (r *running) connected() {
	r.t.Helper()
	r.view("NRI connected", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceOK })
}

// begins makes a container and returns the CPUs that its first process began on, and
// what the runtime has recorded for it.
func (n *node) begins(pod, name string, res cri.Resources) (id string, on cpuset.Set) {
	n.t.Helper()
	id = n.container(pod, name, res)
	return id, n.runtime.BeganOn(id)
}

// TestNobodyBeginsOutside: with NRI the first process of each container begins in its
// pool, whoever has to move for it, and events come later or not at all.
func TestNobodyBeginsOutside(t *testing.T) {
	for name, yaml := range map[string]string{"fixed": poolsYAML, "carved": carvedYAML} {
		t.Run(name, func(t *testing.T) {
			n := newNRINode(t)
			n.yaml = yaml
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
				pod := n.pod("u"+string(rune('a'+i)), "default", []string{"guaranteed", "burstable"}[min(i%4, 1)], []int{1, 0, 0, 0}[i%4], nil)
				res := cri.Resources{Shares: 512}
				if i%4 == 0 {
					res = whole(1)
				}
				group.Go(func() {
					id, err := n.runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: res})
					if err == nil {
						err = n.runtime.StartContainer(id)
					}
					if err != nil {
						t.Error(err)
						return
					}
					on := n.runtime.BeganOn(id)
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
				n.check()
			} else {
				n.checkAll()
			}
		})
	}
}

// TestLostNRI: containers that are made while nobody is asked are placed when the
// runtime tells of them, and the connection comes back by itself.
func TestLostNRI(t *testing.T) {
	n := newNRINode(t)
	r := n.start()
	r.connected()
	n.runtime.NRIDown()
	r.view("NRI lost", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceLost })
	pod := n.pod("e", "default", "guaranteed", 2, nil)
	excl := n.container(pod, "app", whole(2))
	n.runsOn(excl, "4-5")
	if err := n.runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	r.connected()
	id, on := n.begins(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	if on.String() != "2-3" {
		t.Errorf("container %s began on %s; want 2-3", id, on)
	}
	r.quiet()
	n.check()
}

// TestNRIAlone: neither events nor listings are needed while NRI is there.
func TestNRIAlone(t *testing.T) {
	n := newNRINode(t)
	defer n.runtime.Hang("GetContainerEvents")()
	r := n.start()
	r.connected()
	defer n.runtime.Hang("ListContainers")()
	pod := n.pod("e", "default", "guaranteed", 2, nil)
	id, on := n.begins(pod, "app", whole(2))
	if on.String() != "4-5" {
		t.Errorf("container %s began on %s; want 4-5", id, on)
	}
	if err := n.runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	if err := n.runtime.RemovePod(pod); err != nil {
		t.Fatal(err)
	}
	if _, on = n.begins(n.pod("f", "default", "guaranteed", 4, nil), "app", whole(4)); on.String() != "4-7" {
		t.Errorf("after the first has gone the second begins on %s; want 4-7", on)
	}
}

// TestFailedCreationLeavesNothing: the runtime takes back what it could not create.
func TestFailedCreationLeavesNothing(t *testing.T) {
	n := newNRINode(t)
	r := n.start()
	r.connected()
	first := n.pod("e", "default", "guaranteed", 4, nil)
	n.begins(first, "app", whole(4))
	second := n.pod("f", "default", "guaranteed", 1, nil)
	for attempt := range 3 {
		if _, err := n.runtime.CreateContainer(second, testnode.ContainerSpec{Name: "app", Attempt: uint32(attempt), Resources: whole(1)}); err == nil {
			t.Fatal("created although no CPU is free")
		}
	}
	if err := n.runtime.StopPod(first); err != nil {
		t.Fatal(err)
	}
	if err := n.runtime.RemovePod(first); err != nil {
		t.Fatal(err)
	}
	n.eventually("a CPU of its own, as the kubelet tries again", func() bool {
		n.made[second+"/app"]++
		id, err := n.runtime.CreateContainer(second, testnode.ContainerSpec{Name: "app", Attempt: n.made[second+"/app"] + 3, Resources: whole(1)})
		return err == nil && n.runtime.StartContainer(id) == nil && n.runtime.BeganOn(id).Len() == 1
	})
	r.quiet()
	n.check()
}

// TestRestoreOfThoseBornWithNRI: they become what they would have been without the
// daemon, which never was so.
func TestRestoreOfThoseBornWithNRI(t *testing.T) {
	populate := func(n *node) {
		n.container(n.pod("m", "kube-system", "burstable", 0, management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
		n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
		n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	}
	without := newNRINode(t)
	populate(without)

	n := newNRINode(t)
	r := n.start()
	r.connected()
	populate(n)
	r.quiet()
	r.stop()
	if n.dump() == without.dump() {
		t.Fatal("the daemon has changed nothing")
	}
	h := n.host()
	report, err := restore.HostRestore(&h, t.Context(), n.journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Differs {
		if !d.Harmless {
			t.Errorf("%s %s is %q; want %q: %s", d.Path, d.File, d.Now, d.Value, d.Reason)
		}
	}
	if diff := cmp.Diff(without.dump(), strings.ReplaceAll(n.dump(), `cpus="0-7"`, `cpus=""`)); diff != "" {
		t.Errorf("tree (-without the daemon +restored):\n%s", diff)
	}
}
