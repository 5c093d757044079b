package daemon

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestForeignBesideOurs: what somebody else writes between a write of the daemon's and
// its reading back, or while a seal is under way, is told from what the daemon and those
// who work for it have written.
func TestForeignBesideOurs(t *testing.T) {
	const scope = cgroup.Path("p.slice/cri-containerd-a.scope")
	target := cgroup.Target{Path: scope, CPUs: cpuset.Range(0, 1), Weight: 59, Unlimited: true}
	file := func(property, value string) cgroup.Write {
		return cgroup.Write{Path: scope, Via: cgroup.File, Property: property, Value: value}
	}
	unit := func(property, value string) cgroup.Write {
		return cgroup.Write{Path: scope, Via: cgroup.DBus, Property: property, Value: value}
	}
	cpus := cgroup.Write{Path: scope, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "0-1"}
	end := func(w cgroup.Write) func(*kernelstate.Cache) {
		return func(tr *kernelstate.Cache) {
			tr.Finished(w, cgroup.UnitState{Known: true, CPUs: cpuset.Range(0, 1)}, nil)
		}
	}
	wrote := func(w cgroup.Write, err error) func(*kernelstate.Cache) {
		return func(tr *kernelstate.Cache) { tr.Wrote(w, err) }
	}
	seal := func(w cgroup.Write) func(*kernelstate.Cache) {
		return func(tr *kernelstate.Cache) { tr.Submitted(w); tr.Invalidate(scope) }
	}
	for name, test := range map[string]struct {
		doings []func(*kernelstate.Cache)
		is     string // cpus weight quota
		want   string // properties of which a foreign write is told
	}{
		"nothing":                            {nil, "0-1 59 -1", ""},
		"theirs alone":                       {nil, "2 100 5000", "cpuset.cpus cpu.weight cpu.max"},
		"ours arrives":                       {[]func(*kernelstate.Cache){wrote(file(cgroup.FileCPUs, "0-1"), nil)}, "0-1 59 -1", ""},
		"after ours":                         {[]func(*kernelstate.Cache){wrote(file(cgroup.FileCPUs, "0-1"), nil)}, "2 59 -1", "cpuset.cpus"},
		"after ours, another property":       {[]func(*kernelstate.Cache){wrote(file(cgroup.FileCPUs, "0-1"), nil)}, "0-1 7 -1", "cpu.weight"},
		"ours replaces theirs":               {[]func(*kernelstate.Cache){wrote(file(cgroup.FileWeight, "59"), nil), wrote(file(cgroup.FileMax, "max"), nil)}, "0-1 59 -1", ""},
		"a refused one":                      {[]func(*kernelstate.Cache){wrote(file(cgroup.FileCPUs, "3"), errors.New("no"))}, "0-1 59 -1", ""},
		"below":                              {[]func(*kernelstate.Cache){wrote(cgroup.Write{Path: scope.Join("container"), Property: cgroup.FileCPUs, Value: "0-1"}, nil)}, "0-1 59 -1", ""},
		"a seal under way":                   {[]func(*kernelstate.Cache){seal(cpus)}, "2 59 -1", "cpuset.cpus"},
		"a seal's own weight and quota":      {[]func(*kernelstate.Cache){seal(cpus)}, "0-1 4 5000", ""},
		"a seal that has ended":              {[]func(*kernelstate.Cache){seal(cpus), end(cpus)}, "2 4 -1", "cpuset.cpus"},
		"one of the weight":                  {[]func(*kernelstate.Cache){seal(unit(cgroup.UnitWeight, "59"))}, "2 59 -1", "cpuset.cpus"},
		"which brings back what systemd had": {[]func(*kernelstate.Cache){seal(unit(cgroup.UnitWeight, "59"))}, "6 59 -1", ""},
		"or what it has not":                 {[]func(*kernelstate.Cache){seal(unit(cgroup.UnitWeight, "59"))}, " 59 -1", ""},
		"one that NRI has changed":           {[]func(*kernelstate.Cache){seal(cpus), func(tr *kernelstate.Cache) { tr.NoteOverride(scope) }}, "2 59 -1", ""},
		"a revert":                           {[]func(*kernelstate.Cache){func(tr *kernelstate.Cache) { tr.Begin(scope); tr.Invalidate(scope) }}, "2 59 -1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			is := parseState(t, scope, "0-1 59 -1")
			tr := kernelstate.New(func(cgroup.Path) (cgroup.State, error) { return is, nil })
			m := inventory.New(cgroup.DriverSystemd)
			look := func() {
				if gone, errs := tr.Refresh([]cgroup.Target{target}, m); len(gone)+len(errs) > 0 {
					t.Fatal(gone, errs)
				}
			}
			look()
			c := tr.Current[scope]
			c.Recorded, c.RecordedKnown, c.Unit = cpuset.Range(0, 1), true, cgroup.UnitState{Known: true, CPUs: cpuset.Of(6)}
			tr.Current[scope] = c
			for _, do := range test.doings {
				do(tr)
			}
			tr.Invalidate(scope)
			is = parseState(t, scope, test.is)
			look()
			var told []string
			for _, f := range tr.External {
				for _, d := range deviations(f.Target, f.Before.State, f.After) {
					told = append(told, d.Property)
				}
			}
			if got := strings.Join(told, " "); got != test.want {
				t.Errorf("foreign writes of %q; want %q", got, test.want)
			}
			if len(tr.Pending) == 0 && len(tr.OwnWrites) > 0 {
				t.Error("a deed outlives the reading")
			}
		})
	}
}

// parseState reads cpus, weight and quota.
func parseState(t *testing.T, p cgroup.Path, text string) cgroup.State {
	fields := strings.Split(text, " ")
	cpus, err := cpuset.Parse(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	st := kernelstate.After(cgroup.State{Path: p, HasCPUSet: true, HasCPU: true, CPUs: cpus, Period: 100_000}, cgroup.Write{Property: cgroup.FileWeight, Value: fields[1]})
	return kernelstate.After(st, cgroup.Write{Property: cgroup.FileMax, Value: strings.Replace(fields[2], "-1", cgroup.ValueMax, 1)})
}

// TestForeignWriteDuringSeal: a cpuset that somebody writes while the runtime is at the
// container is repaired at once, and counted.
func TestForeignWriteDuringSeal(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.settled()
	release := n.Runtime.Hang("UpdateContainerResources")
	defer release()
	if err := n.Units.SetProperties(t.Context(), cgroup.Path(n.Runtime.Cgroup(id)).Base(), []cgroup.Property{{Name: cgroup.UnitCPUs, Value: "4"}}); err != nil {
		t.Fatal(err)
	}
	counted := func(count uint64) func(*telemetry.View) bool {
		return func(v *telemetry.View) bool {
			return v.Drifts[telemetry.Drift{Cause: telemetry.CauseUnknown, Property: cgroup.FileCPUs}] == count
		}
	}
	r.view("the first is counted", counted(1))
	n.Eventually("a seal is under way", func() bool { return r.sealing(cgroup.Path(n.Runtime.Cgroup(id))) })
	n.WriteFile(id, cgroup.FileCPUs, "6")
	n.AwaitCPUs(id, "2-3")
	release()
	r.view("the second is counted", counted(2))
	r.quiet()
}

// sealing asks the owner whether a worker is at a cgroup.
func (r *running) sealing(p cgroup.Path) bool {
	answer := make(chan bool, 1)
	r.loop.box.Post(busyAsked{p, answer})
	return <-answer
}

type busyAsked struct {
	path   cgroup.Path
	answer chan<- bool
}

func (busyAsked) scope(*Loop) scope { return scopeAll }

func (b busyAsked) apply(l *Loop) { b.answer <- l.cache.Busy(b.path) }

// TestWriteOfASlice: what is in it is read again, whether the daemon has written its file
// or systemd its property; nothing else is.
func TestWriteOfASlice(t *testing.T) {
	for _, via := range []cgroup.Via{cgroup.File, cgroup.DBus} {
		tr := kernelstate.New(nil)
		for _, p := range []cgroup.Path{"system.slice", "system.slice/du.service", "system.slice/a.slice/b.service", "system.slice2/c.service", "user.slice"} {
			tr.Current[p] = cgroup.Current{Exists: true}
		}
		w := cgroup.Write{Path: "system.slice", Via: via, Property: cgroup.FileCPUs, Value: "0-1"}
		if via == cgroup.DBus {
			w.Property = cgroup.UnitCPUs
			tr.Submitted(w)
			tr.Finished(w, cgroup.UnitState{}, nil)
		} else {
			tr.Wrote(w, nil)
		}
		want := []cgroup.Path{"system.slice", "system.slice/a.slice/b.service", "system.slice/du.service"}
		if got := slices.Sorted(maps.Keys(tr.Stale)); !slices.Equal(got, want) {
			t.Errorf("after a write over %s %v are read again; want %v", via, got, want)
		}
	}
}
