//go:build guest

package bench_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/samples"
)

var out = flag.String("out", "/var/lib/bench.txt", "file to which the samples are appended")

const (
	configFile    = "/etc/cpupoold/config.yaml"
	cgroupMount   = "/sys/fs/cgroup"
	runtimeSocket = "unix:///run/containerd/containerd.sock"

	// nodeTimeout is the timeout of each step on the node: it is emulated.
	nodeTimeout = 5 * time.Minute
)

// config keeps the defaults of all other keys, the resync included. No container waits for the NUMA nodes of devices: the kubelet is stopped and
// cannot report them.
const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-7
podResourcesSocket: none
logFormat: json
`

// shared are the CPUs of the shared pool in config.
func shared() cpuset.Set { return cpuset.Range(2, 3) }

// guaranteed are the CPUs of the guaranteed pool in config.
func guaranteed() cpuset.Set { return cpuset.Range(4, 7) }

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// startDaemon starts the unit in the place of the kubelet, which would end pods that it does not know.
func startDaemon(t *testing.T) {
	t.Helper()
	run(t, "systemctl", "stop", "kubelet")
	if err := os.MkdirAll(filepath.Dir(configFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(configFile, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "systemctl", "start", "cpupoold")
}

// eventually waits until cond returns nil.
func eventually(t *testing.T, every time.Duration, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(nodeTimeout)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %v", err)
		}
		<-tick.C
	}
}

// quiet waits until nothing is left to write.
func quiet(t *testing.T) {
	t.Helper()
	eventually(t, time.Second, func() error {
		var p struct{ Writes, Deferred []json.RawMessage }
		out, err := exec.CommandContext(t.Context(), "cpupoold", "plan", "-o", "json").Output()
		if err != nil {
			return fmt.Errorf("cpupoold plan: %w", err) // the runtime is too busy to answer
		}
		if err := json.Unmarshal(out, &p); err != nil {
			return err
		}
		if len(p.Writes) > 0 || len(p.Deferred) > 0 {
			return fmt.Errorf("still to do: %s %s", p.Writes, p.Deferred)
		}
		return nil
	})
}

func sample(t *testing.T, name string, values ...any) {
	t.Helper()
	samples.Append(t, *out, name, 1, values...)
}
