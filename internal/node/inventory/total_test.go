package inventory_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestTotalOfCgroup checks that the quota of a pod's cgroup is its total if the runtime reports
// none, and that the total survives the removal of the quota.
func TestTotalOfCgroup(t *testing.T) {
	w := newWorld(t)
	p, _ := w.run(cri.Running)
	p.Resources = cri.Resources{}
	w.runtime.pods["p"] = p
	const at = "kubepods.slice/" + slice
	w.tree.MkdirAll(at)
	total := func() pools.Resources { return w.InputOf("u-1", w.now).Resources }
	w.list()
	if got := total(); got != (pools.Resources{}) {
		t.Errorf("total %+v without a quota; want none", got)
	}
	if err := w.tree.Write(at+"/cpu.max", "250000 100000"); err != nil {
		t.Fatal(err)
	}
	w.fetchPod("p", 1<<30)
	want := pools.Resources{Shares: 2560, Quota: 250_000, Period: 100_000}
	if got := total(); got != want {
		t.Errorf("total %+v; want %+v of the quota", got, want)
	}
	if err := w.tree.Write(at+"/cpu.max", "max"); err != nil {
		t.Fatal(err)
	}
	w.fetchPod("p", 1<<30)
	if got := total(); got != want {
		t.Errorf("total %+v after the removal of the quota; want %+v as before", got, want)
	}
}

// TestTotalOfResizedPod checks that the total of a pod with pod-level resources changes with the
// pod, and not with its containers.
func TestTotalOfResizedPod(t *testing.T) {
	w := newWorld(t)
	_, c := w.run(cri.Running)
	c.ID, c.Name, c.CgroupsPath = "d", "side", slice+":cri-containerd:d"
	w.runtime.containers["d"] = c // it has the resources of the pod, too
	w.list()
	total := func() uint64 { return w.InputOf("u-1", w.now).Resources.Shares }
	w.Resize(w.Container("c"), cpus(3))
	if got := total(); got != 2048 {
		t.Errorf("total of %d shares after the resize of a container; want 2048", got)
	}
	if w.InputOf("u-1", w.now).Resized {
		t.Error("the pod counts as resized after the resize of a container")
	}
	w.Pod("p").SetTotal(cpus(3))
	if got := total(); got != 3072 {
		t.Errorf("total of %d shares after the resize of the pod; want 3072", got)
	}
	if !w.InputOf("u-1", w.now).Resized {
		t.Error("the pod does not count as resized after its resize")
	}
	w.Pod("p").SetTotal(cri.Resources{})
	w.Pod("unknown").SetTotal(cpus(1))
	if got := total(); got != 3072 {
		t.Errorf("total of %d shares after an empty resize; want 3072", got)
	}
}

// TestTotalIsCorrected checks that a new report of the runtime replaces the total that the
// daemon computed for the resize of a container, and that an earlier report does not.
func TestTotalIsCorrected(t *testing.T) {
	w := newWorld(t)
	p, _ := w.run(cri.Running)
	p.Resources = cpus(4) // of an init container that has ended
	w.runtime.pods["p"] = p
	w.list()
	total := func() uint64 { return w.InputOf("u-1", w.now).Resources.Shares }
	w.Resize(w.Container("c"), cpus(5))
	if got := total(); got != 5120 {
		t.Errorf("total of %d shares after the resize of a container; want 5120", got)
	}
	w.fetchPod("p", 1<<30)
	if got := total(); got != 5120 {
		t.Errorf("total of %d shares after a report from before the resize; want 5120", got)
	}
	p.Resources = cpus(6)
	w.runtime.pods["p"] = p
	w.fetchPod("p", 1<<30)
	if got := total(); got != 6144 {
		t.Errorf("total of %d shares after the next report; want 6144 as reported", got)
	}
	w.Pod("p").SetTotal(cpus(7)) // the runtime reports it through NRI, and replies with it later
	w.Resize(w.Container("c"), cpus(8))
	p.Resources = cpus(7)
	w.runtime.pods["p"] = p
	w.fetchPod("p", 1<<30)
	if got := total(); got != 8192 {
		t.Errorf("total of %d shares after a late report; want 8192 as computed", got)
	}
}

// TestTotalFromBeforeResizes checks that a late report, which is from before the last of several
// resizes, does not make a pod seem to have pod-level resources.
func TestTotalFromBeforeResizes(t *testing.T) {
	for name, resize := range map[string]func(*world){
		"containers first": func(w *world) {
			w.Resize(w.Container("c"), cpus(3))
			w.Pod("p").SetTotal(cpus(5))
			w.Resize(w.Container("d"), cpus(3))
			w.Resize(w.Container("c"), cpus(4))
		},
		"pod first": func(w *world) {
			w.Pod("p").SetTotal(cpus(5))
			w.Resize(w.Container("c"), cpus(3))
			w.Pod("p").SetTotal(cpus(7))
			w.Resize(w.Container("d"), cpus(3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, c := w.run(cri.Running)
			c.ID, c.Name, c.CgroupsPath = "d", "side", slice+":cri-containerd:d"
			w.runtime.containers["d"] = c
			report := func(n int) {
				p.Resources = cpus(n)
				w.runtime.pods["p"] = p
				w.fetchPod("p", 1<<30)
			}
			w.list()
			report(4)
			resize(w)
			report(5)
			if in := w.InputOf("u-1", w.now); in.HasPodLevelResources() {
				t.Errorf("pod-level resources with a total of %d shares after a late report", in.Resources.Shares)
			}
			report(7)
			if in := w.InputOf("u-1", w.now); in.Resources.Shares != 7168 {
				t.Errorf("total of %d shares in the end; want 7168", in.Resources.Shares)
			}
		})
	}
}

// TestTotalBeforeContainer checks that the total of NRI already contains the growth of a container,
// also if it equals the requests of all containers with an init container that has ended.
func TestTotalBeforeContainer(t *testing.T) {
	w := newWorld(t)
	_, c := w.run(cri.Running)
	c.ID, c.Name, c.CgroupsPath, c.State, c.Requested = "i", "init", slice+":cri-containerd:i", cri.Exited, cpus(1)
	w.runtime.containers["i"] = c
	w.list()
	w.Pod("p").SetTotal(cpus(3))
	w.Resize(w.Container("c"), cpus(3))
	if got := w.InputOf("u-1", w.now).Resources.Shares; got != 3072 {
		t.Errorf("total of %d shares after a resize from 2 to 3 CPUs; want 3072 as reported", got)
	}
}

// TestCorrectedSizeKeepsReportedTotal checks that a total from NRI counts as reported again after a
// resize that the runtime has not made.
func TestCorrectedSizeKeepsReportedTotal(t *testing.T) {
	w := newWorld(t)
	p, _ := w.run(cri.Running)
	p.Resources = cpus(2)
	w.runtime.pods["p"] = p
	w.list()
	e := w.Container("c")
	w.Pod("p").SetTotal(cpus(3))
	before := e.Size()
	w.Resize(e, cpus(5))
	w.CorrectSize(e, e.Size(), before)
	p.Resources = cpus(4) // not the total that NRI has reported
	w.runtime.pods["p"] = p
	w.fetchPod("p", 1<<30)
	if got := w.InputOf("u-1", w.now).Resources.Shares; got != 3072 {
		t.Errorf("total of %d shares; want 3072 as NRI has reported it", got)
	}
}
