package view_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestWrites checks the counts of results, errors and changes of partitions.
func TestWrites(t *testing.T) {
	var c view.Writes
	partition := cgroup.Write{Via: cgroup.File, Property: cgroup.FilePartition}
	cpus := cgroup.Write{Via: cgroup.File, Property: cgroup.FileCPUs}
	for _, x := range []struct {
		w   cgroup.Write
		err error
	}{
		{partition, nil},
		{partition, cgroup.ErrGone}, // the write came too late and changed nothing
		{partition, fmt.Errorf("write: %w", unix.EBUSY)},
		{cpus, nil},
		{cpus, unix.Errno(4000)},
		{cgroup.Write{Via: cgroup.CRI}, fmt.Errorf("update: %w", context.DeadlineExceeded)},
		{cgroup.Write{Via: cgroup.DBus}, errors.New("no such unit")},
	} {
		c.Count(x.w, x.err)
	}
	var got telemetry.View
	c.Report(&got)
	want := telemetry.View{
		PartitionChanges: 1,
		Writes: map[telemetry.Write]uint64{
			{Via: "file", Result: telemetry.OK}: 3, {Via: "file", Result: telemetry.Failed}: 2,
			{Via: "cri", Result: telemetry.Failed}: 1, {Via: "dbus", Result: telemetry.Failed}: 1,
		},
		WriteErrors: map[telemetry.WriteError]uint64{
			{Via: "file", Errno: "EBUSY"}: 1, {Via: "file", Errno: telemetry.ErrnoOther}: 1,
			{Via: "cri", Errno: telemetry.ErrnoTimeout}: 1, {Via: "dbus", Errno: telemetry.ErrnoOther}: 1,
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
}
