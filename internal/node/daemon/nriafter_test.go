package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// makeBusy makes the kernel refuse writes to the cgroup of a container.
func (n *node) makeBusy(id string) {
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		if strings.Contains(w.Name, id) {
			return errors.New("device or resource busy")
		}
		return nil
	})
}

// checkSeparate checks that containers run on none of the CPUs of an owner, and that the
// runtime has recorded their CPUs.
func (n *node) checkSeparate(owner string, containers ...string) {
	n.T.Helper()
	for _, id := range containers {
		st := n.State(id)
		if st.Effective.Overlaps(n.State(owner).Effective) {
			n.T.Errorf("%s runs on %s, with the owner", id, st.Effective)
		}
		c, err := n.Client.ContainerStatus(n.T.Context(), id)
		if err != nil || c.Recorded.CPUs != st.CPUs.String() {
			n.T.Errorf("recorded for %s is %q, %v; want %s", id, c.Recorded.CPUs, err, st.CPUs)
		}
	}
}

// stuckNode returns a node with a shared container that cannot be moved.
func stuckNode(t *testing.T, onRefusal string) (*node, *running) {
	n := newNRINode(t)
	n.YAML = strings.Replace(nodefixture.CarvedYAML, "  floor: 2\n", "  floor: 2\n  onRefusal: "+onRefusal+"\n", 1)
	r := n.start()
	r.connected()
	stuck := n.RunContainer(n.RunPod("s1", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(stuck, "2-7")
	r.quiet()
	n.makeBusy(stuck)
	return n, r
}

// TestWhoWasLetIntoTheSharedPoolStarts checks that a container which was created in the shared
// pool starts, and gets exclusive CPUs when they are free.
func TestWhoWasLetIntoTheSharedPoolStarts(t *testing.T) {
	n, r := stuckNode(t, "shared")
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	var id string
	var on cpuset.Set
	r.skipDuring(2*waits.Timeout, "a start", func() { id, on = n.BeginContainer(pod, "app", nodefixture.WholeCPUs(2)) })
	if on.Len() != 4 {
		t.Errorf("it began on %s; want the shared pool without the two CPUs that wait for it", on)
	}
	n.Tree.Intercept(nil)
	r.within(2*time.Second, "CPUs of its own", func() bool { return n.State(id).Effective.Len() == 2 })
}

// TestFightKeepsNoOwnerAway checks that a container for which repairs pause still leaves the
// CPUs of a new owner.
func TestFightKeepsNoOwnerAway(t *testing.T) {
	n := driftNode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 512})
	n.AwaitCPUs(id, "2-7")
	r.settled()
	r.view("contested", func(v *telemetry.View) bool {
		contested := v.Problems[string(retry.CodeContested)] == 1
		if !contested && n.State(id).CPUs.String() == "2-7" {
			n.WriteFile(id, cgroup.FileCPUs, "4-7") // a part of its own CPUs
		}
		return contested
	})
	a := r.asker()
	pod := ofPod("e", "default", "guaranteed", 4, nil)
	n.Eventually("an owner in spite of it", func() bool {
		_, err := a.create(pod, a.container(pod, "app", nodefixture.WholeCPUs(4)))
		return err == nil
	})
	if got := n.State(id).Effective; got.Len() != 2 {
		t.Errorf("the other one is on %s", got)
	}
}

// TestManyGiveWay checks that the reply has few updates, since all creations wait for the
// runtime to make them, and that the other containers leave by writes to files.
func TestManyGiveWay(t *testing.T) {
	n := newNRINode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	r.connected()
	pod := n.RunPod("s", "default", "burstable", 0, nil)
	var ids []string
	const most = 8 // updates in a reply
	for i := range 3 * most {
		ids = append(ids, n.RunContainer(pod, fmt.Sprint("app", i), cri.Resources{Shares: 512}))
	}
	// For a pod that reports its CPUs the daemon would reserve them at once. If that pass came
	// before the request, containers would leave in it, and no reply would be open.
	owners := n.RunPod("e", "default", "guaranteed", 0, nil)
	r.quiet()
	own, on := n.BeginContainer(owners, "app", nodefixture.WholeCPUs(2))
	if on.Len() != 2 {
		t.Fatalf("the owner began on %s", on)
	}
	for _, id := range ids {
		if got := n.State(id).Effective; got.Overlaps(n.State(own).Effective) {
			t.Errorf("%s is on %s", id, got)
		}
	}
	r.quiet()
	n.CheckAssigned()
	n.checkSeparate(own, ids...)
	if got := r.loop.publisher.Metrics().Writes[telemetry.Write{Via: "nri", Result: telemetry.OK}]; got != most {
		t.Errorf("%d updates in the reply; want %d", got, most)
	}
}

// TestStartOfOneThatIsNotKnown checks the start of a container that was created without NRI.
func TestStartOfOneThatIsNotKnown(t *testing.T) {
	n := newNRINode(t)
	defer n.Runtime.Hang("GetContainerEvents")()
	r := n.start()
	r.connected()
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	n.Runtime.NRIDown()
	r.view("NRI lost", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceLost })
	id, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: nodefixture.WholeCPUs(2)})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	r.connected()
	if err := n.Runtime.StartContainer(id); err != nil {
		t.Fatal(err)
	}
	if on := n.Runtime.BeganOn(id); on.String() != "4-5" {
		t.Errorf("it began on %s; want 4-5", on)
	}
}

// TestGhosts checks that a failed creation without a report leaves nothing after the next
// request for the same name, or after the end of the pod.
func TestGhosts(t *testing.T) {
	a := newNode(t).start().asker()
	pod := ofPod("e", "default", "guaranteed", 2, nil)
	for range 3 {
		a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
	}
	count := func() (containers int) {
		a.inspect(func(l *Loop) { _, containers = l.inventory.Objects().Len() })
		return containers
	}
	if n := count(); n != 1 {
		t.Errorf("%d containers are known; want the last", n)
	}
	a.hooks.RemovePod(pod.ID)
	if n := count(); n != 0 {
		t.Errorf("%d containers are known after the pod; want none", n)
	}
}
