package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestHostFollowsThePool checks that host services run in the configured pool.
func TestHostFollowsThePool(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	r := n.start()
	n.AwaitCPUsOf("system.slice", "0-1")
	r.quiet()
	n.YAML = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\npartitions: [{type: management, cpus: 2-3}]\nguaranteed: {cpus: 4-7}\n" + nodefixture.HostSlicesYAML
	r.loop.watchers.reload()
	n.AwaitCPUsOf("system.slice", "2-3")
	n.Eventually("property", func() bool { return n.UnitProperty("machine.slice") == "2-3" })
	r.quiet()
}

// TestNoPoolForTheHost checks that nothing is written without a pool for host services, and
// that a problem reports it.
func TestNoPoolForTheHost(t *testing.T) {
	const head = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\n"
	const list = "give it a list in partitions[].cpus"
	for name, c := range map[string]struct{ yaml, remedy string }{
		"no pool":      {"guaranteed: {cpus: 4-7}\n", list},
		"all":          {"partitions: [{type: management, cpus: all}]\nguaranteed: {cpus: 4-7}\n", list},
		"another type": {"partitions: [{type: infra, cpus: 0-1}]\nguaranteed: {cpus: 4-7}\n", list},
		"no systemd":   {"partitions: [{type: management, cpus: 0-1}]\nguaranteed: {cpus: 4-7}\n", "in a container mount the host's /run/systemd and /run/dbus"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newHostNode(t, "")
			n.YAML = head + c.yaml + nodefixture.HostSlicesYAML
			before := n.HostUnits()
			h := n.Host()
			if name == "no systemd" {
				h.Units = nil
			}
			r := n.startOn(h)
			r.view("problem", func(v *telemetry.View) bool { return v.Ready && v.Problems["HostUnconfined"] == 1 })
			r.quiet()
			if d := cmp.Diff(before, n.HostUnits()); d != "" {
				t.Errorf("systemd was told something:\n%s", d)
			}
			n.checkProblemLog("HostUnconfined", "host services", c.remedy)
		})
	}
}

// TestHostWhileItsPoolIsOffline checks that host services avoid exclusive CPUs while their pool
// is offline, as the pods of that pool do.
func TestHostWhileItsPoolIsOffline(t *testing.T) {
	for name, c := range map[string]struct{ yaml, owner, shared string }{
		"fixed":  {nodefixture.PoolsYAML, "4-5", "2-3"},
		"carved": {nodefixture.CarvedYAML, "2-3", "4-7"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newHostNode(t, "")
			n.YAML = c.yaml + nodefixture.HostSlicesYAML
			owner := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			r := n.start()
			on := func(cpus string) {
				t.Helper()
				n.AwaitCPUs(owner, c.owner)
				for _, p := range []cgroup.Path{"system.slice/sshd.service", "init.scope"} {
					n.AwaitCPUsOf(p, cpus)
				}
				n.Eventually("property", func() bool { return n.UnitProperty("machine.slice") == cpus })
				r.quiet()
			}
			on("0-1")
			n.SetOnline(nodefixture.AllCPUsBut(0, 1))
			on(c.shared)
			r.view("adapted, and no problem", func(v *telemetry.View) bool {
				return len(v.Adapted) > 0 && v.Problems["HostUnconfined"] == 0
			})
			n.SetOnline(nodefixture.AllCPUsBut())
			on("0-1")
		})
	}
}
