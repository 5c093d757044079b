package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// newHostNode returns a node with host services.
func newHostNode(t testing.TB, part string) *node {
	t.Helper()
	n := newNode(t)
	n.RunHostServices()
	n.YAML = nodefixture.PoolsYAML + part
	return n
}

// TestHostIsConfined checks that host services stay in their pool: new cgroups, after reloads,
// and after external writes.
func TestHostIsConfined(t *testing.T) {
	n := newHostNode(t, "hostSlices: {enabled: true, weight: 200}\n")
	id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r := n.start()
	n.AwaitCPUs(id, "4-5")
	for _, p := range []cgroup.Path{"system.slice/sshd.service", "user.slice/user-0.slice/session-1.scope", "init.scope"} {
		n.AwaitCPUsOf(p, "0-1")
	}
	for _, unit := range []string{"system.slice", "user.slice", "init.scope", "machine.slice"} {
		n.Eventually("properties of "+unit, func() bool {
			st, err := n.Units.Properties(context.Background(), unit)
			return err == nil && st.CPUs.String() == "0-1" && st.Weight == 200
		})
	}
	if got := n.UnitProperty("kubepods.slice"); got != "" {
		t.Errorf("AllowedCPUs of kubepods.slice = %q; want %q", got, "")
	}
	r.quiet()
	n.Units.Install("new.service", cpuset.Set{})
	for _, unit := range []string{"new.service", "machine.slice"} {
		n.StartUnit(unit)
	}
	n.AwaitCPUsOf("system.slice/new.service", "0-1")
	n.AwaitCPUsOf("machine.slice", "0-1")
	n.Units.Reload()
	r.quiet()
	n.AwaitCPUsOf("system.slice/new.service", "0-1")
	if err := n.Tree.Write("system.slice/cpuset.cpus", "0-7"); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUsOf("system.slice", "0-1")
	r.quiet()
	r.view("the write is counted", func(v *telemetry.View) bool {
		return v.Drifts[telemetry.Drift{Cause: "unknown", Property: cgroup.FileCPUs}] == 1 && v.Problems["HostForeign"] == 0
	})
	want := []telemetry.HostUnit{
		{Name: "init.scope", State: "confined"}, {Name: "machine.slice", State: "confined"},
		{Name: "system.slice", State: "confined"}, {Name: "user.slice", State: "confined"},
	}
	if d := cmp.Diff(want, r.loop.publisher.Metrics().HostUnits); d != "" {
		t.Error(d)
	}
	r.view("ready", func(v *telemetry.View) bool { return v.Ready && v.Passes[telemetry.OK] > 0 })
}

// TestHostIsPutBack checks that properties are restored by restore and when the option is
// switched off, and the weight when it is no longer configured.
func TestHostIsPutBack(t *testing.T) {
	for name, kernel := range map[string]testnode.CgroupConfig{"to 6.19": {}, "from 7.0": {ClearPopulated: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNodeOn(t, kernel)
			n.RunHostServices()
			n.YAML = nodefixture.PoolsYAML + "hostSlices: {enabled: true, weight: 200}\n"
			if err := n.Units.SetProperties(context.Background(), "user.slice", []systemd.Property{{Name: cgroup.UnitWeight, Value: "50"}}); err != nil {
				t.Fatal(err)
			}
			before := n.HostUnits()
			r := n.start()
			n.AwaitCPUsOf("init.scope", "0-1")
			r.quiet()
			n.YAML = nodefixture.PoolsYAML + nodefixture.HostSlicesYAML
			r.loop.watchers.reload()
			n.Eventually("weights", func() bool {
				s := n.HostUnits()
				return s["user.slice"].Weight == 50 && s["system.slice"].Weight == 100
			})
			n.YAML = nodefixture.PoolsYAML
			r.loop.watchers.reload()
			n.Eventually("originals forgotten", func() bool { return len(n.Journal().Originals) == 0 })
			if d := cmp.Diff(before, n.HostUnits()); d != "" {
				t.Errorf("after the option was switched off (-before +after):\n%s", d)
			}
			n.AwaitCPUsOf("system.slice/sshd.service", "0-7")
			n.YAML = nodefixture.PoolsYAML + "hostSlices: {enabled: true, weight: 200}\n"
			r.loop.watchers.reload()
			n.AwaitCPUsOf("init.scope", "0-1")
			r.quiet()
			r.stop()
			report, err := n.restore()
			if err != nil || len(report.Differs) != 0 {
				t.Fatalf("restore: %+v, %v", report, err)
			}
			if d := cmp.Diff(before, n.HostUnits()); d != "" {
				t.Errorf("after restore (-before +after):\n%s", d)
			}
			n.AwaitCPUsOf("system.slice/sshd.service", "0-7")
		})
	}
}

// TestAdministratorsSlices checks that properties of an administrator stay and are reported,
// whenever they are set.
func TestAdministratorsSlices(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	n.Units.DropIn("user.slice", "/etc/systemd/system/user.slice.d/cpus.conf", cpuset.Range(0, 3))
	n.Units.Reload()
	if err := n.Units.SetProperties(context.Background(), "init.scope", []systemd.Property{{Name: cgroup.UnitCPUs, Value: "2-3"}}); err != nil {
		t.Fatal(err)
	}
	r := n.start()
	n.AwaitCPUsOf("system.slice", "0-1")
	r.view("two problems", func(v *telemetry.View) bool { return v.Problems["HostForeign"] == 2 })
	r.quiet()
	n.Units.DropIn("system.slice", "/etc/systemd/system/system.slice.d/cpus.conf", cpuset.Range(0, 5))
	n.Units.Reload()
	n.AwaitCPUsOf("system.slice", "0-5")
	r.view("three problems", func(v *telemetry.View) bool { return v.Problems["HostForeign"] == 3 })
	n.Units.SetForGood("machine.slice", cpuset.Of(7))
	n.Units.Reload()
	r.view("four problems", func(v *telemetry.View) bool { return v.Problems["HostForeign"] == 4 })
	r.quiet()
	n.Eventually("nothing of it is ours", func() bool { return len(n.Journal().Originals) == 0 })
	for unit, want := range map[string]string{"system.slice": "0-5", "user.slice": "0-3", "init.scope": "2-3", "machine.slice": "7"} {
		if got := n.UnitProperty(unit); got != want {
			t.Errorf("AllowedCPUs of %s = %q; want the administrator's %q", unit, got, want)
		}
	}
	n.Units.Reload()
	r.quiet()
	n.AwaitCPUsOf("system.slice", "0-5")
	n.AwaitCPUsOf("user.slice", "0-3")
	for _, unit := range []string{"system.slice", "user.slice", "init.scope", "machine.slice"} {
		n.checkProblemLog("HostForeign", unit, "set-property --runtime "+unit+" AllowedCPUs=)")
	}
}

// checkProblemLog checks that a problem of a unit was logged with a remedy.
func (n *node) checkProblemLog(code pools.Code, unit, remedy string) {
	n.T.Helper()
	records := n.Logged("problem appeared")
	if !slices.ContainsFunc(records, func(r map[string]any) bool {
		text, _ := r["problem"].(string)
		return r["code"] == string(code) && r["unit"] == unit && strings.Contains(text, remedy)
	}) {
		n.T.Errorf("log has no %s of %s with %q: %v", code, unit, remedy, records)
	}
}

// TestSetForGoodIsYieldedTo checks that a persistent property of an administrator is found
// without a reload, by the write to the cgroup.
func TestSetForGoodIsYieldedTo(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	r := n.start()
	n.AwaitCPUsOf("system.slice", "0-1")
	r.quiet()
	n.Units.SetForGood("system.slice", cpuset.Range(0, 5))
	r.view("problem", func(v *telemetry.View) bool { return v.Problems["HostForeign"] == 1 })
	n.AwaitCPUsOf("system.slice", "0-5")
	r.quiet()
	n.AwaitCPUsOf("system.slice", "0-5")
}

// TestHostAroundUnits checks that a slice contains the CPUs of the units in it, and that a
// problem reports it.
func TestHostAroundUnits(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML+"units: {du.service: {cpus: 2}, telegraf.service: {pool: shared}, ru.slice: {cpus: 1}}\n")
	n.Units.Install("ru.slice", cpuset.Set{})
	for _, unit := range []string{"du.service", "telegraf.service"} {
		n.Units.Install(unit, cpuset.Set{})
		n.StartUnit(unit)
	}
	n.StartUnit("ru.slice")
	r := n.start()
	n.AwaitUnitCPUs("du.service", "4-5")
	n.AwaitUnitCPUs("telegraf.service", "2-3")
	n.AwaitCPUsOf("system.slice/sshd.service", "0-5")
	n.AwaitCPUsOf("user.slice", "0-1")
	n.AwaitCPUsOf("ru.slice", "6")
	r.view("problem", func(v *telemetry.View) bool { return v.Problems["HostShares"] == 1 })
	r.quiet()
	n.YAML = nodefixture.PoolsYAML + nodefixture.HostSlicesYAML
	r.loop.watchers.reload()
	n.AwaitCPUsOf("system.slice/sshd.service", "0-1")
	n.AwaitUnitCPUs("du.service", "0-1")
	n.AwaitCPUsOf("ru.slice", "0-7")
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems["HostShares"] == 0 })
	id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 4, nil), "app", nodefixture.WholeCPUs(4))
	n.AwaitCPUs(id, "4-7")
	r.quiet()
	n.YAML = nodefixture.PoolsYAML + nodefixture.HostSlicesYAML + "units: {du.service: {cpus: 2}}\n"
	r.loop.watchers.reload()
	r.view("the unit is refused", func(v *telemetry.View) bool {
		return v.RefusedNow == 1
	})
	n.AwaitUnitCPUs("du.service", "2-3")
	n.AwaitCPUsOf("system.slice", "0-3")
}

// TestHostAfterAKill checks that the next daemon recognizes and restores its properties.
func TestHostAfterAKill(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	id := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	r := n.start()
	n.AwaitCPUsOf("system.slice", "0-1")
	n.AwaitCPUs(id, "2-3")
	r.quiet()
	r.stop()
	before := len(n.Tree.Writes())
	r = n.start()
	r.quiet()
	if writes := n.Tree.Writes()[before:]; len(writes) != 0 {
		t.Errorf("a restart wrote %v; want none", writes)
	}
	n.YAML = nodefixture.PoolsYAML
	r.loop.watchers.reload()
	n.AwaitCPUsOf("system.slice", "0-7")
}

// TestHostAfterALostJournal checks that a daemon without its journal recognizes its properties
// when they change and when they are restored.
func TestHostAfterALostJournal(t *testing.T) {
	const head = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\n"
	const moved = head + "partitions: [{type: management, cpus: 2-3}]\nguaranteed: {cpus: 4-7}\n"
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	before := n.HostUnits()
	r := n.start()
	n.AwaitCPUsOf("init.scope", "0-1")
	n.Eventually("property", func() bool { return n.UnitProperty("machine.slice") == "0-1" })
	r.quiet()
	r.stop()
	if err := os.Remove(filepath.Join(n.Dir, "journal.json")); err != nil {
		t.Fatal(err)
	}
	r = n.start()
	r.quiet()
	n.YAML = moved + nodefixture.HostSlicesYAML
	r.loop.watchers.reload()
	n.AwaitCPUsOf("system.slice/sshd.service", "2-3")
	n.AwaitCPUsOf("init.scope", "2-3")
	n.Eventually("property", func() bool { return n.UnitProperty("machine.slice") == "2-3" })
	r.view("nobody else has set them", func(v *telemetry.View) bool { return v.Problems["HostForeign"] == 0 })
	r.quiet()
	n.YAML = moved
	r.loop.watchers.reload()
	n.Eventually("originals forgotten", func() bool { return len(n.Journal().Originals) == 0 })
	if d := cmp.Diff(before, n.HostUnits()); d != "" {
		t.Errorf("after the option was switched off (-before +after):\n%s", d)
	}
}

// TestHostAroundUnitsAfterALostJournal checks that a daemon without its journal recognizes a
// slice also if a unit in it gets other CPUs than before.
func TestHostAroundUnitsAfterALostJournal(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	n.Units.Install("du.service", cpuset.Set{})
	n.StartUnit("du.service")
	before := n.HostUnits()
	id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 4, nil), "app", nodefixture.WholeCPUs(4))
	r := n.start()
	n.AwaitCPUs(id, "4-7")
	n.YAML = nodefixture.PoolsYAML + nodefixture.HostSlicesYAML + "units: {du.service: {cpus: 2}}\n"
	r.loop.watchers.reload()
	n.AwaitUnitCPUs("du.service", "2-3")
	n.Eventually("property", func() bool { return n.UnitProperty("system.slice") == "0-3" && n.UnitProperty("du.service") == "2-3" })
	r.quiet()
	r.stop()
	if err := n.Runtime.StopPod(n.PodOf(id)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(n.Dir, "journal.json")); err != nil {
		t.Fatal(err)
	}
	r = n.start()
	n.AwaitUnitCPUs("du.service", "4-5")
	n.AwaitCPUsOf("system.slice", "0-1,4-5")
	r.view("nobody else has set it", func(v *telemetry.View) bool { return v.Problems["HostForeign"] == 0 })
	r.quiet()
	n.YAML = nodefixture.PoolsYAML
	r.loop.watchers.reload()
	n.Eventually("slices as before", func() bool { return cmp.Equal(before, n.HostUnits()) })
}

// busyUnits is a systemd that may be too busy to answer.
type busyUnits struct {
	*testnode.Units
	busy atomic.Bool
}

func (u *busyUnits) Unit(ctx context.Context, name string) (systemd.Unit, error) {
	if u.busy.Load() {
		return systemd.Unit{}, context.DeadlineExceeded
	}
	return u.Units.Unit(ctx, name)
}

// TestHostIsNotToldAgain checks that a property is sent once to a systemd that answers no
// questions.
func TestHostIsNotToldAgain(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	h := n.Host()
	u := &busyUnits{Units: n.Units}
	h.Units = u
	r := n.startOn(h)
	n.AwaitCPUsOf("system.slice", "0-1")
	r.quiet()
	before := len(n.Logged("wrote"))
	u.busy.Store(true)
	r.requestList()
	n.Eventually("no answer about any of them", func() bool {
		failed := 0
		r.inspect(func(l *Loop) {
			for _, name := range l.settings.UnitNames() {
				if e := l.inventory.Objects().Units().Get(name); e != nil && e.Err != nil {
					failed++
				}
			}
		})
		return failed == 4
	})
	r.quiet()
	if wrote := n.Logged("wrote")[before:]; len(wrote) > 0 {
		t.Errorf("systemd does not answer, and is told again: %v", wrote)
	}
	u.busy.Store(false)
	r.quiet()
	n.AwaitCPUsOf("system.slice", "0-1")
}

// TestHostThatStaysKeepsNobodyAway checks that a slice which the kernel does not confine is a
// problem, and delays no owner. The kernel keeps the slice off partitions and parked CPUs.
func TestHostThatStaysKeepsNobodyAway(t *testing.T) {
	for _, isolation := range []string{"cpuset", "partition"} {
		t.Run(isolation, func(t *testing.T) {
			n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{NRI: true})
			n.RunHostServices()
			n.YAML = nodefixture.WithIsolation(nodefixture.PoolsYAML, isolation) + nodefixture.HostSlicesYAML
			if isolation == "partition" {
				n.YAML = strings.Replace(n.YAML, "guaranteed:\n", "guaranteed:\n  park: true\n", 1)
			}
			defer n.RefuseWrites("system.slice", cgroup.FileCPUs)()
			r := n.start()
			r.connected()
			pod := n.RunPod("a", "default", "guaranteed", 2, nil)
			id, on := n.BeginContainer(pod, "app", nodefixture.WholeCPUs(2))
			if on.String() != "4-5" {
				t.Errorf("it began on %s; want 4-5", on)
			}
			n.AwaitCPUsOf("user.slice", "0-1")
			slice := "0-7"
			if isolation == "partition" {
				n.AwaitPartition(id, cgroup.RootPartition)
				r.view("parked", func(v *telemetry.View) bool { return v.Parked.Equal(cpuset.Range(6, 7)) })
				slice = "0-3"
			}
			n.AwaitCPUsOf("system.slice", slice)
		})
	}
}
