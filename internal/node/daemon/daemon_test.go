package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

func TestPlacesEveryKind(t *testing.T) {
	n := newNode(t)
	r := n.start()
	mgmt := n.RunPod("mgmt", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512}))
	agent := n.RunContainer(mgmt, "app", cri.Resources{Shares: 102})
	burst := n.RunContainer(n.RunPod("burst", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	best := n.RunContainer(n.RunPod("best", "default", "besteffort", 0, nil), "app", cri.Resources{Shares: 2})
	frac := n.RunContainer(n.RunPod("frac", "default", "guaranteed", 0, nil), "app", cri.Resources{Shares: 1536, Quota: 150000, Period: 100000})
	pod := n.RunPod("excl", "default", "guaranteed", 2, nil)
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))

	n.AwaitCPUs(agent, "0-1")
	n.AwaitCPUs(mgmt, "0-1")
	for _, id := range []string{burst, best, frac, pod} {
		n.AwaitCPUs(id, "2-3")
	}
	n.AwaitCPUs(excl, "4-5")
	r.quiet()
	n.CheckOccupants()
	if got := n.State(agent).Weight; got != 59 {
		t.Errorf("weight of 512 shares = %d; want 59 as the runtime makes it", got)
	}
	if got := n.State(excl).Quota; got != -1 {
		t.Errorf("exclusive container has a quota of %d", got)
	}
	if got := n.State(frac).Quota; got != 150000 {
		t.Errorf("quota of a shared container = %d; want its own 150000", got)
	}
}

func TestRestartMovesNobody(t *testing.T) {
	n := newNode(t)
	r := n.start()
	first := n.RunContainer(n.RunPod("one", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(first, "4")
	second := n.RunContainer(n.RunPod("two", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(second, "6-7")
	r.quiet()
	if err := n.Runtime.StopContainer(first); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for name, damage := range map[string]func() error{
		"journal kept":    func() error { return nil },
		"journal lost":    func() error { return os.RemoveAll(filepath.Join(n.Dir, "journal.json")) },
		"journal damaged": func() error { return os.WriteFile(filepath.Join(n.Dir, "journal.json"), []byte("{"), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		before := len(n.Tree.Writes())
		r := n.start()
		r.quiet()
		r.stop()
		if writes := n.Tree.Writes()[before:]; len(writes) != 0 {
			t.Errorf("%s: a restart with nothing to do wrote %v; want none", name, writes)
		}
		n.AwaitCPUs(second, "6-7")
	}
}

func TestRestartedContainerGetsSameCPUs(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pod := n.RunPod("one", "default", "guaranteed", 1, nil)
	first := n.RunContainer(pod, "app", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(first, "4")
	if err := n.Runtime.StopContainer(first); err != nil {
		t.Fatal(err)
	}
	other := n.RunContainer(n.RunPod("two", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.Eventually("other placed", func() bool { return n.State(other).Effective.Len() == 1 })
	again := n.RunContainer(pod, "app", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(again, "4")
	r.quiet()
	n.CheckOccupants()
}

func TestOriginalsAreOnDiskBeforeTheFirstWrite(t *testing.T) {
	n := newNode(t)
	daemon := make(map[string]bool)
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		dir, file := filepath.Split(w.Name)
		if file == "cpuset.cpus" && !daemon[w.Name] {
			daemon[w.Name] = true
			for _, o := range n.Journal().Originals {
				if string(o.Path)+"/" == dir && o.File == file {
					return nil
				}
			}
			t.Errorf("%s was written before its original was on disk", w.Name)
		}
		return nil
	})
	r := n.start()
	id := n.RunContainer(n.RunPod("one", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(id, "2-3")
	r.quiet()
}

func TestRefusedWriteSpoilsNothingElse(t *testing.T) {
	n := newNode(t)
	bad := n.RunContainer(n.RunPod("bad", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	good := n.RunContainer(n.RunPod("good", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	excl := n.RunContainer(n.RunPod("excl", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		if w.Name == n.Runtime.Cgroup(bad)+"/cpuset.cpus" {
			return syscall.EBUSY
		}
		return nil
	})
	r := n.start()
	n.AwaitCPUs(good, "2-3")
	r.view("failure counted", func(v *telemetry.View) bool {
		return v.Writes[telemetry.Write{Via: "file", Result: telemetry.Failed}] > 0
	})
	n.Tree.Intercept(nil)
	r.within(time.Second, "the refused write repeated", func() bool { return n.State(bad).Effective.String() == "2-3" })
	n.AwaitCPUs(excl, "4-5")
	r.quiet()
	n.CheckOccupants()
}

func TestStalledRuntimeHoldsNobodyUp(t *testing.T) {
	n := newNode(t)
	r := n.start()
	release := n.Runtime.Hang("UpdateContainerResources")
	defer release()
	a := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(a, "2-3")
	b := n.RunContainer(n.RunPod("b", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(b, "4-5")
	release()
	r.quiet()
}

func TestReloadMovesEverybody(t *testing.T) {
	n := newNode(t)
	r := n.start()
	mgmt := n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(nil)), "app", cri.Resources{Shares: 102})
	app := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(mgmt, "0-1")
	n.AwaitCPUs(app, "2-3")
	n.AwaitCPUs(excl, "4-5")
	n.YAML = strings.NewReplacer("cpus: 0-1", "cpus: 0-2", "cpus: 2-3", `cpus: "3"`).Replace(nodefixture.PoolsYAML)
	r.loop.watchers.reload()
	n.AwaitCPUs(mgmt, "0-2")
	n.AwaitCPUs(app, "3")
	n.AwaitCPUs(excl, "4-5")
	n.YAML = strings.Replace(nodefixture.PoolsYAML, "cpus: 0-1", "cpus: 0-9", 1)
	r.loop.watchers.reload()
	r.view("stale", func(v *telemetry.View) bool { return v.ConfigStale })
	n.AwaitCPUs(mgmt, "0-2")
	n.CheckOccupants()
}

func TestBadAnnotationsAreReportedOnce(t *testing.T) {
	n := newNode(t)
	r := n.start()
	huge := strings.Repeat("9", 1<<20)
	for uid, annotations := range map[string]map[string]string{
		"huge":     {"target.workload.openshift.io/management": huge},
		"json":     {"target.workload.openshift.io/management": `{"effect":`},
		"negative": nodefixture.Management(map[string]int{"app": -5}),
		"two":      {"target.workload.openshift.io/a": `{}`, "target.workload.openshift.io/b": `{}`},
	} {
		n.RunContainer(n.RunPod(uid, "kube-system", "burstable", 0, annotations), "app", cri.Resources{Shares: 102})
	}
	n.RunContainer(n.RunPod("elsewhere", "default", "burstable", 0, nodefixture.Management(nil)), "app", cri.Resources{Shares: 102})
	ok := n.RunContainer(n.RunPod("ok", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 102})
	n.AwaitCPUs(ok, "2-3")
	r.quiet()
	count := make(map[string]int)
	for _, rec := range n.Logged("problem appeared") {
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
	n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.RunContainer(n.RunPod("e", "default", "guaranteed", 3, nil), "app", nodefixture.WholeCPUs(3))
	p := n.preview()
	r := n.start()
	r.quiet()
	r.stop()
	var done []cgroup.Write
	for _, rec := range n.Logged("wrote") {
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
	// Workers finish in any order; the writes of one cgroup keep their order.
	if d := cmp.Diff(byPath(p.Writes), byPath(done)); d != "" {
		t.Errorf("planned and done differ (-planned +done):\n%s\nlog:\n%s", d, n.Logs)
	}
}

func byPath(ws []cgroup.Write) map[cgroup.Path][]cgroup.Write {
	m := make(map[cgroup.Path][]cgroup.Write)
	for _, w := range ws {
		m[w.Path] = append(m[w.Path], w)
	}
	return m
}

func TestContainerThatDiesBeforeTheWrite(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pod := n.RunPod("one", "default", "burstable", 0, nil)
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		if strings.HasSuffix(w.Name, "/cpuset.cpus") && strings.Contains(w.Name, "cri-containerd") {
			return syscall.ENODEV
		}
		return nil
	})
	dying := n.RunContainer(pod, "app", cri.Resources{Shares: 512})
	n.Eventually("write met a dying cgroup", func() bool { return len(n.Logged("gone before the write")) > 0 })
	if err := n.Runtime.StopContainer(dying); err != nil {
		t.Fatal(err)
	}
	n.Tree.Intercept(nil)
	next := n.RunContainer(n.RunPod("two", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(next, "2-3")
	r.quiet()
	if refused := n.Logged("write refused"); len(refused) != 0 {
		t.Errorf("a container's end was reported as an error: %v; want none", refused)
	}
}
