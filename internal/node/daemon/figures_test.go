package daemon

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func TestErrno(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("write cpuset.cpus: %w", unix.EBUSY), "EBUSY"},
		{unix.Errno(4000), telemetry.ErrnoOther},
		{fmt.Errorf("update: %w", context.DeadlineExceeded), telemetry.ErrnoTimeout},
		{errors.New("no such unit"), telemetry.ErrnoOther},
	} {
		if got := view.Errno(tt.err); got != tt.want {
			t.Errorf("errno(%v) = %q; want %q", tt.err, got, tt.want)
		}
	}
}

func TestCountResult(t *testing.T) {
	s := newStatus()
	partition := cgroup.Write{Via: cgroup.File, Property: cgroup.FilePartition}
	s.countResult(partition, telemetry.OK, nil)
	s.countResult(partition, telemetry.OK, cgroup.ErrGone) // the write came too late and changed nothing
	s.countResult(partition, telemetry.Failed, unix.EBUSY)
	s.countResult(cgroup.Write{Via: cgroup.File, Property: cgroup.FileCPUs}, telemetry.OK, nil)
	if s.partitionChanges != 1 {
		t.Errorf("%d changes of partitions; want 1", s.partitionChanges)
	}
	if got := s.writeErrors[telemetry.WriteError{Via: "file", Errno: "EBUSY"}]; got != 1 || len(s.writeErrors) != 1 {
		t.Errorf("errors %v; want one EBUSY", s.writeErrors)
	}
	if got := s.writes[telemetry.Write{Via: "file", Result: telemetry.OK}]; got != 3 {
		t.Errorf("%d writes; want 3", got)
	}
}

// TestRequestOf checks requests against the shares that the kubelet makes of them, rounded
// down.
func TestRequestOf(t *testing.T) {
	for shares, want := range map[uint64]int64{0: 0, 2: 0, 102: 100, 1024: 1000, 1280: 1250, 262144: 256000} {
		if got := view.RequestOf(shares); got != want {
			t.Errorf("requestOf(%d) = %d; want %d", shares, got, want)
		}
	}
}

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
	room := r.loop.snapshot.Load().Room
	if want := 4; room.Pool != want || room.Node > want || room.L3 > want || room.WholeCores > want {
		t.Errorf("room %+v; want %d, and no more within anything", *room, want)
	}
}
