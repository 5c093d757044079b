package desired_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestAwaited checks the CPUs of the slice of a pod that has appeared, and until when the slice is
// awaited.
func TestAwaited(t *testing.T) {
	const (
		parent = "kubepods-podu.slice"
		slice  = cgroup.Path("kubepods.slice/" + parent)
	)
	fresh := &cgroup.State{Path: slice, HasCPUSet: true}
	with := func(change func(*cgroup.State)) *cgroup.State {
		st := *fresh
		change(&st)
		return &st
	}
	started := with(func(st *cgroup.State) { st.Populated = true })
	narrow := with(func(st *cgroup.State) { st.Populated, st.CPUs = true, cpuset.Of(2, 3) })
	pause := []pools.Placement{{ID: "p", Kind: pools.Infra, Pool: pools.Shared, CPUs: cpuset.Of(2, 3)}}
	for name, c := range map[string]struct {
		kernel     *cgroup.State // nil if the slice is gone
		wrote      bool          // the journal has the CPUs from before
		known      bool          // the runtime has reported the pod
		containers []pools.Placement
		owned      cpuset.Set // beyond 4-5
		partitions bool
		released   bool
		want       string // CPUs of the slice
		ends       bool   // the slice is awaited no longer
	}{
		"new":                               {kernel: fresh, want: "2-3"},
		"new, an owner has a shared CPU":    {kernel: fresh, owned: cpuset.Of(3), want: "2"},
		"new, owners have all shared CPUs":  {kernel: fresh, owned: cpuset.Of(2, 3)},
		"without the controller":            {kernel: with(func(st *cgroup.State) { st.HasCPUSet = false })},
		"partitions":                        {kernel: fresh, partitions: true},
		"gone":                              {ends: true},
		"pause container started before":    {kernel: started, ends: true},
		"pause container starts meanwhile":  {kernel: started, wrote: true, want: "2-3"},
		"written, pause container starts":   {kernel: narrow, wrote: true, want: "2-3"},
		"CPUs of another process":           {kernel: with(func(st *cgroup.State) { st.CPUs = cpuset.Of(6) }), ends: true},
		"known before the first write":      {kernel: fresh, known: true, containers: pause, ends: true},
		"known":                             {kernel: narrow, wrote: true, known: true, containers: pause, want: "0-7", ends: true},
		"known, has all CPUs":               {kernel: narrow, wrote: true, known: true, containers: pause, released: true, want: "2-3"},
		"known, without a pause container":  {kernel: narrow, wrote: true, known: true, want: "2-3"},
		"its first container is being made": {kernel: narrow, wrote: true, known: true, containers: []pools.Placement{{ID: "c", Pool: pools.Guaranteed, CPUs: cpuset.Of(6), State: pools.Created}}, want: "0-7", ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			plan := pools.Plan{Shared: cpuset.Of(2, 3), Assignments: []pools.Assignment{{CPUs: cpuset.Of(4, 5).Union(c.owned)}}}
			if c.known {
				m.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: parent, CgroupsPath: parent + ":cri-containerd:p"}})
				m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "c", State: cri.Created, Detailed: true, CgroupsPath: parent + ":cri-containerd:c"}})
				plan.Pods = []pools.PodPlan{{UID: "u", Containers: c.containers}}
			}
			var doc undo.Document
			if c.wrote {
				doc.Originals = []undo.Original{{Path: slice, File: cgroup.FileCPUs}}
			}
			in := desired.Input{
				Settings: hostSettings(t, nodefixture.PoolsYAML, 8), Inventory: m, Journal: undo.New(doc), Partitions: c.partitions,
				Awaited: map[cgroup.Path]bool{slice: true}, Released: map[cgroup.Path]bool{slice: c.released},
				Read: func(cgroup.Path) (cgroup.State, error) {
					if c.kernel == nil {
						return cgroup.State{}, cgroup.ErrGone
					}
					return *c.kernel, nil
				},
				Build: func(pools.Input) pools.Plan { return plan },
			}
			got := ""
			for _, target := range in.Decide().Targets {
				if target.Path == slice {
					if got += target.CPUs.String(); !target.Around || !target.Unrecorded {
						t.Errorf("%+v: want only a file of a slice", target)
					}
				}
			}
			if got != c.want {
				t.Errorf("the slice gets CPUs %q; want %q", got, c.want)
			}
			if d := cmp.Diff(!c.ends, len(slices.Collect(maps.Keys(in.Awaited))) == 1); d != "" {
				t.Errorf("is awaited (-want +got):\n%s", d)
			}
		})
	}
}
