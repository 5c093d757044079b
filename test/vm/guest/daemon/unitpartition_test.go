//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// partitionSlice is a slice without processes.
const partitionSlice = "cpupooltest-unit.slice"

// TestUnitPartition makes a slice a cpuset partition by the writes of systemd 261 with CPUSetPartition=, because the images have older versions. It
// writes cpuset.cpus.exclusive in addition, and the slice is in another one: the cpuset.cpus of kubepods.slice contains its CPUs, so the kernel
// refuses a partition next to kubepods.slice.
// The pools are without the CPUs of the slice until the partition ends. The resync is an hour away, so that the daemon finds the change itself.
func TestUnitPartition(t *testing.T) {
	n := newNode(t)
	const outer = "/sys/fs/cgroup/cpupooltest.slice"
	file := filepath.Join(outer, partitionSlice, cgroup.FilePartition)
	t.Cleanup(func() {
		_ = os.WriteFile(file, []byte(cgroup.MemberPartition), 0) // an error if the slice does not exist
		_, _ = n.try("systemctl", "stop", partitionSlice)
		_, _ = n.try("systemctl", "revert", partitionSlice)
	})
	r := n.withoutKubelet()
	n.startDaemon(hourly)
	owner, shared := r.mustStart(2000, "default", nil), r.mustStart(500, "default", nil)
	management := r.mustStart(100, "kube-system", manifest.Management(nil))
	owned := r.onCPUs(owner, 2)
	place := func(what, sharedCPUs string) {
		t.Helper()
		n.eventually(what, func() error {
			return errors.Join(r.runsOn(owner, owned, 0), r.runsOn(shared, sharedCPUs, 0), r.runsOn(management, "0-1", 0))
		})
	}
	place("pools with all CPUs", "2-3")

	n.run("systemctl", "start", partitionSlice)
	n.run("systemctl", "set-property", "--runtime", partitionSlice, "AllowedCPUs=3,7")
	n.eventually("the CPUs of the slice", func() error {
		b, err := os.ReadFile(filepath.Join(outer, partitionSlice, cgroup.FileCPUs))
		if got := strings.TrimSpace(string(b)); err == nil && got != "3,7" {
			err = fmt.Errorf("cpuset.cpus is %q", got)
		}
		return err
	})
	exclusive := filepath.Join(outer, partitionSlice, cgroup.FileExclusive)
	if err := errors.Join(os.WriteFile(filepath.Join(outer, cgroup.FileExclusive), []byte("3,7"), 0), os.WriteFile(exclusive, []byte("3,7"), 0), os.WriteFile(file, []byte(cgroup.RootPartition), 0)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if got := strings.TrimSpace(string(b)); err != nil || got != string(cgroup.RootPartition) {
		t.Fatalf("%s is %q, %v; want a valid partition", file, got, err)
	}
	place("pools without the CPUs of the slice", "2")
	n.eventually("the problem", func() error {
		for _, p := range n.status().Problems {
			if p.Code == "CPUsWithheld" && p.Unit == partitionSlice && strings.Contains(p.Text, "CPUs 3,7") {
				return nil
			}
		}
		return fmt.Errorf("problems %+v", n.status().Problems)
	})
	if plan := n.run("cpupoold", "plan"); !strings.Contains(plan, "offline: CPUs 3,7") {
		t.Errorf("plan does not report the CPUs of the slice:\n%s", plan)
	}
	if out, _ := n.try("cpupoold", "check"); !strings.Contains(out, partitionSlice+" has CPUs 3,7") {
		t.Errorf("check does not report the partition: %s", out)
	}
	n.quiet()
	n.invariants()

	if err := errors.Join(os.WriteFile(file, []byte(cgroup.MemberPartition), 0), os.WriteFile(exclusive, []byte("\n"), 0),
		os.WriteFile(filepath.Join(outer, cgroup.FileExclusive), []byte("\n"), 0)); err != nil {
		t.Fatal(err)
	}
	place("pools with all CPUs again", "2-3")
	n.eventually("the end of the problem", func() error {
		if all := n.status().Problems; slices.ContainsFunc(all, func(p inspect.Problem) bool { return p.Code == "CPUsWithheld" }) {
			return fmt.Errorf("problems %+v", all)
		}
		return nil
	})
	n.quiet()
	n.invariants()
}
