package daemon

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// milli are the resources of a container of a Guaranteed pod.
func milli(n int) cri.Resources {
	return cri.Resources{Shares: uint64(n) * 1024 / 1000, Quota: int64(n) * 100, Period: 100_000}
}

// asked waits until the runtime asks the daemon.
func (r *running) asked() {
	r.t.Helper()
	r.view("NRI connected", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceOK })
}

// TestResizeInPlace resizes containers as the kubelet does, through the runtime, which
// asks over NRI. Resync is far away.
func TestResizeInPlace(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	r := n.start()
	r.asked()
	app := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(app, "4-5")
	other := n.container(n.pod("b", "default", "guaranteed", 1, nil), "app", whole(1))
	shared := n.container(n.pod("s", "default", "besteffort", 0, nil), "app", cri.Resources{Shares: 2})
	r.quiet()
	for _, step := range []struct {
		name    string
		to      cri.Resources
		cpus    string
		quota   int64  // -1: none
		refused string // part of the error
	}{
		{name: "grows beside what it has", to: whole(3), cpus: "4-5,7", quota: -1},
		{name: "more than there is", to: whole(4), cpus: "4-5,7", quota: -1, refused: "resize to 4 CPUs of its own: TooFewFree: 0 of 4 CPUs of the guaranteed pool are free; it keeps what it has, CPUs 4-5,7"},
		{name: "the same again", to: whole(3), cpus: "4-5,7", quota: -1},
		{name: "shrinks to a part", to: whole(1), cpus: "7", quota: -1}, // the rest is a whole core
		{name: "a fraction shares", to: milli(1500), cpus: "2-3", quota: 150_000},
		{name: "another fraction", to: milli(500), cpus: "2-3", quota: 50_000},
		{name: "and back", to: whole(2), cpus: "4-5", quota: -1},
	} {
		err := n.runtime.Resize(app, step.to)
		if (err == nil) != (step.refused == "") || err != nil && !strings.Contains(err.Error(), step.refused) {
			t.Fatalf("%s: %v; want %q", step.name, err, step.refused)
		}
		n.runsOn(app, step.cpus)
		r.quiet()
		if st := n.state(app); st.CPUs.String() != step.cpus || st.Quota != step.quota || n.recordedCPUs(app) != step.cpus {
			t.Errorf("%s: cpuset.cpus %s, on record %s, quota %d; want %s, %d", step.name, st.CPUs, n.recordedCPUs(app), st.Quota, step.cpus, step.quota)
		}
		for id, cpus := range map[string]string{other: "6", shared: "2-3"} {
			if got := n.state(id).Effective.String(); got != cpus {
				t.Errorf("%s: another one has moved from %s to %s", step.name, cpus, got)
			}
		}
		n.check()
		v := r.loop.snapshot.Load()
		if len(v.Problems) > 0 {
			t.Errorf("%s: problems %v", step.name, v.Problems)
		}
	}
	r.view("the refusal in the metrics", func(v *telemetry.View) bool { return v.Refused["TooFewFree"] == 1 })
	if drifts := r.loop.snapshot.Load().Drifts; len(drifts) > 0 {
		t.Errorf("resizes count as foreign writes: %v", drifts)
	}
	// Nothing is left reserved for the pod: all that is free can be had.
	late := n.container(n.pod("c", "default", "guaranteed", 1, nil), "app", whole(1))
	n.runsOn(late, "7")
}

// TestResizeOfCarvedCPUs: shared containers give way for a larger owner, and get CPUs
// back from a smaller one; the floor stays.
func TestResizeOfCarvedCPUs(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	n.yaml = carvedYAML
	r := n.start()
	r.asked()
	shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	app := n.container(n.pod("a", "default", "guaranteed", 1, nil), "app", whole(1))
	rest := func(want int) {
		t.Helper()
		n.eventually("shared containers beside the owner", func() bool {
			mine, others := n.state(app).Effective, n.state(shared).Effective
			return mine.Len() == want && !mine.Overlaps(others) && mine.Union(others).Equal(cpuset.Range(2, 7))
		})
		r.quiet()
	}
	rest(1)
	before := n.state(app).Effective
	if err := n.runtime.Resize(app, whole(3)); err != nil {
		t.Fatal(err)
	}
	rest(3)
	if after := n.state(app).Effective; !before.IsSubsetOf(after) {
		t.Errorf("the owner has moved from %s to %s", before, after)
	}
	err := n.runtime.Resize(app, whole(6))
	if err == nil || !strings.Contains(err.Error(), "guaranteed.floor") {
		t.Errorf("a resize below the floor: %v; want a refusal that names it", err)
	}
	rest(3)
	if err := n.runtime.Resize(app, whole(1)); err != nil {
		t.Fatal(err)
	}
	rest(1)
}

// TestResizeLetThrough: with onRefusal: shared a resize is not refused. The container
// has what there is, and is reported.
func TestResizeLetThrough(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	n.yaml = strings.Replace(n.yaml, "cpus: 4-7\n", "cpus: 4-7\n  onRefusal: shared\n", 1)
	r := n.start()
	r.asked()
	app := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	small := n.container(n.pod("b", "default", "guaranteed", 0, nil), "app", milli(500))
	if err := n.runtime.Resize(app, whole(5)); err != nil {
		t.Fatal(err)
	}
	n.runsOn(app, "4-7")
	r.view("shortage", func(v *telemetry.View) bool { return v.Problems["Short"] == 1 })
	if err := n.runtime.Resize(small, whole(1)); err != nil {
		t.Fatal(err)
	}
	r.view("refusal", func(v *telemetry.View) bool { return v.Problems["Refused"] == 1 })
	n.runsOn(small, "2-3")
	if err := n.runtime.Resize(app, whole(2)); err != nil {
		t.Fatal(err)
	}
	n.runsOn(app, "4-5")
	n.runsOn(small, "6")
}

// TestResizeWhileNRIIsLost: what was resized while nobody was asked is found when the
// runtime asks again. Resync is far away.
func TestResizeWhileNRIIsLost(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	r := n.start()
	r.asked()
	app := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(app, "4-5")
	r.quiet()
	for _, step := range []struct {
		to    cri.Resources
		cpus  string
		quota int64 // -1: none
	}{
		{milli(1500), "2-3", 150_000},
		{whole(3), "4-6", -1},
	} {
		n.runtime.NRIDown()
		r.view("NRI lost", func(v *telemetry.View) bool { return v.Sources[telemetry.NRI] == telemetry.SourceLost })
		if err := n.runtime.Resize(app, step.to); err != nil {
			t.Fatal(err)
		}
		if err := n.runtime.NRIUp(); err != nil {
			t.Fatal(err)
		}
		r.asked()
		n.runsOn(app, step.cpus)
		n.eventually("quota", func() bool { return n.state(app).Quota == step.quota })
		r.quiet()
		n.check()
	}
}
