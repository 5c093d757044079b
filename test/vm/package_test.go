//go:build vm

package vm_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm"
)

var dist = flag.String("dist", "", "`directory` of release files, as make release writes it, for TestPackage")

// TestPackage installs the packages of a release on machines without a container runtime, uses the daemon, and removes it.
func TestPackage(t *testing.T) {
	leave(t)
	if *dist == "" {
		t.Skip("no release files; run make release, and name the directory with -dist")
	}
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			m := vm.Start(t, vm.Config{Topology: "8c2n", Suite: suite})
			for _, name := range []string{"cpupoold", "kubectl-cpupool"} {
				found, err := filepath.Glob(filepath.Join(*dist, name+"_*_amd64.deb"))
				if err != nil || len(found) != 1 {
					t.Fatalf("packages of %s in %s: %q, %v; want one", name, *dist, found, err)
				}
				if err := m.CopyTo(t.Context(), found[0], "/var/tmp/"+name+".deb"); err != nil {
					t.Fatal(err)
				}
			}
			testPackage(t, m)
		})
	}
}

func testPackage(t *testing.T, m *vm.VM) {
	t.Helper()
	shell := func(script string) string {
		t.Helper()
		return run(t, m, "sh", "-euc", script)
	}
	state := func(what string) string {
		t.Helper()
		return shell("systemctl show --value -p " + what + " cpupoold.service")
	}
	// The CPUs of a unit with two exclusive CPUs, as the kernel has them.
	exclusive := func(want int) {
		t.Helper()
		eventually(t, m, fmt.Sprintf("du.service runs on %d CPUs", want), func() error {
			text := shell("cat /sys/fs/cgroup/system.slice/du.service/cpuset.cpus.effective 2>/dev/null || cat /sys/fs/cgroup/cpuset.cpus.effective")
			cpus, err := cpuset.Parse(text)
			if err == nil && cpus.Len() != want {
				err = fmt.Errorf("it runs on %s", text)
			}
			return err
		})
	}

	out := shell("dpkg --install /var/tmp/cpupoold.deb /var/tmp/kubectl-cpupool.deb")
	if !strings.Contains(out, "systemctl enable --now cpupoold") {
		t.Errorf("output of the installation lacks the next step:\n%s", out)
	}
	if active, enabled := state("ActiveState"), state("UnitFileState"); active != "inactive" || enabled != "disabled" {
		t.Errorf("after the installation the unit is %s and %s; want inactive and disabled", active, enabled)
	}
	version := shell("dpkg-query --show --showformat '${Version}' cpupoold")
	for _, program := range []string{"cpupoold", "kubectl-cpupool"} {
		if got := shell(program + " --version"); !strings.HasPrefix(got, program+" v"+strings.Replace(version, "~", "-", 1)+", commit ") {
			t.Errorf("%s --version = %q; want version %s", program, got, version)
		}
	}

	// The configuration of the package, for a machine without a runtime.
	put(t, m, "/etc/systemd/system/du.service", "[Service]\nExecStart=sleep infinity\n")
	shell(`sed -i 's/^# containerRuntimeEndpoint: none/containerRuntimeEndpoint: none/' /etc/cpupoold/config.yaml
grep -q '^containerRuntimeEndpoint: none' /etc/cpupoold/config.yaml
printf 'units:\n  du.service: {cpus: 2}\n' >>/etc/cpupoold/config.yaml`)
	t.Logf("cpupoold check:\n%s", shell("cpupoold check || test $? -eq 3")) // 3: findings, which do not keep the daemon from its start
	shell("systemctl daemon-reload; systemctl start du.service; systemctl enable --now cpupoold.service")
	exclusive(2)

	// An upgrade keeps the configuration and the CPUs, and replaces the daemon.
	const configuration = "sha256sum /etc/cpupoold/config.yaml"
	before, pid := shell(configuration), state("MainPID")
	shell("dpkg --install /var/tmp/cpupoold.deb")
	if got := shell(configuration); got != before {
		t.Errorf("configuration after the upgrade = the following; want no change:\n%s", shell("cat /etc/cpupoold/config.yaml"))
	}
	if got := state("MainPID"); got == pid || got == "0" || state("ActiveState") != "active" {
		t.Errorf("after the upgrade the process is %s, before %s, and the unit is %s", got, pid, state("ActiveState"))
	}
	exclusive(2)

	// The removal restores the unit's CPUs, and keeps configuration and state. The purge does not.
	t.Logf("dpkg --remove:\n%s", shell("dpkg --remove cpupoold 2>&1"))
	exclusive(8)
	if got := shell(configuration); got != before {
		t.Errorf("the removal changed the configuration: %s; want %s", got, before)
	}
	shell("test ! -e /usr/bin/cpupoold; test ! -e /etc/systemd/system/multi-user.target.wants/cpupoold.service; test -d /var/lib/cpupoold")
	shell("dpkg --purge cpupoold; test ! -e /etc/cpupoold; test ! -e /var/lib/cpupoold; test ! -e /run/cpupoold")
}
