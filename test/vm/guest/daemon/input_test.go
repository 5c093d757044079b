//go:build guest

package daemon_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// TestGarbage checks that each bad annotation gets one report, and that other pods do
// not change.
func TestGarbage(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	r := n.withoutKubelet()
	good := r.mustStart(100, "kube-system", manifest.Management(map[string]string{"app": "512"}))
	other := r.mustStart(2000, "default", nil)
	own := r.onCPUs(other, 2)
	bad := []struct {
		namespace   string
		annotations map[string]string
		cpus        string
	}{
		{"kube-system", map[string]string{"target.workload.openshift.io/management": strings.Repeat("9", 200_000)}, "2-3"},
		{"kube-system", map[string]string{"target.workload.openshift.io/management": `{"effect":`}, "2-3"},
		{"kube-system", map[string]string{
			"target.workload.openshift.io/a": `{"effect":"PreferredDuringScheduling"}`,
			"target.workload.openshift.io/b": `{"effect":"PreferredDuringScheduling"}`}, "2-3"},
		{"kube-system", manifest.Management(map[string]string{"app": "-5"}), "0-1"}, // a bad number of shares does not cost the pool
		{"default", manifest.Management(nil), "2-3"},                                // a namespace that is not listed
	}
	want := map[string]int{}
	for _, b := range bad {
		p := r.mustStart(100, b.namespace, b.annotations)
		want[b.namespace+"/"+p.name]++
		r.eventually("placement", func() error { return r.runsOn(p, b.cpus, 0) })
	}
	n.quiet()
	got := map[string]int{}
	for _, rec := range n.records("problem appeared") {
		got[rec["pod"].(string)]++
		if text := rec["problem"].(string); len(text) > 1000 {
			t.Errorf("length of a report = %d; want at most 1000: %.200s", len(text), text)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("reports by pod (-want +got):\n%s", d)
	}
	for _, err := range []error{r.runsOn(good, "0-1", 59), r.runsOn(other, own, 0)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// runsOn reports whether a pod's container runs on exactly these CPUs with this weight. A weight of 0
// is not compared.
func (r *runtimeNode) runsOn(p pod, cpus string, weight uint64) error {
	st, err := r.fs.Read(p.path)
	if err != nil {
		return err
	}
	if st.Effective.String() != cpus || weight != 0 && st.Weight != weight {
		return fmt.Errorf("%s runs on %s with weight %d; want %s, %d", p.name, st.Effective, st.Weight, cpus, weight)
	}
	return nil
}

// TestShortLived checks that containers that end while the daemon is about to write
// cause no errors.
func TestShortLived(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	r := n.withoutKubelet()
	for range 10 {
		p := r.mustStart(1000, "default", nil)
		r.removePod(p) // at once
	}
	last := r.mustStart(1000, "default", nil)
	r.onCPUs(last, 1)
	n.quiet()
	n.invariants()
	for _, msg := range []string{"write refused", "not in the desired state"} {
		if records := n.records(msg); len(records) > 0 {
			t.Errorf("log records with %s = %v; want none", msg, records)
		}
	}
}

// TestReload moves a CPU from shared to management, then refuses a bad file.
func TestReload(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	r := n.withoutKubelet()
	management := r.mustStart(100, "kube-system", manifest.Management(nil))
	shared := r.mustStart(500, "default", nil)
	exclusive := r.mustStart(2000, "default", nil)
	own := r.onCPUs(exclusive, 2)
	r.eventually("management", func() error { return r.runsOn(management, "0-1", 0) })
	r.eventually("shared", func() error { return r.runsOn(shared, "2-3", 0) })

	changed := strings.NewReplacer("cpus: 0-1", "cpus: 0-2", "cpus: 2-3", `cpus: "3"`).Replace(pools)
	n.write(configFile, changed)
	r.eventually("management grows", func() error { return r.runsOn(management, "0-2", 0) })
	r.eventually("shared shrinks", func() error { return r.runsOn(shared, "3", 0) })
	n.quiet()
	n.invariants()

	n.write(configFile, strings.Replace(pools, "cpus: 4-7", "cpus: 4-99", 1))
	n.eventually("refusal in the log", func() error {
		if len(n.records("configuration refused; the one in force stays")) == 0 {
			return fmt.Errorf("no record")
		}
		return nil
	})
	for p, cpus := range map[pod]string{management: "0-2", shared: "3", exclusive: own} {
		if err := r.runsOn(p, cpus, 0); err != nil {
			t.Errorf("after a refused configuration: %v", err)
		}
	}
}

// TestPlanIsWhatRunDoes checks that the writes of plan and of the next run are
// byte-equal.
func TestPlanIsWhatRunDoes(t *testing.T) {
	n := newNode(t)
	r := n.withoutKubelet()
	r.mustStart(100, "kube-system", manifest.Management(map[string]string{"app": "512"}))
	r.mustStart(500, "default", nil)
	r.mustStart(2000, "default", nil)
	n.write(configFile, pools)
	planned := n.plan()
	if len(planned.Writes) == 0 {
		t.Fatal("plan has no writes on a node without cpusets; want some")
	}
	n.startDaemon(pools)
	n.quiet()
	var done []cgroup.Write
	for _, rec := range n.records("wrote") {
		var w cgroup.Write
		data, err := json.Marshal(rec["write"])
		if err == nil {
			err = json.Unmarshal(data, &w)
		}
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, w)
	}
	// Workers finish in any order. The writes to one cgroup keep their order.
	if d := cmp.Diff(byPath(t, planned.Writes), byPath(t, done)); d != "" {
		t.Errorf("planned and done differ (-planned +done):\n%s", d)
	}
}

func byPath(t *testing.T, writes []cgroup.Write) map[cgroup.Path][]string {
	t.Helper()
	m := make(map[cgroup.Path][]string)
	for _, w := range writes {
		line, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		m[w.Path] = append(m[w.Path], string(line))
	}
	return m
}

// TestRestore compares dumps of the tree from outside, before and after.
func TestRestore(t *testing.T) {
	n := newNode(t)
	r := n.withoutKubelet()
	r.mustStart(100, "kube-system", manifest.Management(map[string]string{"app": "512"}))
	r.mustStart(500, "default", nil)
	r.mustStart(2000, "default", nil)
	before := n.dump()
	n.startDaemon(pools)
	n.quiet()
	n.stopDaemon()
	if n.dump() == before {
		t.Fatal("the daemon changed nothing; want writes")
	}
	out := n.run("cpupoold", "restore", "-o", "json")
	var report restore.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, d := range report.Differs {
		if !d.Harmless {
			t.Errorf("%s %s = %q; was %q: %s", d.Path, d.File, d.Now, d.Value, d.Reason)
		}
	}
	// A recorded cpuset cannot be cleared: all CPUs stand for none named. The effective sets are compared as they are.
	all := fmt.Sprintf("cpus=%q", strings.TrimSpace(n.run("cat", "/sys/devices/system/cpu/possible")))
	before = strings.ReplaceAll(before, all, `cpus=""`)
	after := strings.ReplaceAll(n.dump(), all, `cpus=""`)
	if d := cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")); d != "" {
		t.Errorf("tree (-before +after):\n%s", d)
	}
}
