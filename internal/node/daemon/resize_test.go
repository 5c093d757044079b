package daemon

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestResizeInPlace resizes containers as the kubelet does, through the runtime, which asks
// over NRI. The resync is far away.
func TestResizeInPlace(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	r := n.start()
	r.connected()
	app := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(app, "4-5")
	other := n.RunContainer(n.RunPod("b", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	shared := n.RunContainer(n.RunPod("s", "default", "besteffort", 0, nil), "app", cri.Resources{Shares: 2})
	r.quiet()
	for _, step := range []struct {
		name    string
		to      cri.Resources
		cpus    string
		quota   int64  // -1: none
		refused string // part of the error
	}{
		{name: "grows beside what it has", to: nodefixture.WholeCPUs(3), cpus: "4-5,7", quota: -1},
		{name: "more than there is", to: nodefixture.WholeCPUs(4), cpus: "4-5,7", quota: -1, refused: "resize to 4 exclusive CPUs: TooFewFree: 0 of 4 CPUs of the guaranteed pool are free; it keeps CPUs 4-5,7"},
		{name: "the same again", to: nodefixture.WholeCPUs(3), cpus: "4-5,7", quota: -1},
		{name: "shrinks to a part", to: nodefixture.WholeCPUs(1), cpus: "7", quota: -1}, // the rest is a whole core
		{name: "a fraction shares", to: nodefixture.MilliCPUs(1500), cpus: "2-3", quota: 150_000},
		{name: "another fraction", to: nodefixture.MilliCPUs(500), cpus: "2-3", quota: 50_000},
		{name: "and back", to: nodefixture.WholeCPUs(2), cpus: "4-5", quota: -1},
	} {
		err := n.Runtime.Resize(app, step.to)
		if (err == nil) != (step.refused == "") || err != nil && !strings.Contains(err.Error(), step.refused) {
			t.Fatalf("%s: %v; want %q", step.name, err, step.refused)
		}
		n.AwaitCPUs(app, step.cpus)
		r.quiet()
		if st := n.State(app); st.CPUs.String() != step.cpus || st.Quota != step.quota || n.RecordedCPUs(app) != step.cpus {
			t.Errorf("%s: cpuset.cpus %s, on record %s, quota %d; want %s, %d", step.name, st.CPUs, n.RecordedCPUs(app), st.Quota, step.cpus, step.quota)
		}
		for id, cpus := range map[string]string{other: "6", shared: "2-3"} {
			if got := n.State(id).Effective.String(); got != cpus {
				t.Errorf("%s: another one has moved from %s to %s", step.name, cpus, got)
			}
		}
		n.CheckOccupants()
		v := r.loop.publisher.Metrics()
		if len(v.Problems) > 0 {
			t.Errorf("%s: problems %v", step.name, v.Problems)
		}
	}
	r.view("the refusal in the metrics", func(v *telemetry.View) bool { return v.Refused["TooFewFree"] == 1 })
	if drifts := r.loop.publisher.Metrics().Drifts; len(drifts) > 0 {
		t.Errorf("resizes count as foreign writes: %v", drifts)
	}
	// No CPU stays reserved for the pod: all free CPUs can be allocated.
	late := n.RunContainer(n.RunPod("c", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(late, "7")
}

// TestResizeOfCarvedCPUs checks that shared containers leave CPUs for an owner that grows, and
// get CPUs of one that shrinks. The floor of the shared pool remains.
func TestResizeOfCarvedCPUs(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	n.YAML = nodefixture.CarvedYAML
	r := n.start()
	r.connected()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	app := n.RunContainer(n.RunPod("a", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	rest := func(want int) {
		t.Helper()
		n.Eventually("shared containers beside the owner", func() bool {
			mine, others := n.State(app).Effective, n.State(shared).Effective
			return mine.Len() == want && !mine.Overlaps(others) && mine.Union(others).Equal(cpuset.Range(2, 7))
		})
		r.quiet()
	}
	rest(1)
	before := n.State(app).Effective
	if err := n.Runtime.Resize(app, nodefixture.WholeCPUs(3)); err != nil {
		t.Fatal(err)
	}
	rest(3)
	if after := n.State(app).Effective; !before.IsSubsetOf(after) {
		t.Errorf("the owner has moved from %s to %s", before, after)
	}
	err := n.Runtime.Resize(app, nodefixture.WholeCPUs(6))
	if err == nil || !strings.Contains(err.Error(), "guaranteed.floor") {
		t.Errorf("a resize below the floor: %v; want a refusal that names it", err)
	}
	rest(3)
	if err := n.Runtime.Resize(app, nodefixture.WholeCPUs(1)); err != nil {
		t.Fatal(err)
	}
	rest(1)
}

// TestResizeLetThrough checks that with onRefusal: shared a resize that does not fit is made.
// The container has fewer CPUs, and a problem reports it.
func TestResizeLetThrough(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	n.YAML = strings.Replace(n.YAML, "cpus: 4-7\n", "cpus: 4-7\n  onRefusal: shared\n", 1)
	r := n.start()
	r.connected()
	app := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	small := n.RunContainer(n.RunPod("b", "default", "guaranteed", 0, nil), "app", nodefixture.MilliCPUs(500))
	if err := n.Runtime.Resize(app, nodefixture.WholeCPUs(5)); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUs(app, "4-7")
	r.view("shortage", func(v *telemetry.View) bool { return v.Problems["Short"] == 1 })
	if err := n.Runtime.Resize(small, nodefixture.WholeCPUs(1)); err != nil {
		t.Fatal(err)
	}
	r.view("refusal", func(v *telemetry.View) bool { return v.Problems["Refused"] == 1 })
	n.AwaitCPUs(small, "2-3")
	if err := n.Runtime.Resize(app, nodefixture.WholeCPUs(2)); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUs(app, "4-5")
	n.AwaitCPUs(small, "6")
}

// TestResizeWhileNRIIsLost checks that a resize without NRI is found when NRI is connected
// again. The resync is far away.
func TestResizeWhileNRIIsLost(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	r := n.start()
	r.connected()
	app := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(app, "4-5")
	r.quiet()
	for _, step := range []struct {
		to    cri.Resources
		cpus  string
		quota int64 // -1: none
	}{
		{nodefixture.MilliCPUs(1500), "2-3", 150_000},
		{nodefixture.WholeCPUs(3), "4-6", -1},
	} {
		n.Runtime.NRIDown()
		r.view("NRI lost", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceLost })
		if err := n.Runtime.Resize(app, step.to); err != nil {
			t.Fatal(err)
		}
		if err := n.Runtime.NRIUp(); err != nil {
			t.Fatal(err)
		}
		r.connected()
		n.AwaitCPUs(app, step.cpus)
		n.Eventually("quota", func() bool { return n.State(app).Quota == step.quota })
		r.quiet()
		n.CheckOccupants()
	}
}
