package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestHostFollowsThePool that it is configured to run in.
func TestHostFollowsThePool(t *testing.T) {
	n := newHostNode(t, hostPart)
	r := n.start()
	n.hostOn("system.slice", "0-1")
	r.quiet()
	n.yaml = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\npartitions: [{type: management, cpus: 2-3}]\nguaranteed: {cpus: 4-7}\n" + hostPart
	r.loop.reload()
	n.hostOn("system.slice", "2-3")
	n.eventually("property", func() bool { return n.property("machine.slice") == "2-3" })
	r.quiet()
}

// TestNoPoolForTheHost: nothing is written, and it is said.
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
			n.yaml = head + c.yaml + hostPart
			before := n.hostState()
			h := n.host()
			if name == "no systemd" {
				h.Units = nil
			}
			r := n.startOn(h)
			r.view("problem", func(v *telemetry.View) bool { return v.Ready && v.Problems[string(desired.CodeHostUnconfined)] == 1 })
			r.quiet()
			if d := cmp.Diff(before, n.hostState()); d != "" {
				t.Errorf("systemd was told something:\n%s", d)
			}
			n.said(desired.CodeHostUnconfined, "host services", c.remedy)
		})
	}
}

// TestHostWhileItsPoolIsOffline: it keeps off exclusive CPUs, as the pods of the pool do.
func TestHostWhileItsPoolIsOffline(t *testing.T) {
	for name, c := range map[string]struct{ yaml, owner, shared string }{
		"fixed":  {poolsYAML, "4-5", "2-3"},
		"carved": {carvedYAML, "2-3", "4-7"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newHostNode(t, "")
			n.yaml = c.yaml + hostPart
			owner := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
			r := n.start()
			on := func(cpus string) {
				t.Helper()
				n.runsOn(owner, c.owner)
				for _, p := range []cgroup.Path{"system.slice/sshd.service", "init.scope"} {
					n.hostOn(p, cpus)
				}
				n.eventually("property", func() bool { return n.property("machine.slice") == cpus })
				r.quiet()
			}
			on("0-1")
			n.online(without(0, 1))
			on(c.shared)
			r.view("adapted, and no problem", func(v *telemetry.View) bool {
				return len(v.Adapted) > 0 && v.Problems[string(desired.CodeHostUnconfined)] == 0
			})
			n.online(without())
			on("0-1")
		})
	}
}
