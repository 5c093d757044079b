package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestUnitPartition checks units with CPUSetPartition=. They get back their former CPUs, and
// other owners get their exclusive CPUs. Without the property the daemon places them again.
func TestUnitPartition(t *testing.T) {
	n := newNode(t)
	n.Units.Install("du.service", cpuset.Set{})
	n.StartUnit("du.service")
	n.Units.Install("user.slice", cpuset.Set{})
	n.StartUnit("user.slice")
	n.YAML = nodefixture.PoolsYAML + "units: {du.service: {cpus: 4}}\nhostSlices: {enabled: true}\n"
	r := n.start()
	n.AwaitUnitCPUs("du.service", "4-7")
	n.Eventually("slice confined", func() bool { return n.UnitProperty("user.slice") == "0-1" })

	n.Units.SetPartition("du.service", "isolated")
	n.Units.SetPartition("user.slice", "root")
	n.Units.Reload()
	r.view("problems", func(v *telemetry.View) bool { return v.Problems["UnitPartition"] == 2 })
	n.Eventually("reverted", func() bool { return n.UnitProperty("du.service") == "" && n.UnitProperty("user.slice") == "" })
	du := n.RunContainer(n.RunPod("du", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(du, "4-5")
	if err := n.Runtime.StopPod(n.PodOf(du)); err != nil {
		t.Fatal(err)
	}

	n.Units.SetPartition("du.service", "")
	n.Units.SetPartition("user.slice", "")
	n.Units.Reload()
	n.AwaitUnitCPUs("du.service", "4-7")
	n.Eventually("slice confined again", func() bool { return n.UnitProperty("user.slice") == "0-1" })
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems["UnitPartition"] == 0 })
	r.quiet()
}
