package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestInnerUnitWins checks that a slice around another configured unit is not confined, and
// gets back its former value when the inner unit is configured.
func TestInnerUnitWins(t *testing.T) {
	const outer = "system.slice: {pool: management}"
	n := newNode(t)
	n.Units.Install("du.service", cpuset.Set{})
	n.Units.Install("telegraf.service", cpuset.Set{})
	n.StartUnit("telegraf.service")
	n.YAML = nodefixture.PoolsYAML + "units: {" + outer + "}\n"
	r := n.start()
	n.Eventually("slice bound", func() bool { return n.UnitProperty("system.slice") == "0-1" })
	n.YAML = nodefixture.PoolsYAML + "units: {" + outer + ", du.service: {cpus: 2}}\n"
	r.loop.watchers.reload()
	n.StartUnit("du.service")
	n.AwaitUnitCPUs("du.service", "4-5")
	n.Eventually("slice reverted", func() bool { return n.UnitProperty("system.slice") == "" })
	r.view("problem", func(v *telemetry.View) bool { return v.Problems["UnitEncloses"] == 1 })
	r.quiet()
}

// TestUnitBroughtAlong checks that a unit which runs on CPUs of the pool when it is configured
// keeps them.
func TestUnitBroughtAlong(t *testing.T) {
	n := newNode(t)
	n.Units.Install("du.service", cpuset.Of(6, 7))
	n.StartUnit("du.service")
	r := n.start()
	r.quiet()
	before := len(n.Tree.Writes())
	n.YAML = nodefixture.PoolsYAML + "units: {du.service: {cpus: 2}}\n"
	r.loop.watchers.reload()
	n.Eventually("assignment on record", func() bool {
		for _, a := range n.Journal().Assignments {
			if a.Container == "du.service" {
				return a.CPUs.Equal(cpuset.Of(6, 7))
			}
		}
		return false
	})
	r.quiet()
	if writes := n.Tree.Writes()[before:]; len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}
