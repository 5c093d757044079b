//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// parking is isolating with free CPUs parked.
func (n *node) parking() string {
	n.Helper()
	return strings.Replace(n.isolating(), "cpus: 4-7\n", "cpus: 4-7\n  park: true\n", 1)
}

// parks waits until exactly these CPUs are parked in the kernel. Without CPUs, it waits until no such partition
// exists.
func (n *node) parks(when, cpus string) {
	n.Helper()
	n.eventually(fmt.Sprintf("CPUs %q parked %s", cpus, when), func() error {
		st, err := n.fs.Read(cgroup.Parking)
		if err != nil {
			return err
		}
		root, err := n.fs.Read("")
		switch {
		case err != nil:
			return err
		case cpus == "" && st.Partition.Is(cgroup.MemberPartition):
			return nil
		case !st.Partition.Is(cgroup.IsolatedPartition) || st.Effective.String() != cpus || root.Effective.Overlaps(st.Effective):
			return fmt.Errorf("%s is %s with CPUs %s, and the root has %s", cgroup.Parking, st.Partition, st.Effective, root.Effective)
		}
		return nil
	})
}

// TestParking follows free CPUs while systemd writes, owners start and stop, the daemon is killed, and restore runs. The resync is an hour
// away.
func TestParking(t *testing.T) {
	n := newNode(t)
	n.needsPartitions()
	r := n.withoutKubelet()
	n.notRestarted()
	n.startDaemon(n.parking())
	n.nriConnected()
	all := cpuset.Range(0, 7)
	outside := n.outsider()
	n.parks("when the daemon has started", "4-7")
	outside.keptOff("while they have no owner", cpuset.Range(4, 7))

	// systemd does not change unknown directories, and keeps the controller.
	for _, command := range []string{"daemon-reload", "daemon-reexec"} {
		n.run("systemctl", command)
		n.run("systemd-run", "--wait", "--property=AllowedCPUs=0", "true") // the last that needs the controller
		if st, err := n.fs.Read(cgroup.Parking); err != nil || !st.Partition.Is(cgroup.IsolatedPartition) || st.Effective.String() != "4-7" {
			t.Errorf("parking after %s = %s, %s, %v; want an isolated partition with 4-7", command, st.Partition, st.Effective, err)
		}
	}

	owner := r.beginsParted(2000, "4-5")
	n.parks("next to an owner", "6-7")
	outside.keptOff("with an owner", cpuset.Range(4, 7))
	shared := r.mustStart(500, "default", nil)
	r.eventually("the shared one", func() error { return r.allowed(shared, "2-3") })

	if err := n.fs.Write(cgroup.Parking, cgroup.FilePartition, "member"); err != nil {
		t.Fatal(err)
	}
	n.parks("again, after another process has ended it", "6-7")

	n.run("systemctl", "kill", "-s", "KILL", "cpupoold")
	n.eventually("end of the daemon", func() error {
		if state, _ := n.try("systemctl", "is-active", "cpupoold"); strings.TrimSpace(state) != "failed" {
			return errors.New("its unit is " + state)
		}
		return nil
	})
	outside.keptOff("with the daemon dead", cpuset.Range(4, 7))
	n.startDaemon(n.parking())
	n.nriConnected()
	n.parks("with a new daemon", "6-7")
	if err := r.parted(owner, cgroup.RootPartition, "4-5"); err != nil {
		t.Errorf("after the daemon's end: %v", err)
	}
	n.eventually("parked CPUs in the metrics", func() error {
		_, body, err := n.get("/metrics")
		for _, want := range []string{"cpupoold_parked_cpus 2", `cpupoold_partitions{state="isolated"} 0`, "cpupoold_leaked_cpus 0"} {
			if err == nil && !strings.Contains(body, want) {
				err = errors.New("no " + want)
			}
		}
		return err
	})

	r.removePod(owner)
	n.parks("when the owner has ended", "4-7")
	last := r.mustStart(4000, "default", nil)
	r.eventually("an owner of all", func() error { return r.parted(last, cgroup.RootPartition, "4-7") })
	n.parks("when there is nothing left to park", "")
	r.removePod(last)
	n.parks("when it has ended", "4-7")
	n.quiet()
	n.invariants()

	n.stopDaemon()
	n.run("cpupoold", "restore")
	n.rootHas(all)
	if _, err := n.fs.Read(cgroup.ParkingTop); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("restore leaves %s: %v", cgroup.ParkingTop, err)
	}
	if lists := n.lists(); len(lists) > 0 {
		t.Errorf("exclusive lists after restore = %v; want none", lists)
	}
}
