package kernelstate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// files is a kernel with a state for each cgroup.
type files map[cgroup.Path]cgroup.State

func (f files) Read(p cgroup.Path) (cgroup.State, error)          { return f[p], nil }
func (f files) Check(st cgroup.State) (cgroup.State, error)       { return f[st.Path], nil }
func (f files) Gather(cgroup.Path) (g cgroup.Gathered, err error) { return g, nil }
func (files) Rest()                                               {}
func (f files) set(p cgroup.Path, cpus cpuset.Set, on cpuset.Set) {
	f[p] = cgroup.State{Path: p, HasCPUSet: true, CPUs: cpus, Effective: on}
}

// TestHeld checks which CPUs a new container cannot use. A request for CPUs beyond the slice of
// the pod does not count, if the daemon has limited the slice.
func TestHeld(t *testing.T) {
	const (
		slice  = cgroup.Path("kubepods.slice/kubepods-poda.slice")
		attack = slice + "/cri-containerd-c.scope"
		other  = cgroup.Path("kubepods.slice/kubepods-podb.slice/cri-containerd-n.scope")
	)
	all, pool := cpuset.Range(0, 7), cpuset.Of(2, 3)
	for name, c := range map[string]struct {
		slice    cpuset.Set // in the kernel
		confined bool
		on       cpuset.Set // CPUs of the attacker
		path     cgroup.Path
		shared   bool // the new container
		owner    bool // the attacker
		inherits bool // the attacker has no cpuset
		sandbox  bool // the attacker is the cgroup of a sandbox that hosts its containers
		want     map[cgroup.Path]string
	}{
		"no slice":                    {on: all, path: other, want: map[cgroup.Path]string{attack: "4-5"}},
		"no slice, and no cpuset":     {on: all, path: other, inherits: true, want: map[cgroup.Path]string{attack: "4-5"}},
		"on other CPUs":               {on: pool, path: other, inherits: true},
		"confined":                    {slice: pool, confined: true, on: pool, path: other},
		"confined, not read again":    {slice: pool, confined: true, on: all, path: other, want: map[cgroup.Path]string{attack: "4-5"}},
		"confined, not yet written":   {confined: true, on: all, path: other, want: map[cgroup.Path]string{attack: "4-5"}},
		"slice of another process":    {slice: pool, on: pool, path: other, want: map[cgroup.Path]string{attack: "4-5"}},
		"slice with some of its CPUs": {slice: cpuset.Range(2, 4), confined: true, on: cpuset.Range(2, 4), path: other, want: map[cgroup.Path]string{attack: "4"}},
		"shared":                      {on: all, path: other, shared: true},
		"in the slice":                {slice: pool, confined: true, on: pool, path: slice + "/cri-containerd-n.scope", want: map[cgroup.Path]string{slice: "4-5"}},
		"in the slice, shared":        {slice: pool, confined: true, on: pool, path: slice + "/cri-containerd-n.scope", shared: true, want: map[cgroup.Path]string{slice: "4-5"}},
		"owner on all CPUs":           {on: all, path: other, shared: true, owner: true, want: map[cgroup.Path]string{attack: "0-7"}},
		"owner on all of the slice":   {slice: cpuset.Of(2, 3, 4, 5), confined: true, on: cpuset.Of(2, 3, 4, 5), path: other, shared: true, owner: true, want: map[cgroup.Path]string{attack: "2-3"}},
		"in its own sandbox":          {on: all, path: slice + "/cri-containerd-n.scope", owner: true, sandbox: true},
		"sandbox of another pod":      {on: all, path: other, owner: true, sandbox: true, want: map[cgroup.Path]string{attack: "0-7"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := make(files)
			k.set(slice, c.slice, c.slice)
			requested := all
			if c.inherits {
				requested = cpuset.Set{}
			}
			k.set(attack, requested, c.on)
			targets := []cgroup.Target{{Path: slice, Weight: 1}, {Path: attack, Container: "c", CPUs: pool, Exclusive: c.owner}}
			if c.confined {
				targets[0].CPUs, targets[0].Around = pool, true
			}
			if c.sandbox {
				targets[1].Container = ""
			}
			cache := kernelstate.New(k, nil)
			cache.Refresh(targets, noObjects)
			got := make(map[cgroup.Path]string)
			for p, cpus := range cache.Held(targets, &pools.Placement{ID: "n", CPUs: cpuset.Of(4, 5), Exclusive: !c.shared}, c.path) {
				if !cpus.IsEmpty() {
					got[p] = cpus.String()
				}
			}
			if d := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestHeldOfShared checks that the reply for a container that shares its CPUs allocates the same next to any number
// of containers on them.
func TestHeldOfShared(t *testing.T) {
	count := func(containers int) float64 {
		k, pool := make(files), cpuset.Range(2, 3)
		var targets []cgroup.Target
		for i := range containers {
			p := cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-podp.slice/cri-containerd-%d.scope", i))
			k.set(p, pool, pool)
			targets = append(targets, cgroup.Target{Path: p, Container: fmt.Sprint(i), CPUs: pool})
		}
		cache := kernelstate.New(k, nil)
		cache.Refresh(targets, noObjects)
		return testing.AllocsPerRun(10, func() {
			for p, cpus := range cache.Held(targets, &pools.Placement{ID: "n", CPUs: pool}, "kubepods.slice/kubepods-podn.slice/cri-containerd-n.scope") {
				t.Errorf("%s keeps CPUs %s", p, cpus)
			}
		})
	}
	if few, many := count(1), count(500); many > few {
		t.Errorf("allocations: %v next to 500 containers, and %v next to one", many, few)
	}
}
