package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const unitsPart = `units:
  du.service: {cpus: 2}
  telegraf.service: {pool: management}
`

// unitCPUs are the CPUs that a unit's cgroup runs on, "" if it does not run.
func (n *node) unitCPUs(unit string) string {
	st, err := cgroup.New(n.tree).Read(cgroup.Path("system.slice/" + unit))
	if err != nil {
		return ""
	}
	return st.Effective.String()
}

func (n *node) unitRunsOn(unit, cpus string) {
	n.t.Helper()
	n.eventually(unit+" on CPUs "+cpus, func() bool { return n.unitCPUs(unit) == cpus })
}

func (n *node) property(unit string) string {
	n.t.Helper()
	st, err := n.units.Properties(context.Background(), unit)
	if err != nil {
		n.t.Fatal(err)
	}
	return st.CPUs.String()
}

func (n *node) start2(unit string) {
	n.t.Helper()
	if err := n.units.Start(unit); err != nil {
		n.t.Fatal(err)
	}
}

// TestUnitsAreFollowed: a unit that is stopped starts on its CPUs, and has them
// after each start; containers stay off them.
func TestUnitsAreFollowed(t *testing.T) {
	n := newNode(t)
	n.yaml = poolsYAML + unitsPart
	n.units.Install("du.service", cpuset.Set{})
	n.units.Install("telegraf.service", cpuset.Set{})
	n.start2("telegraf.service")
	r := n.start()
	n.unitRunsOn("telegraf.service", "0-1")
	n.eventually("property of the unit that is stopped", func() bool { return n.property("du.service") == "4-5" })
	n.start2("du.service")
	if got := n.unitCPUs("du.service"); got != "4-5" {
		t.Errorf("the unit started on %s; want its CPUs from the beginning", got)
	}
	id := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(id, "6-7")
	r.quiet()
	for range 2 {
		if err := n.units.Stop("du.service"); err != nil {
			t.Fatal(err)
		}
		r.quiet()
		n.start2("du.service")
		n.unitRunsOn("du.service", "4-5")
	}
	r.quiet()
	n.checkAll()
	n.eventually("environment of the unit", func() bool {
		env, err := os.ReadFile(filepath.Join(n.dir, "run/units/du.service.env"))
		return err == nil && strings.Contains(string(env), "CPUPOOL_CPUS=4-5\n")
	})
}

// TestUnitsKeepTheirCPUs over restarts of the daemon, with journal and without.
func TestUnitsKeepTheirCPUs(t *testing.T) {
	n := newNode(t)
	n.yaml = poolsYAML + unitsPart
	first := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	n.yaml = poolsYAML
	r := n.start()
	n.runsOn(first, "4-5")
	n.units.Install("du.service", cpuset.Set{})
	n.start2("du.service")
	n.yaml = poolsYAML + unitsPart
	r.loop.reload()
	n.unitRunsOn("du.service", "6-7")
	r.quiet()
	r.stop()
	if err := n.runtime.StopPod(n.podOf(first)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(n.dir, "journal.json")); err != nil {
		t.Fatal(err)
	}
	before := len(n.tree.Writes())
	r = n.start()
	r.quiet()
	if writes := n.tree.Writes()[before:]; len(writes) != 0 {
		t.Errorf("a restart wrote %v", writes)
	}
	n.unitRunsOn("du.service", "6-7")
}

func (n *node) podOf(container string) string {
	_, containers, err := n.client.List(context.Background())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, c := range containers {
		if c.ID == container {
			return c.PodID
		}
	}
	return ""
}

// TestUnitsGetTheirPropertiesBack: when the configuration no longer names them, and
// by restore.
func TestUnitsGetTheirPropertiesBack(t *testing.T) {
	n := newNode(t)
	n.yaml = poolsYAML + unitsPart
	n.units.Install("du.service", cpuset.Of(1))
	n.units.Install("telegraf.service", cpuset.Set{})
	n.start2("du.service")
	r := n.start()
	n.unitRunsOn("du.service", "4-5")
	n.eventually("property", func() bool { return n.property("telegraf.service") == "0-1" })
	r.quiet()
	n.yaml = poolsYAML + "units: {telegraf.service: {pool: management}}\n"
	r.loop.reload()
	n.unitRunsOn("du.service", "1")
	n.eventually("original forgotten", func() bool {
		for _, o := range n.journal().Originals {
			if o.Unit == "du.service" {
				return false
			}
		}
		return true
	})
	r.quiet()
	r.stop()
	h := n.host()
	report, err := restore.HostRestore(&h, context.Background(), n.journal())
	if err != nil || len(report.Differs) != 0 {
		t.Fatalf("restore: %+v, %v", report, err)
	}
	if got := n.property("telegraf.service"); got != "" {
		t.Errorf("AllowedCPUs of telegraf.service = %q after restore; want none", got)
	}
}

// TestNoRuntimeAtAll: units alone, on a machine without containers.
func TestNoRuntimeAtAll(t *testing.T) {
	n := newNode(t)
	n.yaml = poolsYAML + unitsPart + "containerRuntimeEndpoint: none\n"
	n.units.Install("du.service", cpuset.Set{})
	n.start2("du.service")
	h := n.host()
	h.Runtime = nil
	r := n.startOn(h)
	n.unitRunsOn("du.service", "4-5")
	r.view("ready", func(v *telemetry.View) bool { return v.Ready })
	r.settled()
	want := map[telemetry.Source]telemetry.SourceState{telemetry.CPUs: telemetry.SourceOK, telemetry.Inotify: telemetry.SourceOK, telemetry.Units: telemetry.SourceOK}
	if d := cmp.Diff(want, r.loop.snapshot.Load().Sources); d != "" {
		t.Errorf("sources (-want +got):\n%s", d)
	}
	// telegraf.service is not installed: its problem, and nobody else's.
	r.view("problem", func(v *telemetry.View) bool { return v.Problems[string(codeUnitMissing)] == 1 })
	n.units.Install("telegraf.service", cpuset.Set{})
	n.start2("telegraf.service")
	n.unitRunsOn("telegraf.service", "0-1")
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems[string(codeUnitMissing)] == 0 })
}

// TestUnitIsExclusive: a container that is placed already keeps off a unit that
// appears in the configuration, and a shared one makes way for it.
func TestUnitIsCarved(t *testing.T) {
	n := newNode(t)
	n.yaml = carvedYAML
	n.units.Install("du.service", cpuset.Set{})
	n.start2("du.service")
	r := n.start()
	shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.runsOn(shared, "2-7")
	n.yaml = carvedYAML + "units: {du.service: {cpus: 2}}\n"
	r.loop.reload()
	n.eventually("unit placed", func() bool { c, err := cpuset.Parse(n.unitCPUs("du.service")); return err == nil && c.Len() == 2 })
	r.quiet()
	if n.state(shared).Effective.Overlaps(cpuset.Of(firstOf(t, n.unitCPUs("du.service")))) {
		t.Errorf("container on %s, unit on %s", n.state(shared).Effective, n.unitCPUs("du.service"))
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

// countingUnits counts the questions about units, and holds them back until it is
// released.
type countingUnits struct {
	hostenv.UnitManager
	asked   chan string
	release chan struct{}
}

func (c *countingUnits) Unit(ctx context.Context, name string) (cgroup.Unit, error) {
	c.asked <- name
	<-c.release
	return c.UnitManager.Unit(ctx, name)
}

// TestUnitIsAskedOnce: whatever comes while a question is under way makes one more.
func TestUnitIsAskedOnce(t *testing.T) {
	n := newNode(t)
	n.yaml = poolsYAML + "units: {du.service: {cpus: 2}}\n"
	h := n.host()
	units := &countingUnits{UnitManager: h.Units, asked: make(chan string, 1000), release: make(chan struct{})}
	h.Units = units
	l := n.bareLoop(h)
	now := time.Now()
	for range 100 {
		unitWoken{"du.service"}.apply(l)
	}
	<-units.asked
	close(units.release)
	<-l.box.Wake
	for _, e := range l.box.Take() {
		l.handle(e)
	}
	var at time.Time
	l.nextAsk(func(due time.Time) { at = due })
	if at.Before(now.Add(unitPause)) {
		t.Errorf("next question %v after the first; want %v", at.Sub(now), unitPause)
	}
	if len(units.asked) > 0 {
		t.Errorf("%d more questions without a pause", len(units.asked))
	}
	l.askDue(at)
	<-units.asked
	l.nextAsk(func(time.Time) { t.Error("one more question waits for nothing") })
}
