//go:build vm

package vm_test

import (
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// Three hundred steps, and more kinds of them, take a quarter of an hour: `make test-model`.
var (
	modelSteps = flag.Int("model.steps", 100, "steps of TestDaemon/TestModel")
	modelSeed  = flag.Uint64("model.seed", 1, "seed of TestDaemon/TestModel")
	modelMore  = flag.Bool("model.more", false, "TestDaemon/TestModel resizes containers, takes CPUs offline, and makes owners partitions")
	modelSuite = flag.String("model.suite", "", "Debian suite of TestDaemon's machine; if empty, the suite of all tests")
)

// TestDaemon runs cpupoold as a systemd unit, and as a container, on a node with real containers.
func TestDaemon(t *testing.T) {
	chosen := chosenParts(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: *modelSuite})
	installDaemon(t, m)
	installImage(t, m)
	args := append(chosen, installEarlier(t, m)...)
	model := []string{fmt.Sprintf("-steps=%d", *modelSteps), fmt.Sprintf("-seed=%d", *modelSeed), fmt.Sprintf("-more=%t", *modelMore)}
	vm.RunTests(t, m, "./guest/daemon", append(args, model...)...)
}

var earlier = flag.String("earlier", vm.EarlierRevision, "revision that TestDaemon/TestUpgrade upgrades from and goes back to")

// installEarlier puts the daemon of that revision into the guest, and returns the argument with its path. A clone may lack the revision,
// as in CI; then it returns no argument, and TestUpgrade logs the reason.
func installEarlier(t *testing.T, m *vm.VM) []string {
	t.Helper()
	const to = "/usr/local/lib/cpupoold-earlier"
	program, err := vm.BuildRevision(t.Context(), *earlier, "cmd/cpupoold")
	if errors.Is(err, vm.ErrNoRevision) {
		t.Log(err)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CopyTo(t.Context(), program, to); err != nil {
		t.Fatal(err)
	}
	return []string{"-earlier=" + to}
}

var driftSuite = flag.String("drift.suite", "", "Debian suite of TestDrift's machine; if empty, the suite of all tests")

// TestDrift writes to the cgroups of real containers behind the daemon's back, and starts containers without NRI.
func TestDrift(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: *driftSuite})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/daemon", "-drift", "-test.run=^(TestDrift.*|TestUnidentified)$")
}

// installDaemon copies the daemon and its unit into the guest, to the paths that docs/how-to/install/systemd.md names.
func installDaemon(t *testing.T, m *vm.VM) {
	t.Helper()
	if err := m.CopyTo(t.Context(), buildDaemon(t), "/usr/local/bin/cpupoold"); err != nil {
		t.Fatal(err)
	}
	if err := m.CopyTo(t.Context(), "../../systemd/cpupoold.service", "/etc/systemd/system/cpupoold.service"); err != nil {
		t.Fatal(err)
	}
	run(t, m, "systemctl", "daemon-reload")
}

// buildDaemon returns a static binary for the guest.
func buildDaemon(t *testing.T) string {
	t.Helper()
	daemon := filepath.Join(t.TempDir(), "cpupoold")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", daemon, "../../cmd/cpupoold")
	build.Env = append(build.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build cpupoold: %v: %s", err, out)
	}
	return daemon
}
