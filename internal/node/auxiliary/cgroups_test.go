package auxiliary_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const (
	base  = "kubepods-podu.slice"
	slice = cgroup.Path("kubepods.slice/" + base)
)

// world is a node with one pod.
type world struct {
	*auxiliary.Cgroups
	inventory *inventory.Inventory
	plan      pools.Plan
	states    map[cgroup.Path]cgroup.State
	shared    cpuset.Set
	wrote     bool // the daemon has written the cgroups
}

// newWorld returns a node whose pod has an exclusive container on CPUs 4-5.
func newWorld() *world {
	w := &world{Cgroups: auxiliary.New(cgroup.DriverSystemd), inventory: inventory.New(cgroup.DriverSystemd), states: make(map[cgroup.Path]cgroup.State), shared: cpuset.Of(2, 3)}
	w.inventory.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Namespace: "default", Name: "web", Ready: true, CgroupParent: base, CgroupsPath: base + ":cri-containerd:p"}})
	w.inventory.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", CgroupsPath: base + ":cri-containerd:c", Requested: cri.Resources{Shares: 2048}}})
	w.plan.Pods = []pools.PodPlan{{UID: "u", Namespace: "default", Name: "web", Containers: []pools.Placement{
		{ID: "p", Name: pools.InfraName, Kind: pools.Infra, State: pools.Running, Pool: pools.Shared, CPUs: cpuset.Of(2, 3)},
		{ID: "c", Name: "app", Kind: pools.App, State: pools.Running, Pool: pools.Guaranteed, Exclusive: true, CPUs: cpuset.Of(4, 5)},
	}}}
	return w
}

// add makes a cgroup in the pod.
func (w *world) add(name string, st cgroup.State) cgroup.Path {
	p := slice.Join(name)
	st.Path = p
	w.states[p] = st
	w.Note(p, true)
	return p
}

func (w *world) place() []inspect.Auxiliary {
	return w.Place(auxiliary.Facts{Objects: w.inventory.Objects(), Plan: &w.plan, Shared: w.shared, Owned: cpuset.Of(4, 5), Wrote: func(cgroup.Path) bool { return w.wrote }, Read: func(p cgroup.Path) (cgroup.State, error) {
		st, ok := w.states[p]
		if !ok {
			return st, cgroup.ErrGone
		}
		return st, nil
	}})
}

// TestPlace checks the CPUs of a cgroup in a pod.
func TestPlace(t *testing.T) {
	ready := cgroup.State{HasCPUSet: true}
	management := func(w *world) {
		for i := range w.plan.Pods[0].Containers {
			c := &w.plan.Pods[0].Containers[i]
			c.Pool, c.CPUs, c.Exclusive = pools.Management, cpuset.Of(0, 1), false
		}
	}
	other := func(w *world) { w.plan.Pods[0].Containers[1].Pool = pools.Other }
	for name, c := range map[string]struct {
		base   string
		state  cgroup.State
		change func(*world)
		want   string
	}{
		"monitor":                           {"crio-conmon-c.scope", ready, nil, "monitor 2-3"},
		"other":                             {"left", ready, nil, "other 2-3"},
		"virtual machine":                   {"kata_p", ready, nil, "sandbox 4-5 exclusive"},
		"not of this sandbox":               {"kata_q", ready, nil, "other 2-3"},
		"container":                         {"cri-containerd-c.scope", ready, nil, ""},
		"pause container":                   {"cri-containerd-p.scope", ready, nil, ""},
		"container id":                      {"crio-" + strings.Repeat("a", 64) + ".scope", ready, nil, ""},
		"below a container":                 {"cri-containerd-c.scope/x", ready, nil, ""},
		"no cpuset controller":              {"left", cgroup.State{}, nil, ""},
		"monitor of a management pod":       {"crio-conmon-c.scope", ready, management, "monitor 0-1"},
		"other of a management pod":         {"left", ready, management, "other 0-1"},
		"monitor, infra pool":               {"crio-conmon-c.scope", ready, func(w *world) { management(w); w.plan.Pods[0].Containers[1].Pool = pools.Shared }, "monitor 0-1"},
		"other, infra pool":                 {"left", ready, func(w *world) { management(w); w.plan.Pods[0].Containers[1].Pool = pools.Shared }, "other 2-3"},
		"CRI-O has placed it":               {"crio-conmon-c.scope", cgroup.State{HasCPUSet: true, CPUs: cpuset.Of(0)}, other, ""},
		"CRI-O has placed it on owned CPUs": {"crio-conmon-c.scope", cgroup.State{HasCPUSet: true, CPUs: cpuset.Of(0, 4)}, other, "monitor 2-3"},
		"the kubelet places the pod":        {"left", ready, func(w *world) { w.plan.Pods[0].Containers[0].Pool = pools.Other }, ""},
		"with a static kubelet":             {"left", ready, func(w *world) { w.shared = cpuset.Set{} }, ""},
		"the virtual machine has no container": {"kata_p", ready, func(w *world) { w.plan.Pods[0].Containers[1].State = pools.Exited },
			"sandbox 2-3"},
		"the virtual machine also runs a shared container": {"kata_p", ready, func(w *world) {
			w.inventory.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "d", PodID: "p", Name: "side", CgroupsPath: base + ":cri-containerd:d", Requested: cri.Resources{Shares: 100}}})
			w.plan.Pods[0].Containers = append(w.plan.Pods[0].Containers, pools.Placement{ID: "d", Name: "side", Kind: pools.App, State: pools.Created, Pool: pools.Shared, CPUs: cpuset.Of(2, 3)})
		}, "sandbox 2-5 exclusive, shared 2-3"},
		"the CPUs of a container are not known": {"kata_p", ready, func(w *world) {
			c := &w.plan.Pods[0].Containers[1]
			c.Unread, c.Exclusive, c.Pool = true, false, pools.Shared
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if c.change != nil {
				c.change(w)
			}
			w.add(c.base, c.state)
			got := ""
			for _, g := range w.place() {
				got = g.Kind + " " + g.CPUs.String()
				if g.Exclusive {
					got += " exclusive"
				}
				if !g.Mixed.IsEmpty() {
					got += ", shared " + g.Mixed.String()
				}
				if target := auxiliary.Target(&g); !target.FileOnly || target.Exclusive != g.Exclusive || g.Pod != "default/web" {
					t.Errorf("target %+v of %q", target, g.Pod)
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestUnknownPod checks a cgroup in the slice of a pod that the runtime does not report.
func TestUnknownPod(t *testing.T) {
	for parent, want := range map[cgroup.Path]string{
		"kubepods.slice/kubepods-pod7.slice": "2-3", "kubepods.slice/kubepods-system.slice/kubepods-system-pod7.slice": "",
		"system.slice": "", slice + "/cri-containerd-c.scope": "",
	} {
		w := newWorld()
		p := parent.Join("left")
		w.states[p] = cgroup.State{HasCPUSet: true}
		w.Note(p, true)
		got := ""
		for _, g := range w.place() {
			got = g.CPUs.String()
		}
		if got != want {
			t.Errorf("%s: CPUs %q, want %q", parent, got, want)
		}
	}
}

// TestUnknownPodOfCRIO checks that a monitor keeps the CPUs that CRI-O has set before it reports
// the pod.
func TestUnknownPodOfCRIO(t *testing.T) {
	const monitor = cgroup.Path("kubepods.slice/kubepods-pod7.slice/crio-conmon-c.scope")
	for name, c := range map[string]struct {
		cpus   cpuset.Set
		wrote  bool
		placed int
	}{
		"by CRI-O":      {cpus: cpuset.Of(0)},
		"no CPUs":       {placed: 1},
		"exclusive":     {cpus: cpuset.Of(0, 4), placed: 1},
		"by the daemon": {cpus: cpuset.Of(3), wrote: true, placed: 1},
	} {
		w := newWorld()
		w.wrote = c.wrote
		w.states[monitor] = cgroup.State{Path: monitor, HasCPUSet: true, CPUs: c.cpus}
		w.Note(monitor, true)
		if got := w.place(); len(got) != c.placed {
			t.Errorf("%s: placed %+v; want %d entries", name, got, c.placed)
		}
	}
}

// TestLimits checks that a pod with many cgroups gets a bounded number of targets, and a
// problem. Cgroups of runtimes come first.
func TestLimits(t *testing.T) {
	w := newWorld()
	for i := range 2000 {
		w.add(fmt.Sprintf("a%04d", i), cgroup.State{HasCPUSet: true})
		if i == 10 {
			w.add("crio-conmon-c.scope", cgroup.State{HasCPUSet: true})
			w.add("kata_p", cgroup.State{HasCPUSet: true})
		}
	}
	placed := w.place()
	if len(placed) != 64 || placed[0].Kind != "sandbox" || placed[1].Kind != "monitor" || path.Base(placed[2].Cgroup) != "a0000" {
		t.Errorf("%d placed: %v", len(placed), placed[:3])
	}
	problems := w.Problems(w.inventory.Objects())
	if len(problems) != 1 || problems[0].Code != "TooManyPodCgroups" || problems[0].Pod != "default/web" || !strings.Contains(problems[0].Text, "1024 cgroups") {
		t.Errorf("problems %v", problems)
	}
	for p := range w.states {
		w.Note(p, false)
	}
	if len(w.place()) > 0 || len(w.Problems(w.inventory.Objects())) > 0 {
		t.Error("removed cgroups are placed or reported")
	}
}

// TestWithoutCPUSet checks that a cgroup without the cpuset controller is reported, and placed
// when it has the controller.
func TestWithoutCPUSet(t *testing.T) {
	w := newWorld()
	p := w.add("left", cgroup.State{})
	w.place()
	var codes []string
	for _, problem := range w.Problems(w.inventory.Objects()) {
		codes = append(codes, string(problem.Code))
	}
	if d := cmp.Diff([]string{"PodCgroupWithoutCPUSet"}, codes); d != "" {
		t.Errorf("problems (-want +got):\n%s", d)
	}
	w.states[p] = cgroup.State{HasCPUSet: true}
	if len(w.place()) != 1 || len(w.Problems(w.inventory.Objects())) > 0 {
		t.Error("a cgroup that has the controller now is not placed")
	}
	delete(w.states, p)
	w.Note(p, true) // another one of the name, which is gone again
	if len(w.place()) > 0 {
		t.Error("a removed cgroup is placed")
	}
}

// TestLoopOfCgroups checks that a pod that makes and removes cgroups in a loop causes a bounded
// number of passes, and that the next listing renews the bound.
func TestLoopOfCgroups(t *testing.T) {
	w := newWorld()
	loop := func() (passes int) {
		for i := range 1000 {
			p := slice.Join(fmt.Sprintf("loop-%d", i))
			if w.Note(p, true) {
				passes++
			}
			w.Note(p, false)
		}
		return passes
	}
	if first, second := loop(), loop(); first != 64 || second != 0 {
		t.Errorf("%d and %d passes; want 64 and 0", first, second)
	}
	if !w.Note("kubepods.slice/kubepods-podv.slice/x", true) {
		t.Error("the cgroup of another pod causes no pass")
	}
	w.NoteAll(nil)
	if passes := loop(); passes != 64 {
		t.Errorf("%d passes after a listing; want 64", passes)
	}
}
