package kernelstate_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestExternalWrites checks that the cache distinguishes an external write from own writes:
// between an own write and its reading, and while the runtime or systemd records values.
func TestExternalWrites(t *testing.T) {
	target := cgroup.Target{Path: "p.slice/cri-containerd-a.scope", CPUs: cpuset.Range(0, 1), Weight: 59, Unlimited: true}
	scope := target.Path
	wrote := func(property, value string, err error) func(*kernelstate.Cache) {
		return func(tr *kernelstate.Cache) {
			tr.NoteWrite(cgroup.Write{Path: scope, Via: cgroup.File, Property: property, Value: value}, err)
		}
	}
	cpus := cgroup.Write{Path: scope, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "0-1"}
	weight := cgroup.Write{Path: scope, Via: cgroup.DBus, Property: cgroup.UnitWeight, Value: "59"}
	submitted := func(w cgroup.Write) func(*kernelstate.Cache) {
		return func(tr *kernelstate.Cache) { tr.NoteSubmitted(w) }
	}
	finished := func(tr *kernelstate.Cache) {
		tr.NoteFinished(cpus, cgroup.UnitState{Known: true, CPUs: cpuset.Range(0, 1)}, nil)
	}
	type steps []func(*kernelstate.Cache)
	for name, test := range map[string]struct {
		steps steps
		is    string // cpus weight quota
		want  string // properties with an external write
	}{
		"nothing":                {nil, "0-1 59 -1", ""},
		"external alone":         {nil, "2 100 5000", "cpuset.cpus cpu.weight cpu.max"},
		"own write":              {steps{wrote(cgroup.FileCPUs, "0-1", nil)}, "0-1 59 -1", ""},
		"after an own write":     {steps{wrote(cgroup.FileCPUs, "0-1", nil)}, "2 59 -1", "cpuset.cpus"},
		"of another property":    {steps{wrote(cgroup.FileCPUs, "0-1", nil)}, "0-1 7 -1", "cpu.weight"},
		"replaced by own writes": {steps{wrote(cgroup.FileWeight, "59", nil), wrote(cgroup.FileMax, "max", nil)}, "0-1 59 -1", ""},
		"own quota":              {steps{wrote(cgroup.FileMax, "5000 100000", nil)}, "0-1 59 5000", ""},
		"refused own write":      {steps{wrote(cgroup.FileCPUs, "3", errors.New("no"))}, "0-1 59 -1", ""},
		"own write below": {steps{func(tr *kernelstate.Cache) {
			tr.NoteWrite(cgroup.Write{Path: scope.Join("container"), Property: cgroup.FileCPUs, Value: "0-1"}, nil)
		}}, "0-1 59 -1", ""},
		"during a record":              {steps{submitted(cpus)}, "2 59 -1", "cpuset.cpus"},
		"values of the record":         {steps{submitted(cpus)}, "0-1 4 5000", ""},
		"after a record":               {steps{submitted(cpus), finished}, "2 4 -1", "cpuset.cpus"},
		"during a record of a weight":  {steps{submitted(weight)}, "2 59 -1", "cpuset.cpus"},
		"systemd restores its CPUs":    {steps{submitted(weight)}, "6 59 -1", ""},
		"systemd clears the CPUs":      {steps{submitted(weight)}, " 59 -1", ""},
		"during a record of NRI's own": {steps{submitted(cpus), func(tr *kernelstate.Cache) { tr.Writes.NoteOverride(scope) }}, "2 59 -1", ""},
		"during a revert":              {steps{func(tr *kernelstate.Cache) { tr.Writes.BeginRevert(scope) }}, "2 59 -1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel()
			tr := newCache(k)
			look := func(state string) string {
				t.Helper()
				k.state = parseState(t, state)
				tr.Invalidate(scope)
				if gone, errs := tr.Refresh([]cgroup.Target{target}, noObjects); len(gone)+len(errs) > 0 {
					t.Fatal(gone, errs)
				}
				var found []string
				for _, w := range tr.TakeExternal() {
					found = append(found, differences(w.Before.State, w.After)...)
				}
				return strings.Join(found, " ")
			}
			look("0-1 59 -1")
			tr.SetRecord(scope, cgroup.Current{Recorded: cpuset.Range(0, 1), RecordedKnown: true, Unit: cgroup.UnitState{Known: true, CPUs: cpuset.Of(6)}})
			for _, step := range test.steps {
				step(tr)
			}
			if got := look(test.is); got != test.want {
				t.Errorf("external writes of %q; want %q", got, test.want)
			}
			if got := look("0-1 8 -1"); !tr.Writes.IsBusy(scope) && !strings.Contains(got, cgroup.FileWeight) {
				t.Errorf("external writes of %q after the reading; own writes before it still count", got)
			}
		})
	}
}

// parseState returns a state with the CPUs, weight and quota in text.
func parseState(t *testing.T, text string) cgroup.State {
	t.Helper()
	fields := strings.Split(text, " ")
	cpus, err := cpuset.Parse(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	weight, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	quota, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return cgroup.State{HasCPUSet: true, HasCPU: true, CPUs: cpus, Weight: weight, Quota: quota, Period: 100_000}
}

// differences returns the files with different values.
func differences(a, b cgroup.State) (files []string) {
	if !a.CPUs.Equal(b.CPUs) {
		files = append(files, cgroup.FileCPUs)
	}
	if a.Weight != b.Weight {
		files = append(files, cgroup.FileWeight)
	}
	if a.Quota != b.Quota {
		files = append(files, cgroup.FileMax)
	}
	return files
}

// TestWriteToSlice checks that after a write to a slice the cgroups in it are read again,
// whether the daemon writes the file or systemd the property.
func TestWriteToSlice(t *testing.T) {
	within := map[cgroup.Path]bool{
		"system.slice": true, "system.slice/du.service": true, "system.slice/a.slice/b.service": true,
		"system.slice2/c.service": false, "user.slice": false,
	}
	for _, via := range []cgroup.Via{cgroup.File, cgroup.DBus} {
		tr := newCache(newKernel())
		var all []cgroup.Target
		for p := range within {
			all = append(all, cgroup.Target{Path: p, Unit: p.Base()})
		}
		tr.Refresh(all, noObjects)
		w := cgroup.Write{Path: "system.slice", Via: via, Property: cgroup.FileCPUs, Value: "0-1"}
		if via == cgroup.DBus {
			w.Property = cgroup.UnitCPUs
			tr.NoteSubmitted(w)
			tr.NoteFinished(w, cgroup.UnitState{}, nil)
		} else {
			tr.NoteWrite(w, nil)
		}
		for p, want := range within {
			if got := tr.IsStale(p); got != want {
				t.Errorf("after a write over %s: %s is stale: %t; want %t", via, p, got, want)
			}
		}
	}
}

// TestRecord checks the record of a container during and after writes of it.
func TestRecord(t *testing.T) {
	all := targets(1)
	p := all[0].Path
	two := cgroup.Write{Path: p, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "2"}
	mems := cgroup.Write{Path: p, Via: cgroup.CRI, Property: cgroup.CRIMems, Value: "1"}
	unit := cgroup.UnitState{Known: true, CPUs: cpuset.Of(2)}
	type steps []func(*kernelstate.Cache)
	submit := func(tr *kernelstate.Cache) { tr.NoteSubmitted(two) }
	for name, c := range map[string]struct {
		steps    steps
		recorded string
		known    bool
		mems     string
		pending  string
		busy     bool
	}{
		"nothing":     {nil, "0-3", true, "0", "", false},
		"in progress": {steps{submit}, "0-3", true, "0", "2", true},
		"done":        {steps{submit, func(tr *kernelstate.Cache) { tr.NoteFinished(two, unit, nil) }}, "2", true, "0", "", false},
		"failed":      {steps{submit, func(tr *kernelstate.Cache) { tr.NoteFinished(two, unit, errors.New("no")) }}, "0-3", true, "0", "", false},
		"overridden":  {steps{submit, func(tr *kernelstate.Cache) { tr.Writes.NoteOverride(p); tr.NoteFinished(two, unit, nil) }}, "2", false, "0", "", false},
		"missing":     {steps{submit, func(tr *kernelstate.Cache) { tr.NoteMissingUpdate(p, cpuset.Of(2)) }}, "0-3", false, "0", "", false},
		"two of them": {steps{submit, submit, func(tr *kernelstate.Cache) { tr.NoteFinished(two, unit, nil) }}, "2", true, "0", "", true},
		"memory":      {steps{func(tr *kernelstate.Cache) { tr.NoteSubmitted(mems); tr.NoteFinished(mems, unit, nil) }}, "0-3", true, "1", "", false},
		"reverted":    {steps{func(tr *kernelstate.Cache) { tr.Writes.BeginRevert(p); tr.Writes.EndRevert(p) }}, "0-3", true, "0", "", false},
		"confirmed": {steps{func(tr *kernelstate.Cache) {
			tr.ConfirmRecord(p, cpuset.Range(0, 3), true, cgroup.UnitState{Known: true, CPUs: cpuset.Range(0, 3)})
		}}, "0-3", true, "0", "", false},
		"replaced": {steps{func(tr *kernelstate.Cache) {
			tr.ConfirmRecord(p, cpuset.Of(7), true, cgroup.UnitState{Known: true, CPUs: cpuset.Of(7)})
		}}, "0-3", false, "0", "", false},
		"no answer": {steps{func(tr *kernelstate.Cache) { tr.ConfirmRecord(p, cpuset.Set{}, false, cgroup.UnitState{}) }}, "0-3", true, "0", "", false},
		"while busy": {steps{submit, func(tr *kernelstate.Cache) {
			tr.ConfirmRecord(p, cpuset.Of(7), true, cgroup.UnitState{Known: true, CPUs: cpuset.Of(7)})
		}}, "0-3", true, "0", "2", true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newCache(newKernel())
			tr.Refresh(all, noObjects)
			tr.SetRecord(p, cgroup.Current{Recorded: cpuset.Range(0, 3), RecordedMems: cpuset.Of(0), RecordedKnown: true})
			for _, step := range c.steps {
				step(tr)
			}
			got := tr.Current(p)
			if got.Recorded.String() != c.recorded || got.RecordedKnown != c.known || got.RecordedMems.String() != c.mems {
				t.Errorf("record %s, known %t, nodes %s; want %s, %t, %s", got.Recorded, got.RecordedKnown, got.RecordedMems, c.recorded, c.known, c.mems)
			}
			if got.Pending.String() != c.pending {
				t.Errorf("%q is being recorded; want %q", got.Pending, c.pending)
			}
			if tr.Writes.IsBusy(p) != c.busy || tr.Writes.HasBusy() != c.busy {
				t.Errorf("busy: %t, any: %t; want %t", tr.Writes.IsBusy(p), tr.Writes.HasBusy(), c.busy)
			}
		})
	}
}
