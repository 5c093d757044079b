package cgroup_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// aroundWorld is a node of 8 CPUs with a slice of host services that is not confined,
// a unit in it, a daemon, and a container.
func aroundWorld() *world {
	w := newWorld(cgroup.DriverSystemd, 8)
	w.start("system.slice/sshd.service", false)
	w.start("system.slice/du.service", false)
	w.start(containerPath(cgroup.DriverSystemd, 0), false)
	w.targets = []cgroup.Target{hostSlice(0, 1), unitTarget("du.service")}
	return w
}

func hostSlice(cpus ...int) cgroup.Target {
	return cgroup.Target{Path: "system.slice", Unit: "system.slice", CPUs: cpuset.Of(cpus...), Around: true}
}

func unitTarget(name string, cpus ...int) cgroup.Target {
	return cgroup.Target{Path: cgroup.Path("system.slice/" + name), Unit: name, CPUs: cpuset.Of(cpus...), Exclusive: len(cpus) > 0}
}

func exclusiveContainer(cpus ...int) cgroup.Target {
	return cgroup.Target{Path: containerPath(cgroup.DriverSystemd, 0), Container: "c0", CPUs: cpuset.Of(cpus...), Exclusive: true}
}

// place writes the desired state of the targets to the tree.
func (w *world) place(t *testing.T, targets ...cgroup.Target) {
	t.Helper()
	w.targets = targets
	w.settle(t)
}

func (w *world) list(t *testing.T, targets ...cgroup.Target) []string {
	t.Helper()
	w.targets = targets
	writes, deferred := w.diff()
	g := w.guard()
	var lines []string
	for _, x := range writes {
		w.mustApply(t, x)
		g.check(t, x.String())
		lines = append(lines, x.String())
	}
	for _, x := range deferred {
		lines = append(lines, x.String())
	}
	return lines
}

const scope0 = "kubepods.slice/kubepods-pod0.slice/cri-containerd-c0.scope"

// TestAroundIsFirst checks that host services leave a container's new CPUs before the
// container gets them.
func TestAroundIsFirst(t *testing.T) {
	w := aroundWorld()
	want := []string{
		"file cpuset.cpus=0-1 system.slice",
		"file cpuset.cpus=4-5 " + scope0,
		"cri cpuset_cpus=4-5 " + scope0 + " container=c0",
		"dbus AllowedCPUs=0-1 system.slice",
	}
	if d := cmp.Diff(want, w.list(t, exclusiveContainer(4, 5), hostSlice(0, 1))); d != "" {
		t.Error(d)
	}
}

// TestAroundAUnitThatMoves checks that the slice has both sets while the unit moves,
// and that the unit never runs on the slice's new CPUs.
func TestAroundAUnitThatMoves(t *testing.T) {
	w := aroundWorld()
	w.place(t, hostSlice(0, 1, 4, 5), unitTarget("du.service", 4, 5))
	want := []string{
		"file cpuset.cpus=0-1,4-7 system.slice # makes way before it gets 0-1,6-7",
		"file cpuset.cpus=6-7 system.slice/du.service",
		"dbus AllowedCPUs=6-7 system.slice/du.service",
		"file cpuset.cpus=0-1,6-7 system.slice",
		"dbus AllowedCPUs=0-1,6-7 system.slice",
	}
	if d := cmp.Diff(want, w.list(t, hostSlice(0, 1, 6, 7), unitTarget("du.service", 6, 7))); d != "" {
		t.Error(d)
	}
}

// TestAroundWaitsForTheUnit checks that the slice keeps CPUs while systemd has them
// recorded for the unit.
func TestAroundWaitsForTheUnit(t *testing.T) {
	w := aroundWorld()
	w.place(t, hostSlice(0, 1, 4, 5), unitTarget("du.service", 4, 5))
	w.noRecord["system.slice/du.service"] = true
	want := []string{
		"file cpuset.cpus=0-1,4-7 system.slice # makes way before it gets 0-1,6-7",
		"file cpuset.cpus=6-7 system.slice/du.service",
		"deferred cpuset.cpus system.slice # waits until the cgroups in it leave CPUs 4-5: [system.slice/du.service]",
		"deferred AllowedCPUs system.slice/du.service # its recorder refused in this pass",
	}
	if d := cmp.Diff(want, w.list(t, hostSlice(0, 1, 6, 7), unitTarget("du.service", 6, 7))); d != "" {
		t.Error(d)
	}
}

// TestAroundWaitsForAContainer checks that the slice and its unit wait for CPUs that a
// container still has. The container does not wait.
func TestAroundWaitsForAContainer(t *testing.T) {
	w := aroundWorld()
	w.place(t, hostSlice(0, 1, 4), unitTarget("du.service", 4), exclusiveContainer(6, 7))
	w.noWrite[scope0] = true
	want := []string{
		"deferred cpuset.cpus " + scope0 + " container=c0 # the kernel refused to write this cgroup in this pass",
		"deferred cpuset.cpus system.slice # waits until CPUs 6 are left by others: [" + scope0 + "]",
		"deferred cpuset.cpus system.slice/du.service # waits until system.slice has CPUs 6: [system.slice]",
	}
	if d := cmp.Diff(want, w.list(t, hostSlice(0, 1, 6), unitTarget("du.service", 6), exclusiveContainer(5, 7))); d != "" {
		t.Error(d)
	}
	delete(w.noWrite, scope0)
	w.settle(t)
}

// TestAroundInName checks that the slice around a unit waits for an owner that waits for
// recorded CPUs of the unit: the unit releases the record first.
func TestAroundInName(t *testing.T) {
	w := aroundWorld()
	w.place(t, hostSlice(0), exclusiveContainer(1))
	w.set("system.slice/du.service", cpuset.Range(0, 7)) // of which it has got 0
	want := []string{
		"file cpuset.cpus=0 system.slice/du.service # makes way before it gets 1",
		"file cpuset.cpus=5 " + scope0,
		"cri cpuset_cpus=5 " + scope0 + " container=c0",
		"file cpuset.cpus=0-1 system.slice",
		"file cpuset.cpus=1 system.slice/du.service",
		"dbus AllowedCPUs=0-1 system.slice",
		"dbus AllowedCPUs=1 system.slice/du.service",
	}
	if d := cmp.Diff(want, w.list(t, hostSlice(0, 1), unitTarget("du.service", 1), exclusiveContainer(5))); d != "" {
		t.Error(d)
	}
}

// TestAroundCannotBeNarrowed checks that such a slice delays no other cgroup.
func TestAroundCannotBeNarrowed(t *testing.T) {
	w := aroundWorld()
	w.noWrite["system.slice"] = true
	want := []string{
		"file cpuset.cpus=6-7 " + scope0,
		"file cpuset.cpus=4-5 system.slice/du.service",
		"cri cpuset_cpus=6-7 " + scope0 + " container=c0",
		"dbus AllowedCPUs=4-5 system.slice/du.service",
		"deferred cpuset.cpus system.slice # the kernel refused to write this cgroup in this pass",
	}
	if d := cmp.Diff(want, w.list(t, hostSlice(0, 1, 4, 5), unitTarget("du.service", 4, 5), exclusiveContainer(6, 7))); d != "" {
		t.Error(d)
	}
}

// TestAroundWithinAround checks that a slice within a slice is refused, as is one in a
// cgroup with exclusive CPUs.
func TestAroundWithinAround(t *testing.T) {
	w := aroundWorld()
	w.start("system.slice/system-getty.slice/getty@tty1.service", false)
	inner := cgroup.Target{Path: "system.slice/system-getty.slice", Unit: "system-getty.slice", CPUs: cpuset.Of(0), Around: true}
	got := w.list(t, hostSlice(0, 1), inner)
	want := []string{
		"file cpuset.cpus=0-1 system.slice",
		"dbus AllowedCPUs=0-1 system.slice",
		"deferred cpuset.cpus system.slice/system-getty.slice # system.slice, which contains it, is a target with CPUs too",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestAroundAStoppedSlice checks that only the record of a stopped slice changes, and
// that the slice starts with it.
func TestAroundAStoppedSlice(t *testing.T) {
	w := aroundWorld()
	w.units.Install("machine.slice", cpuset.Set{})
	machines := cgroup.Target{Path: "machine.slice", Unit: "machine.slice", CPUs: cpuset.Of(0, 1), Around: true, Weight: 50}
	want := []string{"dbus AllowedCPUs=0-1 machine.slice", "dbus CPUWeight=50 machine.slice"}
	if d := cmp.Diff(want, w.list(t, machines)); d != "" {
		t.Error(d)
	}
	st, err := w.units.Properties(context.Background(), "machine.slice")
	if err != nil || !st.CPUs.Equal(cpuset.Of(0, 1)) || st.Weight != 50 {
		t.Errorf("systemd has %+v, %v", st, err)
	}
}

// TestStepLeavesOwner checks that a container that makes way leaves the CPUs of a unit, too. The unit
// is narrowed to CPUs on which the container still runs.
func TestStepLeavesOwner(t *testing.T) {
	w := newWorld(cgroup.DriverSystemd, 8)
	w.start("system.slice/du.service", false)
	shared := cgroup.Target{Path: containerPath(cgroup.DriverSystemd, 1), Container: "c1", CPUs: cpuset.Of(4, 5, 6)}
	for i := range 2 {
		w.start(containerPath(cgroup.DriverSystemd, i), false)
	}
	w.place(t, exclusiveContainer(1), shared)
	shared.CPUs = cpuset.Of(1)
	w.options.Owned = cpuset.Of(4, 6, 7)
	container := containerPath(cgroup.DriverSystemd, 1)
	want := []string{
		"file cpuset.cpus=6-7 system.slice/du.service",
		"dbus AllowedCPUs=6-7 system.slice/du.service",
		fmt.Sprintf("file cpuset.cpus=5 %s # makes way before it gets 1", container),
		fmt.Sprintf("cri cpuset_cpus=5 %s container=c1 # makes way before it gets 1", container),
		"file cpuset.cpus=4 " + scope0,
		"cri cpuset_cpus=4 " + scope0 + " container=c0",
		fmt.Sprint("file cpuset.cpus=1 ", container),
		fmt.Sprintf("cri cpuset_cpus=1 %s container=c1", container),
	}
	if d := cmp.Diff(want, w.list(t, exclusiveContainer(4), shared, unitTarget("du.service", 6, 7))); d != "" {
		t.Error(d)
	}
}

// TestStepKeepsUnownedCPU checks that an owner that must leave all its CPUs keeps the one that no other
// owner gets.
func TestStepKeepsUnownedCPU(t *testing.T) {
	w := newWorld(cgroup.DriverSystemd, 8)
	other := cgroup.Target{Path: containerPath(cgroup.DriverSystemd, 1), Container: "c1", CPUs: cpuset.Of(6), Exclusive: true}
	shared := cgroup.Target{Path: containerPath(cgroup.DriverSystemd, 2), Container: "c2", CPUs: cpuset.Of(7)}
	for i := range 3 {
		w.start(containerPath(cgroup.DriverSystemd, i), false)
	}
	w.place(t, exclusiveContainer(4, 5), other, shared)
	other.CPUs, shared.CPUs = cpuset.Of(4), cpuset.Of(5)
	w.options.Owned = cpuset.Of(4, 6)
	want := "file cpuset.cpus=5 " + scope0 + " # makes way before it gets 6"
	if got := w.list(t, exclusiveContainer(6), other, shared); len(got) == 0 || got[0] != want {
		t.Errorf("writes = %q; want %q first", got, want)
	}
}
