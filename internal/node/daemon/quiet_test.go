package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestQuiet checks that CPUs which an owner has left stay free for the next owner, without a
// write to shared containers. The CPUs join the shared pool when the last owner ends, and
// survive a restart of the daemon before that.
func TestQuiet(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.WithQuiet(nodefixture.CarvedYAML, "1h")
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	stays := n.RunPod("a", "default", "guaranteed", 1, nil)
	n.RunContainer(stays, "app", nodefixture.WholeCPUs(1))
	comes := func(uid string) (pod string, cpus cpuset.Set) {
		pod = n.RunPod(uid, "default", "guaranteed", 2, nil)
		id := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
		n.Eventually(uid+" has two CPUs", func() bool { return n.State(id).Effective.Len() == 2 })
		r.quiet()
		return pod, n.State(id).Effective
	}
	second, its := comes("b")
	has := n.State(shared).CPUs
	writes := func() (all []string) {
		for _, w := range n.Tree.Writes() {
			if strings.HasPrefix(w.Name, n.Runtime.Cgroup(shared)) {
				all = append(all, w.Name)
			}
		}
		return all
	}
	before := len(writes())
	rests := func(cpus int) {
		t.Helper()
		r.view("CPUs rest", func(v *telemetry.View) bool { return v.Quiet["cpus"] == cpus })
		r.quiet()
		n.CheckAssigned()
		if got := n.State(shared).CPUs; !got.Equal(has) {
			t.Errorf("who shares has CPUs %s, and %s before", got, has)
		}
	}
	for i := range 2 {
		if err := n.Runtime.StopPod(second); err != nil {
			t.Fatal(err)
		}
		rests(2)
		if p := n.preview(); !p.Plan.Resting.Equal(its) || len(p.Writes) > 0 {
			t.Errorf("plan: %s rest, and writes are %v; want %s and none", p.Plan.Resting, p.Writes, its)
		}
		r.stop()
		r = n.start()
		rests(2)
		var cpus cpuset.Set
		if second, cpus = comes(fmt.Sprintf("next%d", i)); !cpus.Equal(its) {
			t.Errorf("the next owner has CPUs %s, and %s rested", cpus, its)
		}
		rests(0)
	}
	if got := writes()[before:]; len(got) > 0 {
		t.Errorf("writes to who shares: %v", got)
	}
	for _, pod := range []string{second, stays} {
		if err := n.Runtime.StopPod(pod); err != nil {
			t.Fatal(err)
		}
	}
	n.AwaitCPUs(shared, "2-7")
}

// TestQuietEnds checks that no write is deferred for longer than configured while there are
// owners.
func TestQuietEnds(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.WithQuiet(nodefixture.CarvedYAML, "1s")
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	stays := n.RunContainer(n.RunPod("a", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	goes := n.RunPod("b", "default", "guaranteed", 2, nil)
	n.RunContainer(goes, "app", nodefixture.WholeCPUs(2))
	n.Eventually("owners", func() bool { return n.State(shared).CPUs.Len() == 3 })
	r.quiet()
	if err := n.Runtime.StopPod(goes); err != nil {
		t.Fatal(err)
	}
	r.within(time.Second, "the CPUs of the pod that ended in the shared pool", func() bool {
		return n.State(shared).Effective.Equal(cpuset.Range(2, 7).Difference(n.State(stays).CPUs))
	})
	if said := n.Logged("quiet: waits"); len(said) == 0 {
		t.Error("nothing has waited")
	}
	n.Eventually("that is in the log", func() bool { return len(n.Logged("quiet: no writes wait")) > 0 })
}

// TestQuietWeights checks that a weight after an external write is repaired later, and CPUs at
// once. Deferred repairs are made when quiet is switched off.
func TestQuietWeights(t *testing.T) {
	n := driftNode(t)
	n.YAML = nodefixture.WithQuiet(n.YAML, "1h")
	r := n.start()
	n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "a", nodefixture.WholeCPUs(2))
	id := n.RunContainer(n.RunPod("manager", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"a": 512})), "a", cri.Resources{Shares: 102})
	n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileWeight, "59")
	r.settled()
	n.WriteFile(id, cgroup.FileWeight, "1000")
	r.view("the weight waits", func(v *telemetry.View) bool { return v.Quiet["weights"] == 1 })
	n.WriteFile(id, cgroup.FileCPUs, "2")
	n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileCPUs, "0-1")
	r.quiet()
	n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileWeight, "1000")
	waits := 0
	r.inspect(func(l *Loop) {
		if l.hasWaiting() {
			t.Error("each event needs a full pass while a weight waits")
		}
		for _, d := range l.last.Deferred {
			if d.Property == cgroup.FileWeight && strings.HasPrefix(d.Reason, "quiet period:") {
				waits++
			}
		}
	})
	if waits != 1 || len(n.Logged("not in the desired state")) > 0 {
		t.Errorf("%d weights wait, and not in the desired state is %v; want 1, and nothing", waits, n.Logged("not in the desired state"))
	}
	n.YAML = strings.Replace(n.YAML, "quiet: 1h", "quiet: 0s", 1)
	r.loop.watchers.reload()
	n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileWeight, "59")
}

// TestQuietIsOver checks that the quiet period of CPUs ends when an owner gets other CPUs. The
// shared pool changes for that owner, and gets the deferred CPUs in the same writes.
func TestQuietIsOver(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.WithQuiet(nodefixture.CarvedYAML, "1h")
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	owner := func(uid string, cpus int) (pod, id string) {
		t.Helper()
		pod = n.RunPod(uid, "default", "guaranteed", cpus, nil)
		id = n.RunContainer(pod, "app", nodefixture.WholeCPUs(cpus))
		n.Eventually(uid+" has its CPUs", func() bool { return n.State(id).Effective.Len() == cpus && n.State(id).Quota == -1 })
		r.quiet()
		return pod, id
	}
	_, stays := owner("a", 1)
	goes, its := owner("b", 1)
	rested := n.State(its).Effective
	if err := n.Runtime.StopPod(goes); err != nil {
		t.Fatal(err)
	}
	r.view("a CPU rests", func(v *telemetry.View) bool { return v.Quiet["cpus"] == 1 })
	_, next := owner("c", 2)
	if n.State(next).Effective.Overlaps(rested) {
		t.Fatalf("the next owner has %s, of which %s rested: choose a case in which it gets others", n.State(next).Effective, rested)
	}
	r.view("nothing rests", func(v *telemetry.View) bool { return v.Quiet["cpus"] == 0 })
	r.quiet()
	n.CheckAssigned()
	if all := n.State(shared).CPUs.Union(n.State(stays).CPUs, n.State(next).CPUs); !rested.IsSubsetOf(n.State(shared).CPUs) {
		t.Errorf("who shares has %s, without %s that rested; all have %s", n.State(shared).CPUs, rested, all)
	}
}
