package cgroup_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	pod0   = "kubepods.slice/kubepods-pod0.slice"
	scope1 = pod0 + "/cri-containerd-c1.scope"
	scope2 = "kubepods.slice/kubepods-pod1.slice/cri-containerd-c2.scope"
)

// podWorld is a node of 8 CPUs. The container c0 of pod0 has requested all CPUs, and its
// repairs pause. The container c1 is in the same pod, c2 in another one.
func podWorld(d cgroup.Driver, targets ...cgroup.Target) *world {
	w := newWorld(d, 8)
	for i := range 3 {
		w.start(containerPath(d, i), false)
	}
	w.set(containerPath(d, 0), cpuset.Range(0, 7))
	w.left[containerPath(d, 0)] = []string{cgroup.FileCPUs}
	w.targets = targets
	return w
}

func podSlice(cpus cpuset.Set) cgroup.Target {
	return cgroup.Target{Path: pod0, CPUs: cpus, Around: true}
}

func container(name string, path cgroup.Path, exclusive bool, cpus ...int) cgroup.Target {
	return cgroup.Target{Path: path, Container: name, CPUs: cpuset.Of(cpus...), Exclusive: exclusive}
}

const leftAlone = "deferred cpuset.cpus " + scope0 + " container=c0 # another process writes it, too; repairs pause for a while"

// TestPodSliceConfines checks that a container gets CPUs that a confined container has
// requested, in the same list of writes.
func TestPodSliceConfines(t *testing.T) {
	w := podWorld(cgroup.DriverSystemd)
	attacker := container("c0", scope0, false, 2, 3)
	got := w.list(t, podSlice(cpuset.Of(2, 3)), attacker, container("c2", scope2, true, 4, 5))
	want := []string{
		"file cpuset.cpus=2-3 " + pod0,
		"file cpuset.cpus=4-5 " + scope2,
		"dbus AllowedCPUs=2-3 " + pod0,
		"cri cpuset_cpus=4-5 " + scope2 + " container=c2",
		leftAlone,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// Without CPUs of the slice it waits.
	w = podWorld(cgroup.DriverSystemd)
	w.set(scope2, cpuset.Of(6))
	got = w.list(t, attacker, container("c2", scope2, true, 4, 5))
	want = []string{
		leftAlone,
		"deferred cpuset.cpus " + scope2 + " container=c2 # waits until CPUs 4-5 are left by others: [" + scope0 + "]",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestPodSliceGrowsFirst checks that the slice gets CPUs before a container of the pod, and
// loses them after it.
func TestPodSliceGrowsFirst(t *testing.T) {
	w := podWorld(cgroup.DriverSystemd)
	attacker := container("c0", scope0, false, 2, 3)
	w.list(t, podSlice(cpuset.Range(2, 5)), attacker, container("c1", scope1, true, 4, 5))
	want := []string{
		"file cpuset.cpus=2-7 " + pod0 + " # makes way before it gets 2-3,6-7",
		"file cpuset.cpus=6-7 " + scope1,
		"file cpuset.cpus=2-3,6-7 " + pod0,
		"dbus AllowedCPUs=2-3,6-7 " + pod0,
		"cri cpuset_cpus=6-7 " + scope1 + " container=c1",
		leftAlone,
	}
	w.targets = []cgroup.Target{podSlice(cpuset.Of(2, 3, 6, 7)), attacker, container("c1", scope1, true, 6, 7)}
	if d := cmp.Diff(want, w.lines(t)); d != "" {
		t.Error(d)
	}
}

// TestPodSliceOwner checks that an owner that has requested all CPUs keeps only its own CPUs
// from others.
func TestPodSliceOwner(t *testing.T) {
	w := podWorld(cgroup.DriverCgroupfs)
	p0, p1, p2 := containerPath(cgroup.DriverCgroupfs, 0), containerPath(cgroup.DriverCgroupfs, 1), containerPath(cgroup.DriverCgroupfs, 2)
	w.set(p2, cpuset.Of(6))
	w.set(p1, cpuset.Of(2, 3))
	slice := cgroup.Target{Path: p0.Parent(), CPUs: cpuset.Range(2, 5), Around: true}
	w.targets = []cgroup.Target{slice, container("c0", p0, true, 4, 5), container("", p1, false, 2, 3), container("", p2, false, 2, 3)}
	want := []string{
		"file cpuset.cpus=2-5 kubepods/pod0",
		"file cpuset.cpus=2-3 kubepods/pod1/c2",
		"deferred cpuset.cpus kubepods/pod0/c0 container=c0 # another process writes it, too; repairs pause for a while",
	}
	if d := cmp.Diff(want, w.lines(t)); d != "" {
		t.Error(d)
	}
}

// TestPodSliceReturns checks that the slice gets all CPUs while others own some of them. It
// waits for a container that asks for CPUs of others.
func TestPodSliceReturns(t *testing.T) {
	w := podWorld(cgroup.DriverSystemd)
	attacker, owner := container("c0", scope0, false, 2, 3), container("c2", scope2, true, 4, 5)
	w.list(t, podSlice(cpuset.Of(2, 3)), attacker, owner)
	want := []string{
		leftAlone,
		"deferred cpuset.cpus " + pod0 + " # waits until CPUs 4-5 are left by others: [" + scope2 + "]",
	}
	if d := cmp.Diff(want, w.list(t, podSlice(cpuset.Range(0, 7)), attacker, owner)); d != "" {
		t.Error(d)
	}
	clear(w.left)
	want = []string{
		"file cpuset.cpus=2-3 " + scope0,
		"file cpuset.cpus=0-7 " + pod0,
		"dbus AllowedCPUs=0-7 " + pod0,
		"cri cpuset_cpus=2-3 " + scope0 + " container=c0",
	}
	if d := cmp.Diff(want, w.list(t, podSlice(cpuset.Range(0, 7)), attacker, owner)); d != "" {
		t.Error(d)
	}
	w.verify(t)
}

// lines makes the writes for the targets, and returns them and the deferred ones. A container
// that defies the daemon may share CPUs with its own pod, which the guard of list forbids.
func (w *world) lines(t *testing.T) []string {
	t.Helper()
	writes, deferred := w.diff()
	var lines []string
	for _, x := range writes {
		w.mustApply(t, x)
		lines = append(lines, x.String())
	}
	for _, x := range deferred {
		lines = append(lines, x.String())
	}
	return lines
}
