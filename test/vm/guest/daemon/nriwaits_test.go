//go:build guest

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestNRIWaits restarts the daemon while containerd stops a pod with a long grace period. containerd
// connects the daemon after the stop only. Until then, the daemon reports that, and repairs cpusets.
func TestNRIWaits(t *testing.T) {
	n := newNode(t)
	if n.image.Name != "containerd" || !n.image.NRI {
		t.Skip("the image has no containerd with NRI")
	}
	r := n.withoutKubelet()
	n.startDaemon(hourly)
	n.nriConnected()
	owner, other, ending := r.mustStart(2000, "default", nil), r.mustStart(500, "default", nil), r.mustStart(300, "default", nil)
	cpus := r.onCPUs(owner, 2)
	n.eventually("the other pod", func() error { return r.runsOn(other, "2-3", 0) })

	processes, err := n.processes(ending.path)
	if err != nil || len(processes) != 1 {
		t.Fatalf("processes of the pod = %v, %v; want one", processes, err)
	}
	pid := slices.Collect(maps.Keys(processes))[0]
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil { // a stopped process does not handle SIGTERM
		t.Fatal(err)
	}
	defer func() { _ = unix.Kill(pid, unix.SIGCONT) }() // after a failure; otherwise it has ended
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*nodeTimeout)
		defer cancel()
		_, err := r.rpc.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: ending.container, Timeout: int64(nodeTimeout.Seconds())})
		stopped <- err
	}()
	n.eventually("SIGTERM of the stop", func() error { return awaitsSignal(pid, unix.SIGTERM) })
	n.run("systemctl", "kill", "--signal=KILL", "cpupoold")

	waits := func() bool {
		return slices.ContainsFunc(n.status().Problems, func(p inspect.Problem) bool { return p.Code == "NRIWaits" })
	}
	n.eventually("the record in the log", func() error {
		if len(n.records("NRI waits; the problem NRIWaits states the effect")) == 0 {
			return errors.New("no record")
		}
		return nil
	})
	n.eventually("the problem", func() error {
		if !waits() {
			return fmt.Errorf("problems %+v", n.status().Problems)
		}
		return nil
	})
	if err := n.fs.Write(other.path, cgroup.FileCPUs, "0-7"); err != nil {
		t.Fatal(err)
	}
	n.eventually("the repair", func() error { return r.runsOn(other, "2-3", 0) })
	select {
	case err := <-stopped:
		t.Fatalf("StopContainer has returned: %v", err)
	default:
	}
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop container: %v", err)
	}
	n.nriConnected() // the log of this daemon only
	n.eventually("the end of the problem", func() error {
		if waits() {
			return errors.New("it is still reported")
		}
		return nil
	})
	if now := r.onCPUs(owner, 2); now != cpus {
		t.Errorf("CPUs of the owner = %s; want %s as before", now, cpus)
	}
	n.quiet()
	n.invariants()
}

// awaitsSignal returns an error if no signal waits until the process continues.
func awaitsSignal(pid int, signal unix.Signal) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "ShdPnd:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			if err == nil && set&(1<<(signal-1)) == 0 {
				err = fmt.Errorf("signals that wait: %#x", set)
			}
			return err
		}
	}
	return errors.New("no line ShdPnd")
}
