package auxiliary

import (
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// The kinds of cgroups in a pod that belong to no container.
const (
	kindMonitor = "monitor" // conmon of CRI-O
	kindSandbox = "sandbox" // the pod's containers run in it: a virtual machine, or gVisor
	kindOther   = "other"
)

// Target returns the desired state of a cgroup in a pod that belongs to no container. The daemon
// writes its files only: no CRI update concerns it, and a property would change a unit that another
// program has started.
func Target(g *inspect.Auxiliary) cgroup.Target {
	return cgroup.Target{Path: cgroup.Path(g.Cgroup), FileOnly: true, CPUs: g.CPUs, Exclusive: g.Exclusive, Mixed: g.Mixed, Reason: g.Reason}
}

// Facts holds the values on which Place depends.
type Facts struct {
	Objects *inventory.Objects
	Plan    *pools.Plan
	Shared  cpuset.Set // CPUs of the shared pool without exclusive CPUs; empty: not to be used
	Owned   cpuset.Set // exclusive CPUs
	Read    func(cgroup.Path) (cgroup.State, error)
	Wrote   func(cgroup.Path) bool // reports whether the daemon has written the CPUs of a cgroup
}

// Place returns the desired CPUs, sorted by slice, for maxPlaced cgroups of each pod.
func (c *Cgroups) Place(f Facts) (all []inspect.Auxiliary) {
	if c == nil || len(c.slices) == 0 {
		return nil
	}
	b := c.look(f.Objects)
	plans := make(map[string]*pools.PodPlan)
	for i := range f.Plan.Pods {
		plans[f.Plan.Pods[i].UID] = &f.Plan.Pods[i]
	}
	for _, slice := range slices.Sorted(maps.Keys(c.slices)) {
		paths := c.in(slice, b.taken, b.sandboxes)
		for _, p := range paths[:min(len(paths), maxPlaced)] {
			if !c.refresh(p, f.Read) {
				continue
			}
			g := inspect.Auxiliary{Cgroup: string(p), Kind: kindOther}
			g.PodUID, g.Pod = b.nameOf(slice)
			if strings.HasPrefix(p.Base(), monitorPrefix) {
				g.Kind = kindMonitor
			}
			if f.place(&g, p, plans[g.PodUID], b.pods[slice]) {
				all = append(all, g)
			}
		}
	}
	return all
}

// place reports whether the cgroup has a target. A monitor runs on management CPUs of its pause
// container, others only in pods of a management pool.
func (f *Facts) place(g *inspect.Auxiliary, p cgroup.Path, plan *pools.PodPlan, sandboxes []*inventory.Pod) bool {
	g.CPUs, g.Pool, g.Reason = f.Shared, pools.Shared, "it is in a pod and belongs to no container"
	if plan == nil {
		_, system := p.Parent().SystemPartition() // its CPUs may be the kubelet's
		return !system && !g.CPUs.IsEmpty() && (f.Wrote(p) || !f.hasOthers(p))
	}
	for _, e := range sandboxes {
		if !e.IsSandboxCgroup(p) {
			continue
		}
		if s, ok := SandboxOf(f.Objects, plan, e.Pod.ID); ok {
			s.Cgroup, s.PodUID, s.Pod = g.Cgroup, g.PodUID, g.Pod
			*g = s
			return !g.CPUs.IsEmpty()
		}
		g.Kind = kindSandbox // it has no containers yet
	}
	var pause *pools.Placement
	others, managed := false, g.Kind == kindMonitor
	for i := range plan.Containers {
		c := &plan.Containers[i]
		switch {
		case c.State == pools.Exited:
		case c.Pool == pools.Other && c.Kind == pools.Infra:
			return false // the kubelet places all cgroups of the pod
		case c.Pool == pools.Other:
			others = true
		case c.Kind == pools.Infra:
			pause = c
		case c.Pool == pools.Management:
			managed = true
		}
	}
	if managed && pause != nil && pause.Pool == pools.Management {
		g.CPUs, g.Pool, g.Type = pause.Runs(), pause.Pool, pause.Type
	}
	if others && f.hasOthers(p) { // CRI-O has set the CPUs of the monitor, too
		return false
	}
	return !g.CPUs.IsEmpty()
}

// hasOthers reports a cpuset of CRI-O, which it writes once and an own write would replace.
func (f *Facts) hasOthers(p cgroup.Path) bool {
	st, err := f.Read(p)
	return err != nil || !st.CPUs.IsEmpty() && !st.CPUs.Overlaps(f.Owned)
}

// SandboxOf returns the CPUs of the cgroup in which the containers of a sandbox run: all CPUs
// of these containers. The set is empty if the CPUs of one of them are not known: the cgroup
// keeps its CPUs. The result is false without containers.
func SandboxOf(m *inventory.Objects, plan *pools.PodPlan, sandbox string) (inspect.Auxiliary, bool) {
	g := inspect.Auxiliary{Kind: kindSandbox, PodUID: plan.UID, Pod: plan.Namespace + "/" + plan.Name, Reason: "the containers of the pod run in this cgroup"}
	var own cpuset.Set
	for i := range plan.Containers {
		c := &plan.Containers[i]
		e := m.Container(c.ID)
		if c.Kind == pools.Infra || c.State == pools.Exited || e == nil || e.Container.PodID != sandbox {
			continue
		}
		if c.Pool == pools.Other || c.Pool != pools.Guaranteed && (c.Unread || e.IsUnread()) {
			g.CPUs = cpuset.Set{}
			return g, true
		}
		g.CPUs = g.CPUs.Union(c.Runs())
		if !g.Exclusive {
			g.Pool, g.Type = c.Pool, c.Type
		}
		if c.Pool == pools.Guaranteed {
			g.Exclusive, own = true, own.Union(c.Runs().Difference(c.Mixed))
		}
	}
	if g.Exclusive {
		g.Mixed = g.CPUs.Difference(own)
	}
	return g, !g.CPUs.IsEmpty()
}

// HasSandbox reports whether a pod's slice has a cgroup of its sandbox next to the pause container.
func (c *Cgroups) HasSandbox(e *inventory.Pod) bool {
	if c == nil {
		return false
	}
	for p := range c.slices[e.Slice] {
		if e.IsSandboxCgroup(p) {
			return true
		}
	}
	return false
}

type objects struct {
	pods      map[cgroup.Path][]*inventory.Pod
	taken     map[cgroup.Path]bool
	sandboxes map[string]bool
}

func (c *Cgroups) look(m *inventory.Objects) objects {
	b := objects{pods: make(map[cgroup.Path][]*inventory.Pod), taken: make(map[cgroup.Path]bool), sandboxes: make(map[string]bool)}
	for _, p := range m.PodCgroups() {
		b.taken[p] = true
	}
	for e := range m.Pods() {
		if c.slices[e.Slice] != nil {
			b.pods[e.Slice] = append(b.pods[e.Slice], e)
			b.sandboxes[e.Pod.ID] = true
		}
	}
	return b
}

func (b *objects) nameOf(slice cgroup.Path) (uid, name string) {
	for _, e := range b.pods[slice] {
		return e.UID, e.Name()
	}
	return "", ""
}
