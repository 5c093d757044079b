package kernelstate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// TestNoteOriginals checks the originals of a container, of crun's cgroup in it, and of a unit.
func TestNoteOriginals(t *testing.T) {
	const (
		slice = cgroup.Path("kubepods.slice/kubepods-podu.slice")
		scope = slice + "/cri-containerd-1.scope"
		inner = scope + "/container"
		unit  = cgroup.Path("system.slice/du.service")
	)
	state := func(cpus cpuset.Set, in *cgroup.State) cgroup.State {
		return cgroup.State{Path: scope, CPUs: cpus, HasCPUSet: true, HasCPU: true, Populated: true, Weight: 100, Quota: 200_000, Period: 100_000, Inner: in}
	}
	innerState := func(cpus cpuset.Set, quota int64) *cgroup.State {
		return &cgroup.State{Path: inner, CPUs: cpus, Mems: cpus.Take(1), HasCPUSet: true, HasCPU: true, Weight: 7, Quota: quota, Period: 100_000}
	}
	file := func(p cgroup.Path, name string) cgroup.Write {
		value := "2"
		if name == cgroup.FileMax {
			value = cgroup.ValueMax
		}
		return cgroup.Write{Path: p, Via: cgroup.File, Property: name, Value: value}
	}
	byNRI := func(j *undo.Journal) {
		j.Originals.NoteCreated(scope, "1", cri.Resources{Quota: 300_000, Period: 100_000}, &pools.Placement{Unlimited: true}, 0)
	}
	type original struct {
		Path                         cgroup.Path
		File, Container, Unit, Value string
	}
	cpus := func(value string) original { return original{scope, cgroup.FileCPUs, "1", "", value} }
	innerCPUs := func(value string) original { return original{inner, cgroup.FileCPUs, "", "", value} }
	for name, c := range map[string]struct {
		before func(*undo.Journal)
		states []cgroup.State // one for each call with writes
		writes []cgroup.Write
		want   []original
	}{
		"an unidentified container": {
			before: func(j *undo.Journal) {
				j.Originals.Note(undo.Original{Path: scope, File: cgroup.FileCPUs, Value: "0-3"})
			},
			states: []cgroup.State{state(cpuset.Of(4), nil)}, writes: []cgroup.Write{file(scope, cgroup.FileCPUs)},
			want: []original{cpus("0-3")},
		},
		"no inner cgroup": {
			states: []cgroup.State{state(cpuset.Range(0, 3), nil)}, writes: []cgroup.Write{file(scope, cgroup.FileCPUs)},
			want: []original{cpus("0-3")},
		},
		"the inner cgroup has its own CPUs": {
			states: []cgroup.State{state(cpuset.Range(0, 3), innerState(cpuset.Of(1), -1))},
			writes: []cgroup.Write{file(scope, cgroup.FileCPUs), file(inner, cgroup.FileCPUs)},
			want:   []original{cpus("0-3"), innerCPUs("1")},
		},
		"the inner cgroup is written first": {
			states: []cgroup.State{state(cpuset.Range(0, 3), innerState(cpuset.Of(1), -1))},
			writes: []cgroup.Write{file(inner, cgroup.FileCPUs), file(scope, cgroup.FileCPUs)},
			want:   []original{cpus("0-3"), innerCPUs("1")},
		},
		"the runtime writes the daemon's CPUs to both": {
			states: []cgroup.State{state(cpuset.Set{}, innerState(cpuset.Set{}, -1)), state(cpuset.Of(4), innerState(cpuset.Of(4), -1))},
			writes: []cgroup.Write{file(scope, cgroup.FileCPUs), file(inner, cgroup.FileCPUs)},
			want:   []original{cpus(""), innerCPUs("")},
		},
		"a cgroup with its own CPUs gets the daemon's before its first write": {
			states: []cgroup.State{state(cpuset.Set{}, innerState(cpuset.Of(1), -1)), state(cpuset.Of(4), innerState(cpuset.Of(4), -1))},
			writes: []cgroup.Write{file(scope, cgroup.FileCPUs), file(inner, cgroup.FileCPUs)},
			want:   []original{cpus(""), innerCPUs("1")},
		},
		"the CPUs are in the container's specification": {
			before: byNRI,
			states: []cgroup.State{state(cpuset.Of(4), innerState(cpuset.Of(4), -1))},
			writes: []cgroup.Write{file(inner, cgroup.FileCPUs)},
			want:   []original{{scope, cgroup.FileMax, "1", "", "300000 100000"}, cpus(""), innerCPUs("")},
		},
		"memory nodes and quotas": {
			before: byNRI,
			states: []cgroup.State{state(cpuset.Of(4), innerState(cpuset.Of(4), 300_000))},
			writes: []cgroup.Write{file(scope, cgroup.FileMems), file(inner, cgroup.FileMems), file(inner, cgroup.FileMax)},
			want: []original{
				{scope, cgroup.FileMax, "1", "", "300000 100000"}, cpus(""), {scope, cgroup.FileMems, "1", "", ""},
				{inner, cgroup.FileMax, "", "", "300000 100000"}, {inner, cgroup.FileMems, "", "", "4"},
			},
		},
		"the daemon writes no weight to the inner cgroup": {
			states: []cgroup.State{state(cpuset.Of(4), innerState(cpuset.Of(4), -1))},
			writes: []cgroup.Write{file(scope, cgroup.FileWeight)},
			want:   []original{{scope, cgroup.FileWeight, "1", "", "100"}},
		},
		"the inner cgroup has no controllers": {
			states: []cgroup.State{state(cpuset.Of(4), &cgroup.State{Path: inner, Quota: -1})},
			writes: []cgroup.Write{file(scope, cgroup.FileCPUs), file(scope, cgroup.FileMax)},
			want:   []original{{scope, cgroup.FileMax, "1", "", "200000 100000"}, cpus("4")},
		},
		"the kubelet resizes a pod": {
			states: []cgroup.State{{Path: slice, Quota: 200_000, Period: 100_000}, {Path: slice, Quota: 300_000, Period: 100_000}},
			writes: []cgroup.Write{{Path: slice, Via: cgroup.DBus, Property: cgroup.UnitQuota, Value: cgroup.ValueInf}, file(slice, cgroup.FileMax)},
			want:   []original{{slice, cgroup.FileMax, "", "", "300000 100000"}},
		},
		"the daemon restores the quota of a pod": {
			states: []cgroup.State{{Path: slice, Quota: 200_000, Period: 100_000}, {Path: slice, Quota: -1, Period: 100_000}},
			writes: []cgroup.Write{file(slice, cgroup.FileMax), {Path: slice, Via: cgroup.File, Property: cgroup.FileMax, Value: "300000 100000"}},
			want:   []original{{slice, cgroup.FileMax, "", "", "200000 100000"}},
		},
		"a unit": {
			states: []cgroup.State{state(cpuset.Range(0, 3), nil)},
			writes: []cgroup.Write{{Path: unit, Via: cgroup.DBus, Property: cgroup.UnitCPUs, Value: "2"}},
			want:   []original{{unit, cgroup.FileCPUs, "", "du.service", "5"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel()
			tr, m, j := newCache(k), inventory.New(cgroup.DriverSystemd), undo.Document{}.Journal()
			m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "1", State: cri.Running, CgroupsPath: "kubepods-podu.slice:cri-containerd:1"}})
			m.PutUnit(lookup.UnitStatus{Name: "du.service", Unit: systemd.Unit{Name: "du.service", Path: unit, UnitState: cgroup.UnitState{Known: true, CPUs: cpuset.Of(5)}}})
			if c.before != nil {
				c.before(j)
			}
			for i, st := range c.states {
				k.state = st
				tr.InvalidateAll()
				tr.Refresh([]cgroup.Target{{Path: slice}, {Path: scope, Container: "1", CPUs: cpuset.Of(2)}, {Path: unit, Unit: "du.service", CPUs: cpuset.Of(2)}}, m.Objects())
				tr.SetUnit(unit, cgroup.UnitState{Known: true, CPUs: cpuset.Of(5)})
				writes := c.writes
				if len(c.states) > 1 { // one write for each state
					writes = writes[i : i+1]
				}
				tr.NoteOriginals(j.Originals, m.Objects(), writes)
			}
			d, _, due := j.BeginSave(time.Unix(1000, 0))
			if !due {
				t.Fatal("the journal has not changed")
			}
			slices.SortFunc(d.Originals, undo.Original.Compare) // as in the file
			var got []original
			for _, o := range d.Originals {
				got = append(got, original{o.Path, o.File, o.Container, o.Unit, o.Value})
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("originals (-want +got):\n%s", diff)
			}
		})
	}
}
