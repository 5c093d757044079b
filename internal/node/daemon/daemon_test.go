package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func TestPlacesEveryKind(t *testing.T) {
	n := newNode(t)
	r := n.start()
	mgmt := n.pod("mgmt", "kube-system", "burstable", 0, management(map[string]int{"app": 512}))
	agent := n.container(mgmt, "app", cri.Resources{Shares: 102})
	burst := n.container(n.pod("burst", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	best := n.container(n.pod("best", "default", "besteffort", 0, nil), "app", cri.Resources{Shares: 2})
	frac := n.container(n.pod("frac", "default", "guaranteed", 0, nil), "app", cri.Resources{Shares: 1536, Quota: 150000, Period: 100000})
	pod := n.pod("excl", "default", "guaranteed", 2, nil)
	excl := n.container(pod, "app", whole(2))

	n.runsOn(agent, "0-1")
	n.runsOn(mgmt, "0-1")
	for _, id := range []string{burst, best, frac, pod} {
		n.runsOn(id, "2-3")
	}
	n.runsOn(excl, "4-5")
	r.quiet()
	n.check()
	if got := n.state(agent).Weight; got != 59 {
		t.Errorf("weight of 512 shares = %d; want 59 as the runtime makes it", got)
	}
	if got := n.state(excl).Quota; got != -1 {
		t.Errorf("exclusive container has a quota of %d", got)
	}
	if got := n.state(frac).Quota; got != 150000 {
		t.Errorf("quota of a shared container = %d; want its own 150000", got)
	}
}

func TestRestartMovesNobody(t *testing.T) {
	n := newNode(t)
	r := n.start()
	first := n.container(n.pod("one", "default", "guaranteed", 1, nil), "app", whole(1))
	n.runsOn(first, "4")
	second := n.container(n.pod("two", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(second, "6-7")
	r.quiet()
	if err := n.runtime.StopContainer(first); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for name, damage := range map[string]func() error{
		"journal kept":    func() error { return nil },
		"journal lost":    func() error { return os.RemoveAll(filepath.Join(n.dir, "journal.json")) },
		"journal damaged": func() error { return os.WriteFile(filepath.Join(n.dir, "journal.json"), []byte("{"), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		before := len(n.tree.Writes())
		r := n.start()
		r.quiet()
		r.stop()
		if writes := n.tree.Writes()[before:]; len(writes) != 0 {
			t.Errorf("%s: a restart with nothing to do wrote %v", name, writes)
		}
		n.runsOn(second, "6-7")
	}
}

func TestRestartedContainerGetsSameCPUs(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pod := n.pod("one", "default", "guaranteed", 1, nil)
	first := n.container(pod, "app", whole(1))
	n.runsOn(first, "4")
	if err := n.runtime.StopContainer(first); err != nil {
		t.Fatal(err)
	}
	other := n.container(n.pod("two", "default", "guaranteed", 1, nil), "app", whole(1))
	n.eventually("other placed", func() bool { return n.state(other).Effective.Len() == 1 })
	again := n.container(pod, "app", whole(1))
	n.runsOn(again, "4")
	r.quiet()
	n.check()
}

func TestOriginalsAreOnDiskBeforeTheFirstWrite(t *testing.T) {
	n := newNode(t)
	daemon := make(map[string]bool)
	n.tree.Intercept(func(w testnode.CgroupWrite) error {
		dir, file := filepath.Split(w.Name)
		if file == "cpuset.cpus" && !daemon[w.Name] {
			daemon[w.Name] = true
			for _, o := range n.journal().Originals {
				if string(o.Path)+"/" == dir && o.File == file {
					return nil
				}
			}
			t.Errorf("%s was written before its original was on disk", w.Name)
		}
		return nil
	})
	r := n.start()
	id := n.container(n.pod("one", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.runsOn(id, "2-3")
	r.quiet()
}

func TestRefusedWriteSpoilsNothingElse(t *testing.T) {
	n := newNode(t)
	bad := n.container(n.pod("bad", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	good := n.container(n.pod("good", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	excl := n.container(n.pod("excl", "default", "guaranteed", 2, nil), "app", whole(2))
	n.tree.Intercept(func(w testnode.CgroupWrite) error {
		if w.Name == n.runtime.Cgroup(bad)+"/cpuset.cpus" {
			return syscall.EBUSY
		}
		return nil
	})
	r := n.start()
	n.runsOn(good, "2-3")
	r.view("failure counted", func(v *telemetry.View) bool {
		return v.Writes[telemetry.Write{Via: "file", Result: telemetry.Failed}] > 0
	})
	n.tree.Intercept(nil)
	n.runsOn(bad, "2-3")
	n.runsOn(excl, "4-5")
	r.quiet()
	n.check()
}

func TestStalledRuntimeHoldsNobodyUp(t *testing.T) {
	n := newNode(t)
	r := n.start()
	release := n.runtime.Hang("UpdateContainerResources")
	defer release()
	a := n.container(n.pod("a", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.runsOn(a, "2-3")
	b := n.container(n.pod("b", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(b, "4-5")
	release()
	r.quiet()
}

func TestReloadMovesEverybody(t *testing.T) {
	n := newNode(t)
	r := n.start()
	mgmt := n.container(n.pod("m", "kube-system", "burstable", 0, management(nil)), "app", cri.Resources{Shares: 102})
	app := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	excl := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(mgmt, "0-1")
	n.runsOn(app, "2-3")
	n.runsOn(excl, "4-5")
	n.yaml = strings.NewReplacer("cpus: 0-1", "cpus: 0-2", "cpus: 2-3", `cpus: "3"`).Replace(poolsYAML)
	r.loop.reload()
	n.runsOn(mgmt, "0-2")
	n.runsOn(app, "3")
	n.runsOn(excl, "4-5")
	n.yaml = strings.Replace(poolsYAML, "cpus: 0-1", "cpus: 0-9", 1)
	r.loop.reload()
	r.view("stale", func(v *telemetry.View) bool { return v.ConfigStale })
	n.runsOn(mgmt, "0-2")
	n.check()
}

func TestBadAnnotationsAreReportedOnce(t *testing.T) {
	n := newNode(t)
	r := n.start()
	huge := strings.Repeat("9", 1<<20)
	for uid, annotations := range map[string]map[string]string{
		"huge":     {"target.workload.openshift.io/management": huge},
		"json":     {"target.workload.openshift.io/management": `{"effect":`},
		"negative": management(map[string]int{"app": -5}),
		"two":      {"target.workload.openshift.io/a": `{}`, "target.workload.openshift.io/b": `{}`},
	} {
		n.container(n.pod(uid, "kube-system", "burstable", 0, annotations), "app", cri.Resources{Shares: 102})
	}
	n.container(n.pod("elsewhere", "default", "burstable", 0, management(nil)), "app", cri.Resources{Shares: 102})
	ok := n.container(n.pod("ok", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 102})
	n.runsOn(ok, "2-3")
	r.quiet()
	count := make(map[string]int)
	for _, rec := range n.logged("not honoured") {
		count[rec["pod"].(string)]++
		if text := rec["problem"].(string); len(text) > 1000 {
			t.Errorf("report of %d bytes for %v", len(text), rec["pod"])
		}
	}
	want := map[string]int{"kube-system/huge": 1, "kube-system/json": 1, "kube-system/negative": 1, "kube-system/two": 1, "default/elsewhere": 1}
	if d := cmp.Diff(want, count); d != "" {
		t.Errorf("reports by pod (-want +got):\n%s", d)
	}
}

func TestPlanIsWhatRunDoes(t *testing.T) {
	n := newNode(t)
	n.container(n.pod("m", "kube-system", "burstable", 0, management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.container(n.pod("e", "default", "guaranteed", 3, nil), "app", whole(3))
	o := n.options()
	var s desired.Settings
	if err := s.Change(o.Config, o.Topology, nil); err != nil {
		t.Fatal(err)
	}
	p, err := preview.PreviewOf(context.Background(), n.host(), s, undo.Document{}, pools.NamespaceRights{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := n.start()
	r.quiet()
	r.stop()
	var done []cgroup.Write
	for _, rec := range n.logged("wrote") {
		data, err := json.Marshal(rec["write"])
		var w cgroup.Write
		if err == nil {
			err = json.Unmarshal(data, &w)
		}
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, w)
	}
	// Workers finish in any order; what one cgroup gets keeps its order.
	if d := cmp.Diff(byPath(p.Writes), byPath(done)); d != "" {
		t.Errorf("planned and done differ (-planned +done):\n%s", d)
	}
}

func byPath(ws []cgroup.Write) map[cgroup.Path][]cgroup.Write {
	m := make(map[cgroup.Path][]cgroup.Write)
	for _, w := range ws {
		m[w.Path] = append(m[w.Path], w)
	}
	return m
}

func TestRestore(t *testing.T) {
	n := newNode(t)
	n.container(n.pod("m", "kube-system", "burstable", 0, management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	before := n.dump()
	r := n.start()
	r.quiet()
	r.stop()
	if n.dump() == before {
		t.Fatal("the daemon has changed nothing")
	}
	h := n.host()
	report, err := restore.HostRestore(&h, context.Background(), n.journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Differs {
		if !d.Harmless {
			t.Errorf("%s %s is %q, was %q: %s", d.Path, d.File, d.Now, d.Value, d.Reason)
		}
	}
	// An empty request and one for all CPUs are the same to the kernel.
	if after := strings.ReplaceAll(n.dump(), `cpus="0-7"`, `cpus=""`); after != before {
		t.Errorf("tree differs (-before +after):\n%s", cmp.Diff(before, after))
	}
	if _, err := os.Stat(h.Journal); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("journal is still there: %v", err)
	}
}

func TestContainerThatDiesBeforeTheWrite(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pod := n.pod("one", "default", "burstable", 0, nil)
	n.tree.Intercept(func(w testnode.CgroupWrite) error {
		if strings.HasSuffix(w.Name, "/cpuset.cpus") && strings.Contains(w.Name, "cri-containerd") {
			return syscall.ENODEV
		}
		return nil
	})
	dying := n.container(pod, "app", cri.Resources{Shares: 512})
	n.eventually("write met a dying cgroup", func() bool { return len(n.logged("gone before the write")) > 0 })
	if err := n.runtime.StopContainer(dying); err != nil {
		t.Fatal(err)
	}
	n.tree.Intercept(nil)
	next := n.container(n.pod("two", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.runsOn(next, "2-3")
	r.quiet()
	if refused := n.logged("write refused"); len(refused) != 0 {
		t.Errorf("a container's end was reported as an error: %v", refused)
	}
}
