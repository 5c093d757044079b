//go:build guest

package idle_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const (
	window  = time.Minute
	windows = 3
	// settle is the time between the last change of a container and the first window. The first release of memory is in it.
	settle = time.Minute

	// maxCalls is the maximum number of system calls in a minute, without the calls of the audit and of Go's scheduler.
	maxCalls = 600
	// maxCallsPerTask is the maximum of a scan of the audit for each task of the node.
	maxCallsPerTask = 12
)

// configuration is for eight CPUs. All other keys have their defaults, resyncPeriod too.
const configuration = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
staticPods: [kube-system]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-7
`

// TestIdle measures the CPU time of the daemon in windows of a minute without a change of a container. The node has an exclusive container and a
// shared one, each in a static pod. Then it traces a minute, and logs each activity of the daemon in it: its time, its CPU time and its system calls.
// The CPU time of an emulated node depends on the other work of its host, so only the number of system calls is limited.
func TestIdle(t *testing.T) {
	n := start(t, configuration)
	<-time.After(settle)
	for i := range windows {
		before := cpuTime(t)
		<-time.After(window)
		t.Logf("window %d: %v of CPU time", i+1, cpuTime(t)-before)
	}
	calls := 0
	for _, a := range trace(t, pidOf(n)) {
		t.Log(a)
		work, tasks := a.work(), a.calls["sched_getaffinity"]
		if !a.isAudit() {
			calls += work
		} else if work > maxCallsPerTask*tasks {
			t.Errorf("the audit made %d system calls for %d tasks; want at most %d for each", work, tasks, maxCallsPerTask)
		}
	}
	if calls > maxCalls {
		t.Errorf("%d system calls in a minute; want at most %d", calls, maxCalls)
	}
}

// start starts the daemon and two pods, and waits until the daemon has nothing left to write.
func start(t *testing.T, config string) *guestnode.Node {
	t.Helper()
	n := guestnode.New(t)
	n.StartDaemon(config)
	n.AwaitNRI()
	n.Apply(
		manifest.Pod{Name: "exclusive", Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: "1", Memory: "20Mi", Limited: true}}},
		manifest.Pod{Name: "shared", Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: "100m", Memory: "20Mi"}}},
	)
	for _, pod := range []string{"exclusive", "shared"} {
		n.Eventually("start of "+pod, func() error { _, err := n.Find(pod, "app"); return err })
	}
	n.Settled()
	return n
}

func pidOf(n *guestnode.Node) string {
	return strings.TrimSpace(n.Run("systemctl", "show", "-P", "MainPID", "cpupoold"))
}

// cpuTime returns the CPU time of the daemon's unit.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/sys/fs/cgroup/system.slice/cpupoold.service/cpu.stat")
	if err != nil {
		t.Fatal(err)
	}
	var µs int64
	if _, err := fmt.Sscanf(string(text), "usage_usec %d", &µs); err != nil {
		t.Fatal(err)
	}
	return time.Duration(µs) * time.Microsecond
}
