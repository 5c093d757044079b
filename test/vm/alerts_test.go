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

// alertFactor turns 15 minutes into 45 seconds. The daemon's own pauses stay as they are, and are shorter than the rules' shortened durations.
var alertFactor = flag.Int("alerts.factor", 20, "by what TestAlerts divides the durations of deploy/monitoring/rules.yaml")

// TestAlerts lets Debian's Prometheus scrape the daemon of a node, and causes the symptoms of the alerts of deploy/monitoring. The rules
// are those rules with shorter durations.
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

// prometheusProgram returns Prometheus of the host's release of Debian. It needs only a C library, which guests have. As a package of
// the guest it would need its own image.
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
