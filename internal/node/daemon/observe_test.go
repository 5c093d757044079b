package daemon

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestObserve checks that with mode: observe nothing is written, not even to disk, and that the
// writes are reported.
func TestObserve(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{NRI: true})
	n.RunHostServices()
	n.Units.Install("du.service", cpuset.Set{})
	if err := n.Units.Start("du.service"); err != nil {
		t.Fatal(err)
	}
	n.YAML = strings.Replace(nodefixture.PoolsYAML, "resyncPeriod: 10m", "resyncPeriod: 1s", 1) + `mode: observe
node: {topology: true}
units:
  du.service: {cpus: 1}
hostSlices: {enabled: true}
`
	n.YAML = strings.Replace(n.YAML, "  cpus: 4-7\n", "  cpus: 4-7\n  isolation: partition\n  park: true\n  onRefusal: fail\n", 1)
	var mu sync.Mutex
	var written []string
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		mu.Lock()
		defer mu.Unlock()
		written = append(written, w.Name+"="+w.Value)
		return nil
	})
	shared := n.RunContainer(n.RunPod("shared", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	manager := n.RunContainer(n.RunPod("manager", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	before := n.Settings()

	r := n.startOn(n.Host().Observing())
	r.view("what would be written", func(v *telemetry.View) bool {
		return v.Ready && v.Observed[string(cgroup.File)] > 0 && v.Observed[string(cgroup.CRI)] > 0 && v.Observed[string(cgroup.DBus)] > 0
	})
	owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	greedy := n.RunContainer(n.RunPod("greedy", "default", "guaranteed", 8, nil), "app", nodefixture.WholeCPUs(8)) // more than there are
	r.view("the refused one", func(v *telemetry.View) bool { return v.RefusedNow > 0 })
	n.WriteFile(shared, cgroup.FileCPUs, "0")
	failed := r.loop.publisher.Metrics().Passes[telemetry.Failed]
	r.view("passes, of a resync among them", func(v *telemetry.View) bool { return v.Passes[telemetry.Failed] > failed+2 })

	n.AwaitFile(n.Runtime.Cgroup(shared), cgroup.FileCPUs, "0")
	for _, id := range []string{owner, greedy, manager} {
		if !n.State(id).CPUs.IsEmpty() || !n.IsRunning(id) {
			t.Errorf("container %s: %+v; want it as it was made", id, n.State(id))
		}
		if got := n.RecordedCPUs(id); got != "" {
			t.Errorf("the runtime has %q on record for %s; want %q", got, id, "")
		}
	}
	after := n.Settings()
	delete(after, n.Runtime.Cgroup(shared)+"/"+cgroup.FileCPUs)
	for name, value := range after {
		if was, known := before[name]; known && was != value {
			t.Errorf("%s was %q and is %q", name, was, value)
		}
	}
	mu.Lock()
	if len(written) > 0 {
		t.Errorf("the daemon has written %q", written)
	}
	mu.Unlock()
	if entries, err := os.ReadDir(n.Dir); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "journal.json" || e.Name() == "run" }) {
		t.Errorf("files of the daemon's: %v, %v", entries, err)
	}
	if property := n.UnitProperty("du.service"); property != "" {
		t.Errorf("du.service has AllowedCPUs=%s; want an empty string", property)
	}
	r.inspect(func(l *Loop) {
		if c := conditionOf(l); c.Reason != "Observing" || !c.Ready {
			t.Errorf("condition %+v; want Observing", c)
		}
		if s := stateFor(l); s.Resources || !s.OnlyCondition || s.Taint != "" || s.Depletion != nil || s.Topology != nil || s.Condition == nil || len(s.Problems) > 0 {
			t.Errorf("the cluster is shown %+v; want a condition and no more", s)
		}
	})
	if _, err := requestMove(t.Context(), r.loop, control.Move{PodUID: "owner", Container: "app"}); !errors.Is(err, (&hostenv.Host{Observes: true}).Writable()) {
		t.Errorf("a move is answered with %v", err)
	}
	if len(n.Logged("would write")) == 0 {
		t.Error("the log does not say what would be written")
	}
}

// TestObserveLeavesEverything checks that a daemon that only observes keeps the values of one
// that has enforced, and that restore can still reset them.
func TestObserveLeavesEverything(t *testing.T) {
	n := newNode(t)
	owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r := n.start()
	n.AwaitCPUs(owner, "4-5")
	r.quiet()
	n.Eventually("the journal", func() bool { return len(n.Journal().Originals) > 0 })
	r.stop()
	before, journal := n.Settings(), n.Journal()

	r = n.startOn(n.Host().Observing())
	r.view("nothing to write", func(v *telemetry.View) bool {
		total := 0
		for count := range maps.Values(v.Observed) {
			total += count
		}
		return v.Ready && total == 0
	})
	r.quiet()
	if after := n.Settings(); !maps.Equal(before, after) {
		t.Errorf("files were %v, and are %v", before, after)
	}
	if after := n.Journal(); len(after.Originals) != len(journal.Originals) {
		t.Errorf("the journal was %+v, and is %+v", journal, after)
	}
}
