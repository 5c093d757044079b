//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// plug takes a CPU away, or brings it back, and returns when the kernel has done so.
func (n *node) plug(cpu int, online bool) {
	n.Helper()
	if err := setOnline(cpu, online); err != nil {
		n.Fatal(err)
	}
}

func setOnline(cpu int, online bool) error {
	value := "0"
	if online {
		value = "1"
	}
	return os.WriteFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu), []byte(value), 0)
}

// TestHotplug takes CPUs of each pool offline and brings them back. The resync is an hour away, so that it is the kernel's event that moves
// containers.
func TestHotplug(t *testing.T) {
	for _, m := range newNode(t).modes() {
		t.Run(m.name, func(t *testing.T) { plugCPUs(t, m) })
	}
}

func plugCPUs(t *testing.T, m mode) {
	t.Helper()
	n := newNode(t)
	r := n.withoutKubelet()
	t.Cleanup(func() {
		for cpu := 1; cpu < 8; cpu++ {
			n.plug(cpu, true)
		}
	})
	n.startDaemon(m.config)
	management := r.mustStart(100, "kube-system", manifest.Management(nil))
	shared := r.mustStart(500, "default", nil)
	owner, other := r.mustStart(2000, "default", nil), r.mustStart(1000, "default", nil)
	on := func(what, managementCPUs, sharedCPUs, ownerCPUs, otherCPUs string) {
		t.Helper()
		begin := time.Now()
		for _, c := range []struct {
			pod
			cpus string
			owns bool
		}{{owner, ownerCPUs, true}, {other, otherCPUs, otherCPUs != sharedCPUs}, {shared, sharedCPUs, false}, {management, managementCPUs, false}} {
			typ := cgroup.MemberPartition
			if c.owns {
				typ = m.typ
			}
			r.eventually(what, func() error { return r.is(c.pod, typ, c.cpus) })
		}
		t.Logf("%s: after %v all are where they should be", what, time.Since(begin).Round(time.Millisecond))
	}
	on("all CPUs", "0-1", "2-3", "4-5", "6")
	n.eventually("the daemon listens to the kernel", func() error {
		_, body, err := n.get("/metrics")
		if err == nil && !strings.Contains(body, `cpupoold_source_state{source="cpu_hotplug",state="ok"} 1`) {
			err = errors.New("it does not")
		}
		return err
	})

	n.plug(1, false)
	n.plug(3, false)
	on("a CPU of management and one of shared are offline", "0", "2", "4-5", "6")
	n.plug(5, false)
	on("one of the owner's, and another is free", "0", "2", "4,7", "6")
	n.plug(6, false)
	on("all of the other's, and none is free", "0", "2", "4,7", "2")
	n.plug(4, false)
	on("one of the owner's, and none is free", "0", "2", "7", "2")
	n.eventually("shortage in the metrics", func() error {
		_, body, err := n.get("/metrics")
		for _, want := range []string{`cpupoold_problems{code="Offline"} 2`, `cpupoold_problems{code="Short"} 1`, "cpupoold_offline_cpus 5"} {
			if err == nil && !strings.Contains(body, want) {
				err = fmt.Errorf("no %s", want)
			}
		}
		return err
	})
	if plan := n.run("cpupoold", "plan"); !strings.Contains(plan, "offline: CPUs 1,3-6") {
		t.Errorf("plan does not report the offline CPUs:\n%s", plan)
	}
	n.plug(2, false)
	on("the last CPU of shared", "0", "0", "7", "0")

	n.plug(4, true)
	on("the owner's is back", "0", "0", "4,7", "0")
	n.plug(6, true)
	on("the other's is back", "0", "0", "4,7", "6")
	for _, cpu := range []int{1, 2, 3, 5} {
		n.plug(cpu, true)
	}
	on("all are back", "0-1", "2-3", "4,7", "6")
	n.quiet()
	n.invariants()
}
