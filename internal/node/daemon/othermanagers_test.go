package daemon

import (
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// crioNode is a node with a configuration of CRI-O about CPUs.
type crioNode struct {
	*node
	mu     sync.Mutex
	told   managers.CRIO
	writes []string // of the daemon, to files
}

func newCRIONode(t *testing.T, nri bool, told managers.CRIO) *crioNode {
	n := &crioNode{node: newNodeWith(t, testnode.RuntimeConfig{Flavor: testnode.CRIO, NRI: nri}), told: told}
	n.YAML += "otherManagers: standDown\n"
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.writes = append(n.writes, w.Name+"="+w.Value)
		return nil
	})
	return n
}

func (n *crioNode) start() *running {
	h := n.Host()
	h.CRIO = func() managers.CRIO {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.told
	}
	return n.startOn(h)
}

// retell restarts CRI-O with another configuration.
func (n *crioNode) retell(r *running, told managers.CRIO) {
	n.mu.Lock()
	n.told = told
	n.mu.Unlock()
	r.requestList()
}

// untouched checks that the daemon has not written a container's cgroup, neither itself nor
// through runtime or systemd.
func (n *crioNode) untouched(id string) {
	n.T.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.writes {
		if strings.HasPrefix(w, n.Runtime.Cgroup(id)+"/") {
			n.T.Errorf("the daemon has written %s", w)
		}
	}
	for _, o := range n.Journal().Originals {
		if string(o.Path) == n.Runtime.Cgroup(id) {
			n.T.Errorf("the daemon has on record %+v", o)
		}
	}
}

// problemOf returns the text of the problems of the node with a code.
func problemOf(l *Loop, code pools.Code) (text string) {
	for _, p := range l.publisher.Problems(&l.last) {
		if p.Code == code && p.PodUID == "" {
			text += p.Text + "\n"
		}
	}
	return text
}

var batch = managers.CRIO{Workloads: []managers.Workload{{Name: "batch", Source: "/etc/crio/crio.conf.d/99-batch.conf", Activation: "example.com/batch", Pins: true}}}

// TestWorkloadIsLeftAlone checks that containers of a CRI-O workload stay on CRI-O's CPUs, and
// that no container gets these exclusively.
func TestWorkloadIsLeftAlone(t *testing.T) {
	for name, nri := range map[string]bool{"with NRI": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			n := newCRIONode(t, nri, batch)
			sandbox := n.RunPod("before", "default", "burstable", 0, map[string]string{"example.com/batch": ""})
			before := n.RunContainer(sandbox, "app", cri.Resources{Shares: 512, CPUs: "4-5"})
			r := n.start()
			r.quiet()
			if nri {
				r.connected()
			}
			after := n.RunContainer(n.RunPod("after", "default", "burstable", 0, map[string]string{"example.com/batch": ""}), "app", cri.Resources{Shares: 512, CPUs: "5"})
			owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			n.AwaitCPUs(owner, "6-7")
			r.quiet()
			n.AwaitCPUs(before, "4-5")
			n.AwaitCPUs(after, "5")
			n.AwaitCPUs(sandbox, "2-3") // CRI-O does not place the pause containers of workloads

			n.WriteFile(after, cgroup.FileCPUs, "4") // as CRI-O does
			r.requestList()
			r.quiet()
			n.AwaitFile(n.Runtime.Cgroup(after), cgroup.FileCPUs, "4")
			n.untouched(before)
			n.untouched(after)

			r.stop()
			r = n.start()
			r.quiet()
			n.AwaitCPUs(owner, "6-7")
			n.untouched(before)
			n.untouched(after)
			r.inspect(func(l *Loop) {
				if text := problemOf(l, pools.CodeOtherManager); text != "" {
					t.Errorf("a problem, although the configuration says that it is none: %s; want an empty string", text)
				}
			})
			for _, p := range n.preview().Plan.Pods {
				if c := p.Containers[0]; p.UID == "owner" && c.Kind == pools.App && c.Pool != pools.Guaranteed {
					t.Errorf("the owner is in pool %s", c.Pool)
				}
			}
		})
	}
}

// TestManagerThatAppears checks that the daemon ignores the containers of a manager which
// appears although the configuration forbids it. The manager's containers stay when its
// configuration is gone, maybe for a moment; the daemon places new ones.
func TestManagerThatAppears(t *testing.T) {
	n := newCRIONode(t, false, managers.CRIO{})
	n.YAML = nodefixture.PoolsYAML
	pod := n.RunPod("batch", "default", "burstable", 0, map[string]string{"example.com/batch": ""})
	id := n.RunContainer(pod, "app", cri.Resources{Shares: 512, CPUs: "4-5"})
	r := n.start()
	n.AwaitCPUs(id, "2-3")
	r.view("ready", func(v *telemetry.View) bool { return v.Ready }) // and the files for applications are written
	r.quiet()

	n.retell(r, batch)
	r.view("the problem", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeOtherManager)] == 1 })
	n.WriteFile(id, cgroup.FileCPUs, "0")
	r.requestList()
	r.quiet()
	n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileCPUs, "0")
	r.inspect(func(l *Loop) {
		text := problemOf(l, pools.CodeOtherManager)
		for _, part := range []string{"CRI-O's workload batch (/etc/crio/crio.conf.d/99-batch.conf)", "otherManagers.crioWorkloads: standDown"} {
			if !strings.Contains(text, part) {
				t.Errorf("the problem %q does not say %q", text, part)
			}
		}
		if c := conditionOf(l); c.Reason != "Degraded" || !c.Ready {
			t.Errorf("condition %+v; want Degraded", c)
		}
	})

	n.retell(r, managers.CRIO{Unreadable: []managers.FileError{{Name: "/etc/crio/crio.conf", Err: cgroup.ErrGone}}})
	r.view("the file is reported", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeOtherManager)] == 2 })
	n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileCPUs, "0")

	n.retell(r, managers.CRIO{})
	n.Eventually("it is said that the manager is gone", func() bool {
		var text string
		r.inspect(func(l *Loop) { text = problemOf(l, pools.CodeOtherManager) })
		return strings.Contains(text, "is no longer configured")
	})
	r.quiet()
	n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileCPUs, "0")
	second := n.RunContainer(pod, "second", cri.Resources{Shares: 512, CPUs: "4-5"})
	n.AwaitCPUs(second, "2-3")

	n.retell(r, batch)
	n.Eventually("both are the manager's again", func() bool {
		var text string
		r.inspect(func(l *Loop) { text = problemOf(l, pools.CodeOtherManager) })
		return strings.Contains(text, "(2 at the moment)")
	})
	n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileCPUs, "0")

	n.retell(r, managers.CRIO{})
	for _, id := range []string{id, second} {
		if err := n.Runtime.StopContainer(id); err != nil {
			t.Fatal(err)
		}
	}
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeOtherManager)] == 0 })
}

// TestHighPerformance checks that a container whose partition CRI-O makes stays as it is, and
// that its CPUs are in no pool.
func TestHighPerformance(t *testing.T) {
	handler := managers.CRIO{Handlers: []managers.Handler{{Name: "high-performance", Allowed: []string{"cpu-load-balancing.crio.io"}}}}
	n := newCRIONode(t, false, handler)
	n.YAML = strings.Replace(n.YAML, "guaranteed:\n  cpus: 4-7", "guaranteed:\n  from: shared\n  floor: 1", 1)
	n.YAML = strings.Replace(n.YAML, "cpus: 2-3", "cpus: 2-7", 1)
	pod, err := n.Runtime.RunPod(testnode.PodSpec{UID: "hp", Namespace: "default", Name: "hp", QoS: "guaranteed", RuntimeHandler: "high-performance",
		Annotations: map[string]string{"cpu-load-balancing.crio.io": "disable"}, Resources: nodefixture.WholeCPUs(2)})
	if err != nil {
		t.Fatal(err)
	}
	res := nodefixture.WholeCPUs(2)
	res.CPUs = "2-3"
	id := n.RunContainer(pod, "app", res)
	r := n.start()
	shared := n.RunContainer(n.RunPod("shared", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(owner, "4-5")
	n.AwaitCPUs(shared, "6-7")
	r.quiet()
	n.AwaitCPUs(id, "2-3")
	n.untouched(id)
	if st := n.State(id); st.Quota == 0 {
		t.Error("the quota of the foreign container is lifted")
	}
	if _, err := n.Tree.ReadFile(path.Join(n.Runtime.Cgroup(id), "cpuset.cpus"), 64); err != nil {
		t.Fatal(err)
	}
}

// TestPluginBeforeUs checks that a container which comes to NRI with CPUs counts as another
// plugin's. The runtime would refuse a second plugin that sets them.
func TestPluginBeforeUs(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a := r.asker()
	pod := ofPod("p", "default", "guaranteed", 2, nil)
	res := nodefixture.WholeCPUs(2)
	res.CPUs = "4-5"
	made := a.container(pod, "app", res)
	if reply := a.mustCreate(pod, made); !reply.Adjustment.CPUs.IsEmpty() || reply.Adjustment.Unlimited || len(reply.Adjustment.Env) > 0 || len(reply.Updates) > 0 {
		t.Errorf("reply %+v; want none", reply)
	}
	other := ofPod("o", "default", "guaranteed", 2, nil)
	if reply := a.mustCreate(other, a.container(other, "app", nodefixture.WholeCPUs(2))); reply.Adjustment.CPUs.String() != "6-7" {
		t.Errorf("the next owner gets %s; the plugin has 4-5", reply.Adjustment.CPUs)
	}
	r.view("the problem", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeOtherManager)] == 1 })
	r.inspect(func(l *Loop) { // a kubelet that is static now does the same
		text := problemOf(l, pools.CodeOtherManager)
		for _, part := range []string{"another NRI plugin or a static kubelet", "otherManagers.nriPlugins: standDown", "cpuManagerPolicy: none", "guaranteed.exclusive: kubelet"} {
			if !strings.Contains(text, part) {
				t.Errorf("the problem %q does not say %q", text, part)
			}
		}
	})
	n.Eventually("it is on record", func() bool {
		j := n.Journal()
		return len(j.Others) == 1 && j.Others[0] == managers.Left{PodUID: "p", Container: "app", ID: made.ID}
	})
	if err := a.start(made.ID); err != nil {
		t.Errorf("start: %v", err)
	}
	if keep, err := a.hooks.Update(t.Context(), made.ID, cri.Resources{CPUs: "5"}); err != nil || keep != (cri.Resources{}) {
		t.Errorf("an update of its CPUs is answered with %+v, %v; want %+v", keep, err, (cri.Resources{}))
	}
}

// TestPluginIsRemembered checks that after a restart the journal has the containers that
// another plugin has placed.
func TestPluginIsRemembered(t *testing.T) {
	n := newNRINode(t)
	r := n.start()
	r.connected()
	res := nodefixture.WholeCPUs(2)
	res.CPUs = "4-5"
	theirs := n.RunContainer(n.RunPod("theirs", "default", "guaranteed", 2, nil), "app", res)
	ours := n.RunContainer(n.RunPod("ours", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(ours, "6-7")
	n.Eventually("it is on record", func() bool { return len(n.Journal().Others) == 1 })
	r.stop()

	look := n.preview()
	if _, p := look.Plan.App(theirs); p == nil || p.Pool != pools.Other {
		t.Errorf("a look without the daemon finds %+v; it is the plugin's", p)
	}
	r = n.start()
	r.connected()
	r.quiet()
	n.AwaitCPUs(theirs, "4-5")
	n.AwaitCPUs(ours, "6-7")
	for _, o := range n.Journal().Originals {
		if string(o.Path) == n.Runtime.Cgroup(theirs) {
			t.Errorf("the daemon has on record %+v", o)
		}
	}
	if st := n.State(theirs); st.Quota <= 0 {
		t.Error("the quota of the other plugin's container is lifted")
	}
	r.view("it is still the plugin's", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeOtherManager)] == 1 })
}

// TestSuccessorIsNoPlugins checks a container that has replaced a plugin's container of the
// same name while no daemon ran: the daemon places it. A journal of an earlier build has names
// alone.
func TestSuccessorIsNoPlugins(t *testing.T) {
	for name, on := range map[string]string{"with IDs": "2-3", "without": "5"} {
		t.Run(name, func(t *testing.T) {
			n := newNRINode(t)
			r := n.start()
			r.connected()
			pod := n.RunPod("p", "default", "burstable", 0, nil)
			first := n.RunContainer(pod, "app", cri.Resources{Shares: 512, CPUs: "4"})
			n.Eventually("it is on record", func() bool { return len(n.Journal().Others) == 1 })
			r.stop()
			if name == "without" {
				n.rewriteJournal(2, func(data map[string]any) { delete(data["others"].([]any)[0].(map[string]any), "id") })
			}
			if err := n.Runtime.StopContainer(first); err != nil {
				t.Fatal(err)
			}
			second := n.RunContainer(pod, "app", cri.Resources{Shares: 512, CPUs: "5"})

			r = n.start()
			r.connected()
			r.quiet()
			n.AwaitCPUs(second, on)
		})
	}
}

// TestPluginBeforeUsAndLate checks a container that another plugin has placed and that the
// runtime creates before the reply. No other source reports the plugin.
func TestPluginBeforeUsAndLate(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a := r.asker()
	pod := ofPod("p", "default", "guaranteed", 2, nil)
	res := nodefixture.WholeCPUs(2)
	res.CPUs = "4-5"
	for name, c := range map[string]cri.Container{"theirs": a.container(pod, "theirs", res), "ours": a.container(pod, "ours", nodefixture.WholeCPUs(2))} {
		r.inspect(func(l *Loop) {
			canceled := make(chan struct{})
			close(canceled)
			createRequest{requests.NewCreate(pod, c, l.now(), canceled)}.apply(l)
			l.answerHooks(l.now())
			l.inventory.PutContainer(lookup.ContainerStatus{Container: c}) // as CRI reports it then
			if e := l.inventory.Objects().Container(c.ID); e.IsPlacedElsewhere() != (name == "theirs") || e.IsAsked() {
				t.Errorf("%s: placed elsewhere %t, asked %t", name, e.IsPlacedElsewhere(), e.IsAsked())
			}
			l.inventory.CancelCreate(c.ID)
		})
	}
}
