//go:build vm

package vm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm"
)

const unplugConfig = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
containerRuntimeEndpoint: none
partitions:
- {type: management, cpus: 0}
shared: {cpus: 1}
guaranteed: {cpus: 2-7}
units:
  cu.service: {cpus: 2}
  du.service: {cpus: 2}
resyncPeriod: 1h
`

// TestUnplug takes CPUs out of a machine that runs, with their devices. TestDaemon/TestHotplug switches them off and on; they stay in sysfs.
func TestUnplug(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	put(t, m, "/etc/cpupoold/config.yaml", unplugConfig)
	for _, unit := range []string{"cu", "du"} {
		put(t, m, "/etc/systemd/system/"+unit+".service", "[Service]\nExecStart=sleep infinity\n")
	}
	on := func(what, cu, du string) {
		t.Helper()
		eventually(t, m, what, func() error {
			got := run(t, m, "sh", "-c", "cd /sys/fs/cgroup/system.slice && cat cu.service/cpuset.cpus.effective du.service/cpuset.cpus.effective")
			if want := cu + "\n" + du; got != want {
				return fmt.Errorf("cu and du run on %q; want %q", got, want)
			}
			return nil
		})
	}
	unplug := func(cpu int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := m.UnplugCPU(ctx, cpu); err != nil {
			t.Fatal(err)
		}
	}

	run(t, m, "systemctl", "daemon-reload")
	run(t, m, "systemctl", "start", "cu.service", "du.service", "cpupoold.service")
	on("all are there", "2-3", "4-5")
	unplug(5)
	on("one of an owner's has gone, and another is free", "2-3", "4,6")
	unplug(7)
	unplug(6)
	on("none is free", "2-3", "4")
	// The kernel takes a CPU out of its list after it has let go of it.
	eventually(t, m, "the kernel's list", func() error {
		if got := run(t, m, "cat", "/sys/devices/system/cpu/present"); got != "0-4" {
			return fmt.Errorf("CPUs in the machine: %s; want 0-4", got)
		}
		return nil
	})
	run(t, m, "systemctl", "restart", "cpupoold.service")
	on("after a restart", "2-3", "4")
	unplug(4)
	on("none of its own is left", "2-3", "1")
	if log := run(t, m, "journalctl", "--no-pager", "-o", "cat", "-u", "cpupoold"); strings.Contains(log, "level=ERROR") {
		t.Errorf("errors in the daemon's log; want none:\n%s", log)
	}
}

// put writes a file into the guest.
func put(t *testing.T, m *vm.VM, name, content string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.CopyTo(t.Context(), file, name); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until cond returns nil.
func eventually(t *testing.T, m *vm.VM, what string, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s: %v\n%s", what, err, run(t, m, "journalctl", "--no-pager", "-o", "cat", "-n", "40", "-u", "cpupoold"))
		}
		<-tick.C
	}
}
