//go:build guest

package daemon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// TestDriftRestarts checks that the daemon repairs drifts while the programs that write to cgroups restart, and
// that it moves no other container.
func TestDriftRestarts(t *testing.T) {
	long(t)
	n := newNode(t)
	wants := n.onePerPool()
	for _, restart := range [][]string{{"daemon-reexec"}, {"restart", "containerd"}, {"restart", "kubelet"}} {
		var hurt []container
		for i, lent := range []string{"2", "3", "3"} {
			c, err := n.find(wants[i].pod, wants[i].container)
			if err != nil {
				t.Fatal(err)
			}
			hurt = append(hurt, c)
			if i == 1 {
				continue // no write touches this victim
			}
			if err := n.fs.Write(c.path, cgroup.FileCPUs, lent); err != nil {
				t.Fatal(err)
			}
		}
		untouched := len(n.writesTo(hurt[1].path))
		if err := n.fs.Write(hurt[0].path, cgroup.FileWeight, "1234"); err != nil {
			t.Fatal(err)
		}
		// A kubelet that reconnects to a slow runtime creates the pod again. That is not part of this restart.
		alone := slices.Contains(restart, "containerd")
		if alone {
			n.run("systemctl", "stop", "kubelet")
		}
		n.run("systemctl", restart...)
		n.eventually("runtime", func() error { _, err := n.containers(); return err })
		n.placed(wants...)
		n.quiet()
		n.still(strings.Join(restart, " "), wants...)
		n.invariants()
		if all := n.writesTo(hurt[1].path); len(all) > untouched {
			t.Errorf("%v: writes to a container without drift = %v; want none", restart, all[untouched:])
		}
		t.Logf("%v: %v", restart, n.metrics("cpupoold_drift_total"))
		if alone {
			n.run("systemctl", "start", "kubelet")
		}
	}
}

// onePerPool starts a daemon whose resync is far away, and has it place one pod in each pool.
func (n *node) onePerPool() []want {
	n.Helper()
	for _, p := range manifest.EveryKind() {
		if slices.Contains([]string{"agent", "burstable", "exclusive"}, p.Name) {
			n.apply(p)
		}
	}
	n.startDaemon(hourly)
	wants := []want{{pod: "agent", container: "app", cpus: "0-1", weight: 59}, {pod: "burstable", container: "app", cpus: "2-3"}}
	n.placed(wants...)
	wants = append(wants, n.ownCPUs(want{pod: "exclusive", container: "app"}))
	n.quiet()
	return wants
}

// TestRuncUpdate checks that writes of an administrator with runc and systemctl do not last.
func TestRuncUpdate(t *testing.T) {
	n := newNode(t)
	wants := n.onePerPool()
	for i, cpus := range []string{"2-7", "3", "0-3"} {
		c, err := n.find(wants[i].pod, wants[i].container)
		if err != nil {
			t.Fatal(err)
		}
		n.run("runc", "--root", "/run/containerd/runc/k8s.io", "update",
			"--cpuset-cpus", cpus, "--cpu-share", "2000", "--cpu-period", "100000", "--cpu-quota", "150000", c.ID)
		n.placed(wants...)
	}
	n.quiet()
	n.run("systemctl", "daemon-reload")
	n.placed(wants...)
	n.quiet()
	n.still("runc update", wants...)
	n.invariants()
	t.Logf("%v", n.metrics("cpupoold_drift_total"))
}

// writesTo are the daemon's writes to a cgroup.
func (n *node) writesTo(p cgroup.Path) (all []any) {
	n.Helper()
	for _, r := range n.records("wrote") {
		if w, ok := r["write"].(map[string]any); ok && w["path"] == string(p) {
			all = append(all, w)
		}
	}
	return all
}
