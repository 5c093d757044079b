package cgroup_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestDiffSequence runs one plan after the other with the same containers and units.
// They gain and lose exclusive CPUs, end and restart, as with a guaranteed pool that is
// carved out of the shared one. After each plan all cgroups are in the desired state:
// quotas are lifted and restored, memory is bound and freed.
func TestDiffSequence(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		driver := []cgroup.Driver{cgroup.DriverSystemd, cgroup.DriverCgroupfs}[seed%2]
		const cpus, cgroups = 8, 6
		w := newWorld(driver, cpus)
		for i := range cgroups {
			w.targets = append(w.targets, cgroup.Target{Path: containerPath(driver, i), Container: fmt.Sprint("c", i)})
			if i >= cgroups-2 {
				unit := fmt.Sprintf("u%d.service", i)
				w.targets[i] = cgroup.Target{Path: cgroup.Path("system.slice/" + unit), Unit: unit}
				w.units.Install(unit, cpuset.Set{})
				continue
			}
			w.start(w.targets[i].Path, false)
		}
		for step := range 30 {
			w.plan(r, cpus)
			w.settle(t)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
			w.restart(t, r)
		}
	}
}

// plan assigns the CPUs randomly.
func (w *world) plan(r *rand.Rand, cpus int) {
	w.options.Spare = w.options.Possible
	for i, p := range randomPlan(r, len(w.targets), cpus) {
		x := &w.targets[i]
		x.CPUs, x.Exclusive, x.Unlimited, x.Quota, x.Mems = p.cpus, p.exclusive, p.exclusive, 0, cpuset.Set{}
		if !p.exclusive {
			x.Quota, x.Mems = specQuota, w.options.Nodes
		} else if r.IntN(2) == 0 {
			x.Mems = randomSet(r, w.options.Nodes.Len())
		}
		w.options.Spare = w.options.Spare.Difference(x.CPUs)
	}
}

// restart ends one container or unit, or starts an ended one. A container starts with
// its quota only, a unit with systemd's recorded values.
func (w *world) restart(t *testing.T, r *rand.Rand) {
	t.Helper()
	x := w.targets[r.IntN(len(w.targets))]
	exists := w.current()[x.Path].Exists
	switch {
	case x.Unit != "" && exists:
		w.must(w.units.Stop(x.Unit))
	case x.Unit != "":
		w.must(w.units.Start(x.Unit))
		if c := w.current()[x.Path]; !c.Effective.Equal(c.Recorded) {
			t.Errorf("CPUs of started %s = %s; want the recorded %s", x.Unit, c.Effective, c.Recorded)
		}
	default:
		w.must(w.tree.Remove(string(x.Path)))
		delete(w.recorded, x.Path)
		delete(w.mems, x.Path)
		w.start(x.Path, false)
		w.must(w.tree.Write(string(x.Path)+"/cpu.max", fmt.Sprint(specQuota)))
	}
}
