package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestUnitsAreFollowed checks that a stopped unit starts on its CPUs each time, and that
// containers stay off them.
func TestUnitsAreFollowed(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.PoolsYAML + nodefixture.UnitsYAML
	n.Units.Install("du.service", cpuset.Set{})
	n.Units.Install("telegraf.service", cpuset.Set{})
	n.StartUnit("telegraf.service")
	r := n.start()
	n.AwaitUnitCPUs("telegraf.service", "0-1")
	n.Eventually("property of the unit that is stopped", func() bool { return n.UnitProperty("du.service") == "4-5" })
	n.StartUnit("du.service")
	if got := n.UnitCPUs("du.service"); got != "4-5" {
		t.Errorf("the unit started on %s; want its CPUs from the beginning", got)
	}
	id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(id, "6-7")
	r.quiet()
	for range 2 {
		if err := n.Units.Stop("du.service"); err != nil {
			t.Fatal(err)
		}
		r.quiet()
		n.StartUnit("du.service")
		n.AwaitUnitCPUs("du.service", "4-5")
	}
	r.quiet()
	n.CheckAssigned()
	n.Eventually("environment of the unit", func() bool {
		env, err := os.ReadFile(filepath.Join(n.Dir, "run/units/du.service.env"))
		return err == nil && strings.Contains(string(env), "CPUPOOL_CPUS=4-5\n")
	})
}

// TestUnitsKeepTheirCPUs checks restarts of the daemon, with its journal and without.
func TestUnitsKeepTheirCPUs(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.PoolsYAML + nodefixture.UnitsYAML
	first := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.YAML = nodefixture.PoolsYAML
	r := n.start()
	n.AwaitCPUs(first, "4-5")
	n.Units.Install("du.service", cpuset.Set{})
	n.StartUnit("du.service")
	n.YAML = nodefixture.PoolsYAML + nodefixture.UnitsYAML
	r.loop.watchers.reload()
	n.AwaitUnitCPUs("du.service", "6-7")
	r.quiet()
	r.stop()
	if err := n.Runtime.StopPod(n.PodOf(first)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(n.Dir, "journal.json")); err != nil {
		t.Fatal(err)
	}
	before := len(n.Tree.Writes())
	r = n.start()
	r.quiet()
	if writes := n.Tree.Writes()[before:]; len(writes) != 0 {
		t.Errorf("a restart wrote %v; want none", writes)
	}
	n.AwaitUnitCPUs("du.service", "6-7")
}

// TestUnitsGetTheirPropertiesBack checks that properties of units are restored by restore, and
// when the unit is no longer configured.
func TestUnitsGetTheirPropertiesBack(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.PoolsYAML + nodefixture.UnitsYAML
	n.Units.Install("du.service", cpuset.Of(1))
	n.Units.Install("telegraf.service", cpuset.Set{})
	n.StartUnit("du.service")
	r := n.start()
	n.AwaitUnitCPUs("du.service", "4-5")
	n.Eventually("property", func() bool { return n.UnitProperty("telegraf.service") == "0-1" })
	r.quiet()
	n.YAML = nodefixture.PoolsYAML + "units: {telegraf.service: {pool: management}}\n"
	r.loop.watchers.reload()
	n.AwaitUnitCPUs("du.service", "1")
	n.Eventually("original forgotten", func() bool {
		for _, o := range n.Journal().Originals {
			if o.Unit == "du.service" {
				return false
			}
		}
		return true
	})
	r.quiet()
	r.stop()
	report, err := n.restore()
	if err != nil || len(report.Differs) != 0 {
		t.Fatalf("restore: %+v, %v", report, err)
	}
	if got := n.UnitProperty("telegraf.service"); got != "" {
		t.Errorf("AllowedCPUs of telegraf.service = %q after restore; want none", got)
	}
}

// TestNoRuntimeAtAll checks units on a machine without a container runtime.
func TestNoRuntimeAtAll(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.PoolsYAML + nodefixture.UnitsYAML + "containerRuntimeEndpoint: none\n"
	n.Units.Install("du.service", cpuset.Set{})
	n.StartUnit("du.service")
	h := n.Host()
	h.Runtime = nil
	r := n.startOn(h)
	n.AwaitUnitCPUs("du.service", "4-5")
	r.view("ready", func(v *telemetry.View) bool { return v.Ready })
	r.settled()
	want := map[telemetry.Source]telemetry.SourceState{telemetry.ApplicationFiles: telemetry.SourceOK, telemetry.CPUs: telemetry.SourceOK, telemetry.Inotify: telemetry.SourceOK, telemetry.Units: telemetry.SourceOK}
	if d := cmp.Diff(want, r.loop.publisher.Metrics().Sources); d != "" {
		t.Errorf("sources (-want +got):\n%s", d)
	}
	// telegraf.service is not installed. That is the only problem.
	r.view("problem", func(v *telemetry.View) bool { return v.Problems["UnitMissing"] == 1 })
	n.Units.Install("telegraf.service", cpuset.Set{})
	n.StartUnit("telegraf.service")
	n.AwaitUnitCPUs("telegraf.service", "0-1")
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems["UnitMissing"] == 0 })
}

// TestUnitIsExclusive checks that a unit that is newly configured gets no CPUs of a placed
// owner, and that a shared container leaves its CPUs.
func TestUnitIsCarved(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	n.Units.Install("du.service", cpuset.Set{})
	n.StartUnit("du.service")
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(shared, "2-7")
	n.YAML = nodefixture.CarvedYAML + "units: {du.service: {cpus: 2}}\n"
	r.loop.watchers.reload()
	n.Eventually("unit placed", func() bool { c, err := cpuset.Parse(n.UnitCPUs("du.service")); return err == nil && c.Len() == 2 })
	r.quiet()
	if n.State(shared).Effective.Overlaps(cpuset.Of(firstOf(t, n.UnitCPUs("du.service")))) {
		t.Errorf("container on %s, unit on %s", n.State(shared).Effective, n.UnitCPUs("du.service"))
	}
}

func firstOf(t *testing.T, list string) int {
	t.Helper()
	cpus, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return cpus.First()
}
