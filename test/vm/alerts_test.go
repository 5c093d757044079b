//go:build vm

package vm_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/prometheus"
	"github.com/cpupoold/cpupoold/test/vm"
)

// alertFactor makes 15 minutes 45 seconds: the daemon's own pauses, which it does not shorten, still are shorter than what the rules wait for.
var alertFactor = flag.Int("alerts.factor", 20, "by what TestAlerts divides the durations of deploy/monitoring/rules.yaml")

// TestAlerts has Debian's Prometheus scrape the daemon of a node, and causes what the alerts of deploy/monitoring are for. The rules are
// those of the file but for their durations.
func TestAlerts(t *testing.T) {
	leave(t)
	rules, err := os.ReadFile("../../deploy/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	short, err := prometheus.Shorten(string(rules), *alertFactor)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("all durations of the rules are divided by %d", *alertFactor)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	file := t.TempDir() + "/rules.yaml"
	if err := os.WriteFile(file, []byte(short), 0o644); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{file: "/opt/prometheus/rules.yaml", prometheusProgram(t): "/opt/prometheus/prometheus"} {
		if err := m.CopyTo(t.Context(), from, to); err != nil {
			t.Fatal(err)
		}
	}
	vm.RunTests(t, m, "./guest/alerts", fmt.Sprintf("-factor=%d", *alertFactor))
}

// prometheusProgram is that of this host's release of Debian. It needs nothing but a C library, which guests have; as a package of the
// guest's it would need an image of its own.
func prometheusProgram(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../monitoring/promtool.sh", "prometheus")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("fetch Prometheus: %v", err)
	}
	return strings.TrimSpace(string(out))
}
