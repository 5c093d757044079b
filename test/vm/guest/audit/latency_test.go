//go:build guest

package audit_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// TestLatencyRefuses checks that `cpupoold latency` measures no CPU with an owner, and that it states what a kernel without
// the tracers lacks. TestLatency of test/vm measures, on a kernel that has them.
func TestLatencyRefuses(t *testing.T) {
	n := &node{guestnode.New(t)}
	n.StartDaemon(config)
	n.Apply(manifest.Pod{Name: "owner", Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: "2", Memory: "32Mi", Limited: true}}})
	owner := n.running("owner", func(c guestnode.Container) bool { return c.Effective.Len() == 2 })
	n.Settled()
	owned := owner.Effective
	free := cpuset.Range(4, 7).Difference(owned)
	tracers, err := os.ReadFile("/sys/kernel/tracing/available_tracers")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(tracers), "osnoise") {
		t.Fatalf("the kernel has the tracer osnoise: %s; run the test of guest/latency on this kernel", tracers)
	}
	cpus, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an owner":   {[]string{"--cpus", cpuset.Range(4, 7).String()}, "belongs to container default/" + n.FullName("owner") + "/app: choose from " + free.String()},
		"a pool":     {[]string{"--cpus", "2"}, "CPU 2 is in the shared pool: choose from " + free.String()},
		"no CPU":     {[]string{"--cpus", "99"}, "CPU 99 is not online"},
		"the kernel": {nil, "the kernel lacks the tracer osnoise; it has: "},
		"timerlat":   {[]string{"--tracer", "timerlat", "--cpus", free.String()}, "the kernel lacks the tracer timerlat"},
	} {
		out, err := exec.CommandContext(n.Context(), "cpupoold", append([]string{"latency", "--duration", "1s"}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s (online: %s): %v, %s; want an error with %q", name, strings.TrimSpace(string(cpus)), err, out, c.want)
		}
		t.Logf("%s: %s", name, out)
	}
	if _, err := os.Stat("/run/cpupoold/latency.json"); err == nil {
		t.Error("a refused measurement leaves a journal")
	}
	if _, err := os.Stat("/sys/kernel/tracing/instances/cpupoold-latency"); err == nil {
		t.Error("a refused measurement leaves a tracing instance")
	}
}
