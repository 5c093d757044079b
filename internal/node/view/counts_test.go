package view_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestPasses checks that a pass counts as unavailable only if a missing answer of the runtime
// or of systemd is the cause of all faults.
func TestPasses(t *testing.T) {
	away := fmt.Errorf("update cpuset of container c: %w: connection refused", cri.ErrUnavailable)
	hangs := fmt.Errorf("set AllowedCPUs of a.slice: %w", context.DeadlineExceeded)
	noSystemd := fmt.Errorf("set AllowedCPUs of a.slice: %w", &net.OpError{Op: "dial", Net: "unix", Err: unix.ECONNREFUSED})
	refused := fmt.Errorf("write cpuset.cpus: %w", unix.EBUSY)
	for name, c := range map[string]struct {
		faults map[cgroup.Path]error
		want   telemetry.Result
	}{
		"no fault":                                {nil, telemetry.OK},
		"the runtime is away":                     {map[cgroup.Path]error{"a": away}, telemetry.Unavailable},
		"systemd is away":                         {map[cgroup.Path]error{"a": noSystemd}, telemetry.Unavailable},
		"runtime and systemd do not answer":       {map[cgroup.Path]error{"a": away, "b": hangs}, telemetry.Unavailable},
		"the kernel refuses":                      {map[cgroup.Path]error{"a": refused}, telemetry.Failed},
		"the runtime is away, the kernel refuses": {map[cgroup.Path]error{"a": away, "b": refused}, telemetry.Failed},
		"the value differs, no write failed":      {map[cgroup.Path]error{"a": errors.New("cpuset.cpus is 0-7")}, telemetry.Failed},
	} {
		var counts view.Counts
		counts.AddPass(c.faults)
		var got telemetry.View
		counts.Report(&got)
		if d := cmp.Diff(map[telemetry.Result]uint64{c.want: 1}, got.Passes); d != "" {
			t.Errorf("%s: passes (-want +got):\n%s", name, d)
		}
	}
}

// TestWrites checks the counts of results, errors and changes of partitions.
func TestWrites(t *testing.T) {
	var c view.Counts
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
		c.AddWrite(x.w, x.err)
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
