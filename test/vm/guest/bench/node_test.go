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
)

var out = flag.String("out", "/var/lib/bench.txt", "file to which the samples are appended")

const (
	configFile = "/etc/cpupoold/config.yaml"

	// patience is how long the node may take for anything: it is emulated.
	patience = 5 * time.Minute
)

// config leaves what it does not name at its default, the resync too.
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
logFormat: json
`

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
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %v", err)
		}
		<-tick.C
	}
}

// quiet waits until nothing is left to write.
func quiet(t *testing.T) {
	t.Helper()
	eventually(t, time.Second, func() error {
		var p struct{ Writes, Deferred []json.RawMessage }
		if err := json.Unmarshal([]byte(run(t, "cpupoold", "plan", "-o", "json")), &p); err != nil {
			return err
		}
		if len(p.Writes) > 0 || len(p.Deferred) > 0 {
			return fmt.Errorf("still to do: %s %s", p.Writes, p.Deferred)
		}
		return nil
	})
}

// sample appends one line in the format of Go benchmarks: values and their units.
func sample(t *testing.T, name string, values ...any) {
	t.Helper()
	f, err := os.OpenFile(*out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSuffix(fmt.Sprintln(append([]any{"Benchmark" + name, 1}, values...)...), "\n")
	t.Log(line)
	_, err = fmt.Fprintln(f, line)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
