//go:build guest

package hostslices_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

const (
	config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-1, namespaces: [kube-system]}
shared: {cpus: 2-3}
guaranteed: {cpus: 4-7}
resyncPeriod: 1h
hostSlices: {enabled: true, weight: 300}
`
	configFile = "/etc/cpupoold/config.yaml"
	dropIn     = "/etc/systemd/system/user.slice.d/10-cpus.conf"
)

// hostUnits lists the units that the test confines. user.slice belongs to the
// administrator.
func hostUnits() []string { return []string{"init.scope", "machine.slice", "system.slice"} }

// settings returns systemd's value for each unit, and the effective CPUs of the units that run.
func (n *node) settings() map[string]string {
	n.Helper()
	all := make(map[string]string)
	names := append(hostUnits(), "user.slice", "kubepods.slice")
	units := n.show(names...)
	for _, unit := range names {
		effective := ""
		// Whether systemd keeps a slice that is empty is its own matter.
		if st, err := n.fs.Read(cgroup.Path(unit)); err == nil && st.Populated {
			effective = st.Effective.String()
		}
		all[unit] = fmt.Sprintf("AllowedCPUs=%s CPUWeight=%s on %s", units[unit].cpus, units[unit].weight, effective)
	}
	return all
}

// confined checks all host services that run: PID 1, the daemon itself, and whatever is in the slices.
func (n *node) confined() error {
	errs := []error{n.on("init.scope", "0-1"), n.on("system.slice", "0-1"), n.on("user.slice", "0-3"), n.on("kubepods.slice", "0-7")}
	errs = append(errs, n.allowed("1", "0-1"))
	services := []string{"containerd.service", "kubelet.service", "late.service", "guest.service", "cpupoold.service"}
	units := n.show(append(hostUnits(), services...)...)
	for _, service := range services {
		if pid := units[service].pid; pid != "0" {
			errs = append(errs, n.allowed(pid, "0-1"))
		}
	}
	for _, name := range hostUnits() {
		if u := units[name]; u.cpus != "0-1" || u.weight != "300" {
			errs = append(errs, fmt.Errorf("systemd has %+v for %s; want 0-1 and 300", u, name))
		}
	}
	return errors.Join(errs...)
}

func (n *node) staysConfined(after string) {
	n.Helper()
	n.eventually("confined after "+after, n.confined)
}

// TestHostServices goes through the life of them on one node.
func TestHostServices(t *testing.T) {
	n := newNode(t)
	n.write(configFile, config)
	n.write(dropIn, "[Slice]\nAllowedCPUs=0-3\n")
	n.run("systemctl", "daemon-reload")
	t.Cleanup(func() {
		for _, unit := range []string{"cpupoold", "late", "guest", "du"} {
			_, _ = n.try("systemctl", "stop", unit) // some of them were never started
		}
	})
	n.eventually("the administrator's setting", func() error { return n.on("user.slice", "0-3") })
	before := n.settings()

	n.eventually("cpupoold check", func() error { // which gives systemd five seconds to answer
		out, _ := n.try("cpupoold", "check")
		if !strings.Contains(out, "init.scope, system.slice will be confined to CPUs 0-1") || !strings.Contains(out, dropIn) {
			return errors.New(out)
		}
		return nil
	})
	if out := n.run("cpupoold", "plan"); !strings.Contains(out, "left alone: user.slice: "+dropIn) || !strings.Contains(out, "AllowedCPUs=0-1") {
		t.Errorf("cpupoold plan:\n%s", out)
	}
	if d := cmp.Diff(before, n.settings()); d != "" {
		t.Errorf("check and plan have changed (-before +after):\n%s", d)
	}

	n.run("systemctl", "start", "cpupoold")
	if err := n.confined(); err != nil {
		t.Errorf("as soon as the daemon is ready: %v", err)
	}
	n.eventually("metrics", func() error {
		return n.metrics(`cpupoold_host_unit{state="foreign",unit="user.slice"} 1`, `cpupoold_host_unit{state="confined",unit="system.slice"} 1`,
			`cpupoold_problems{code="HostForeign"} 1`)
	})

	n.run("systemd-run", "--unit=late", "sleep", "infinity")
	n.run("systemd-run", "--unit=guest", "--slice=machine.slice", "sleep", "infinity")
	n.staysConfined("new services")
	n.run("systemctl", "daemon-reload")
	n.staysConfined("daemon-reload")
	n.run("systemctl", "daemon-reexec")
	n.staysConfined("daemon-reexec")
	n.run("systemctl", "kill", "--signal=KILL", "cpupoold")
	n.run("systemctl", "stop", "cpupoold")
	n.run("systemctl", "daemon-reload")
	if err := n.confined(); err != nil {
		t.Errorf("a reload while the daemon is dead: %v", err)
	}
	n.run("systemctl", "start", "cpupoold")
	if err := n.fs.Write("system.slice", cgroup.FileCPUs, "0-7"); err != nil {
		t.Fatal(err)
	}
	n.staysConfined("somebody's write")

	n.unitsInside()
	n.administratorComes()
	n.putBack(before)
}

// unitsInside checks that a slice also has the CPUs of a unit in it.
func (n *node) unitsInside() {
	n.Helper()
	n.run("systemd-run", "--unit=du", "sleep", "infinity")
	n.write(configFile, config+"units: {du.service: {cpus: 2}}\n")
	n.run("systemctl", "reload", "cpupoold")
	n.eventually("a unit with exclusive CPUs", func() error {
		return errors.Join(n.on("system.slice/du.service", "4-5"), n.on("system.slice", "0-1,4-5"), n.metrics(`cpupoold_problems{code="HostShares"} 1`))
	})
	n.run("systemctl", "daemon-reload")
	n.eventually("both after a reload", func() error {
		return errors.Join(n.on("system.slice/du.service", "4-5"), n.on("system.slice", "0-1,4-5"))
	})
	n.write(configFile, config)
	n.run("systemctl", "reload", "cpupoold")
	n.eventually("the unit is like the others", func() error { return n.on("system.slice/du.service", "0-1") })
	n.run("systemctl", "stop", "du")
	n.staysConfined("a unit with exclusive CPUs")
}

// administratorComes checks that a setting of the administrator takes precedence until
// the administrator removes it.
func (n *node) administratorComes() {
	n.Helper()
	n.run("systemctl", "set-property", "system.slice", "AllowedCPUs=0-5")
	his := func() error {
		return errors.Join(n.on("system.slice", "0-5"), n.metrics(`cpupoold_host_unit{state="foreign",unit="system.slice"} 1`))
	}
	n.eventually("the administrator's CPUs", his)
	n.run("systemctl", "daemon-reload")
	n.eventually("the administrator's CPUs after a reload", his)
	n.run("systemctl", "revert", "system.slice")
	n.staysConfined("the administrator's revert")
}

// putBack ends the daemon and reverts its settings.
func (n *node) putBack(before map[string]string) {
	n.Helper()
	for _, unit := range []string{"late", "guest", "cpupoold"} {
		n.run("systemctl", "stop", unit)
	}
	n.run("cpupoold", "restore")
	after := n.settings()
	if d := cmp.Diff(before, after); d != "" {
		n.Errorf("after restore (-before +after):\n%s", d)
	}
	n.run("systemctl", "daemon-reload")
	if d := cmp.Diff(after, n.settings()); d != "" {
		n.Errorf("after restore and a reload (-before +after):\n%s", d)
	}
	if err := os.Remove(dropIn); err != nil {
		n.Error(err)
	}
}
