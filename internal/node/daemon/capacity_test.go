package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestRoom checks that the free capacity follows each owner that starts or ends.
func TestRoom(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	r := n.start()
	fits := func(want int) {
		t.Helper()
		r.view("room", func(v *telemetry.View) bool { return v.Room != nil && v.Room.Pool == want })
	}
	r.quiet()
	fits(4)
	pod := n.RunPod("g", "default", "guaranteed", 2, nil)
	n.AwaitCPUs(n.RunContainer(pod, "du", nodefixture.WholeCPUs(2)), "4-5")
	fits(2)
}

// TestRoomLeavesTheFloor checks that the CPUs which the shared pool keeps are not free
// capacity.
func TestRoomLeavesTheFloor(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	r.view("room", func(v *telemetry.View) bool { return v.Room != nil })
	r.quiet()
	room := r.loop.publisher.Metrics().Room
	if want := 4; room.Pool != want || room.Node > want || room.L3 > want || room.WholeCores > want {
		t.Errorf("room %+v; want %d, and no more within anything", *room, want)
	}
}

// TestCapacityOfContainer checks that a node in a container with CPUs 0-5 of eight advertises these
// CPUs only.
func TestCapacityOfContainer(t *testing.T) {
	n := newNode(t)
	n.Tree.SetLimit(cpuset.Range(0, 5))
	r := n.start()
	r.quiet()
	want := []capacity.Pool{{Resource: sharedCPUs, Milli: 2000}, {Resource: guaranteedCPUs, Milli: 2000}, {Resource: managementCores, Milli: 6000}}
	if diff := cmp.Diff(want, r.shown().Pools); diff != "" {
		t.Errorf("pools of the Node (-want +got):\n%s", diff)
	}
}
