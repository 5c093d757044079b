package nodefixture

import (
	"context"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// RunHostServices runs a service, a session and an init process, and installs a slice.
func (n *Node) RunHostServices() {
	n.T.Helper()
	for i, p := range []string{"system.slice/sshd.service", "user.slice/user-0.slice/session-1.scope", "init.scope"} {
		n.Tree.MkdirAll(p)
		if err := n.Tree.Write(p+"/cgroup.procs", []string{"900001", "900002", "900003"}[i]); err != nil {
			n.T.Fatal(err)
		}
	}
	n.Units.Install("machine.slice", cpuset.Set{})
}

// HostUnits returns systemd's properties of the units that contain the host services.
func (n *Node) HostUnits() map[string]cgroup.UnitState {
	n.T.Helper()
	all := make(map[string]cgroup.UnitState)
	for _, unit := range []string{"system.slice", "user.slice", "init.scope", "machine.slice"} {
		st, err := n.Units.Properties(context.Background(), unit)
		if err != nil {
			n.T.Fatal(err)
		}
		all[unit] = st
	}
	return all
}

// UnitCPUs returns the effective CPUs of a unit in system.slice, or "" if it does not run.
func (n *Node) UnitCPUs(unit string) string { return n.CPUsOf(cgroup.Path("system.slice/" + unit)) }

// AwaitUnitCPUs waits until the effective CPUs of a unit are cpus.
func (n *Node) AwaitUnitCPUs(unit, cpus string) {
	n.T.Helper()
	n.Eventually(unit+" on CPUs "+cpus, func() bool { return n.UnitCPUs(unit) == cpus })
}

// UnitProperty returns the property AllowedCPUs of a unit.
func (n *Node) UnitProperty(unit string) string {
	n.T.Helper()
	st, err := n.Units.Properties(context.Background(), unit)
	if err != nil {
		n.T.Fatal(err)
	}
	return st.CPUs.String()
}

// StartUnit starts a unit.
func (n *Node) StartUnit(unit string) {
	n.T.Helper()
	if err := n.Units.Start(unit); err != nil {
		n.T.Fatal(err)
	}
}
