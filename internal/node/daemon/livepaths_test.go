package daemon

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// liveNode is a node with a daemon and its live audit.
func liveNode(t *testing.T, n *node, yaml string) (*running, *liveProgram) {
	t.Helper()
	n.YAML = yaml + liveYAML
	r := n.start()
	p := r.watchLive(true)
	n.Tree.Intercept(p.write)
	if n.NRI {
		r.connected()
	}
	return r, p
}

// runOwner returns a step that starts a pod with exclusive CPUs.
func (r *running) runOwner(id *string, uid string, cpus int) func() error {
	return func() error {
		*id = r.RunContainer(r.RunPod(uid, "default", "guaranteed", cpus, nil), "app", nodefixture.WholeCPUs(cpus))
		return nil
	}
}

// TestLivePartitions checks the live audit while owners are cpuset partitions, which end and begin
// around the changes of others.
func TestLivePartitions(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{NRI: true})
	r, p := liveNode(t, n, nodefixture.WithPartitions(nodefixture.PoolsYAML))
	var a, b string
	r.liveSteps(p,
		liveStep{"a", r.runOwner(&a, "a", 1), ""},
		liveStep{"b", r.runOwner(&b, "b", 1), ""},
		liveStep{"a grows", func() error { return n.Runtime.Resize(a, nodefixture.WholeCPUs(3)) }, ""},
	)
	if got := len(p.now()); got != 4 {
		t.Errorf("%d CPUs are watched; want 4", got)
	}
	other := n.State(b).Effective.String()
	r.liveSteps(p, liveStep{"b ends", func() error { return n.Runtime.StopPod(n.PodOf(b)) }, other})
}

// TestLiveUnits checks the live audit of a unit that stops, and starts again with a new cgroup of the
// same path.
func TestLiveUnits(t *testing.T) {
	n := newNode(t)
	n.Units.Install("du.service", cpuset.Set{})
	n.Units.Install("telegraf.service", cpuset.Of(0, 1))
	n.StartUnit("du.service")
	r, p := liveNode(t, n, nodefixture.PoolsYAML+nodefixture.UnitsYAML)
	n.AwaitUnitCPUs("du.service", "4-5")
	restart := func() error {
		if err := n.Units.Stop("du.service"); err != nil {
			return err
		}
		return n.Units.Start("du.service")
	}
	r.liveSteps(p,
		liveStep{"adopted", func() error { return nil }, ""},
		liveStep{"stopped", func() error { return n.Units.Stop("du.service") }, "4-5"},
		liveStep{"started", func() error { return n.Units.Start("du.service") }, "4-5?"},
		liveStep{"restarted at once", restart, "4-5"},
	)
	if got := p.now()[4]; len(got) != 1 || !strings.HasSuffix(got[0], "du.service") {
		t.Errorf("CPU 4 is watched for %s", got)
	}
}

// TestLiveHotplug checks the live audit of an owner with a CPU that goes offline and comes back.
func TestLiveHotplug(t *testing.T) {
	r, p := liveNode(t, newNode(t), nodefixture.PoolsYAML)
	var a string
	r.liveSteps(p,
		liveStep{"an owner", r.runOwner(&a, "a", 2), ""},
		liveStep{"offline", func() error { r.SetOnline(nodefixture.AllCPUsBut(5)); return nil }, "5"},
		liveStep{"online", func() error { r.SetOnline(nodefixture.AllCPUsBut()); return nil }, ""},
	)
	if got := len(p.now()); got != 2 {
		t.Errorf("%d CPUs are watched; want 2", got)
	}
}

// TestLiveMoves checks the live audit of an owner that an operator moves.
func TestLiveMoves(t *testing.T) {
	r, p := liveNode(t, newNode(t), nodefixture.PoolsYAML)
	var a, b string
	r.liveSteps(p,
		liveStep{"a", r.runOwner(&a, "a", 1), ""},
		liveStep{"b", r.runOwner(&b, "b", 1), ""},
	)
	from, to := r.State(a).Effective, cpuset.Of(7)
	r.liveSteps(p, liveStep{"move", func() error {
		outcome, err := requestMove(t.Context(), r.loop, control.Move{PodUID: "a", Container: "app", From: from, To: to})
		if outcome != control.Done {
			t.Errorf("move: %s", outcome)
		}
		return err
	}, from.String()})
	if p.now()[7] == nil {
		t.Error("CPU 7 is not watched after the move")
	}
}

// TestLiveClaims checks the live audit of two containers that share a ResourceClaim: their pod is the
// owner.
func TestLiveClaims(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	r, p := liveNode(t, n, claimYAML)
	var pod, app, more string
	begin := func(id *string, name string) func() error {
		return func() error {
			var on string
			if *id, on = n.beginWith(pod, name, "one=6-7"); on != "6-7" {
				t.Errorf("%s began on %s", name, on)
			}
			return nil
		}
	}
	r.liveSteps(p,
		liveStep{"prepared", func() error {
			r.prepareFor("one", "gpu", 2)
			pod = n.RunPodOf("gpu", "ran", "guaranteed", tiny(), nil)
			return nil
		}, ""},
		liveStep{"a container", begin(&app, "app"), ""},
		liveStep{"a further container", begin(&more, "more"), "6-7"}, // from now on the pod is the owner
	)
	if got := p.now()[6]; len(got) != 1 || strings.Contains(got[0], "scope") {
		t.Errorf("CPU 6 is watched for %s; want the slice of the pod", got)
	}
	r.liveSteps(p,
		liveStep{"one ends", func() error { return n.Runtime.StopContainer(more) }, ""},
		liveStep{"the other ends", func() error { return n.Runtime.StopContainer(app) }, "6-7"},
	)
}

// TestLiveReload checks that a reload of the configuration switches the live audit off, and that a
// foreign task becomes a problem that names it.
func TestLiveReload(t *testing.T) {
	n := newNode(t)
	r, p := liveNode(t, n, nodefixture.PoolsYAML)
	var a string
	r.liveSteps(p, liveStep{"an owner", r.runOwner(&a, "a", 2), ""})
	p.tasks <- schedwatch.Task{CPU: 4, PID: 7, Command: "hog", Cgroup: "system.slice/hog.service", CgroupID: 9}
	r.awaitProblem("ForeignTask", `CPU 4 is exclusive, and a task of another cgroup ran on it: "hog", PID 7, cgroup "system.slice/hog.service"`)
	found := false
	for _, problem := range r.loop.publisher.Latest().Problems {
		found = found || problem.Code == "ForeignTask" && problem.Pod == "default/a" && problem.PodUID == "a" && problem.Container == "app"
	}
	if !found {
		t.Errorf("problems %+v; want one of container app", r.loop.publisher.Latest().Problems)
	}
	summary := func() string {
		return view.NewAnswers(r.loop.publisher.Latest, r.loop.Cgroups, telemetry.Build{}, "", "").Status().Audit.Summary
	}
	if got := summary(); !strings.HasPrefix(got, "audit: live on ") || !strings.Contains(got, ", program tracepoint, and not sampled (audit.interval is off)") {
		t.Errorf("status: %q; want the live audit", got)
	}
	n.YAML = nodefixture.PoolsYAML
	r.loop.watchers.reload()
	<-p.closed
	r.quiet()
	r.Eventually("the status without the live audit", func() bool {
		return summary() == "audit: sampled every 5m0s; not live: audit.live is false"
	})
	r.view("no audit", func(v *telemetry.View) bool { return v.LiveAudit == nil && v.Problems["ForeignTask"] == 0 })
}
