package testnode

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// TestNothingIsKept checks that ended scopes leave no data in memory. Otherwise a test of a
// million containers would measure the fake instead of the daemon.
func TestNothingIsKept(t *testing.T) {
	for _, linger := range []bool{false, true} {
		tree := NewCgroups(CgroupConfig{Possible: cpuset.Range(0, 7), LeaveBehind: 1, Linger: linger})
		units := NewUnits(tree)
		units.Install("a.service", cpuset.Of(1))
		kept := func() [6]int {
			if err := units.SetProperties(t.Context(), "a.service", []systemd.Property{{Name: cgroup.UnitCPUs, Value: "2"}}); err != nil {
				t.Fatal(err)
			}
			return [6]int{len(tree.units), len(tree.holders), len(tree.strays), len(tree.ended), len(units.properties), len(units.runtime)}
		}
		must := func(errs ...error) {
			t.Helper()
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		before := kept()
		for i := range 8 {
			slice := fmt.Sprintf("kubepods.slice/kubepods-pod%d.slice", i)
			scope := slice + "/a.scope"
			tree.MkdirAll(scope)
			must(
				units.SetProperties(t.Context(), "a.scope", []systemd.Property{{Name: cgroup.UnitWeight, Value: "7"}, {Name: cgroup.UnitCPUs, Value: "4-7"}}),
				tree.Write(scope+"/cgroup.procs", "17"),
				tree.Write(scope+"/cpuset.cpus", "5"), // leaves the task on its previous CPUs
			)
			if len(tree.strays) != 1 || len(tree.holders) != 1 {
				t.Fatalf("%d tasks, %d of them left behind; want one", len(tree.holders), len(tree.strays))
			}
			must(tree.ForRuntime().Rmdir(scope))
			if linger {
				must(tree.Rmdir(scope))
			}
			if i%2 == 0 {
				must(tree.Remove(slice))
				continue
			}
			tree.MkdirAll(scope)
			if state, err := units.Properties(t.Context(), "a.scope"); err != nil || state.Weight != 0 || !state.CPUs.IsEmpty() {
				t.Errorf("a scope of the same name begins with %+v, %v; want nothing", state, err)
			}
			must(tree.Remove(slice))
		}
		must(tree.Remove("kubepods.slice"))
		if diff := cmp.Diff(before, kept()); diff != "" {
			t.Errorf("linger %v: kept (-before +after):\n%s", linger, diff)
		}
	}
}
