package kernelstate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestNoteOriginals checks the originals of a container, of crun's cgroup in it, and of a unit.
func TestNoteOriginals(t *testing.T) {
	const (
		path = cgroup.Path("kubepods.slice/kubepods-podu.slice/cri-containerd-1.scope")
		unit = cgroup.Path("system.slice/du.service")
	)
	k := newKernel()
	k.state = cgroup.State{CPUs: cpuset.Range(0, 3), HasCPUSet: true, Populated: true, Inner: &cgroup.State{Path: path + "/container", CPUs: cpuset.Of(1), HasCPUSet: true}}
	c, m, j := newCache(k), inventory.New(cgroup.DriverSystemd), undo.New(undo.Document{})
	m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "1", State: cri.Running, CgroupsPath: "kubepods-podu.slice:cri-containerd:1"}})
	m.PutUnit(inventory.UnitStatus{Name: "du.service", Unit: cgroup.Unit{Name: "du.service", Path: unit, UnitState: cgroup.UnitState{Known: true, CPUs: cpuset.Of(5)}}})
	c.Refresh([]cgroup.Target{{Path: path, Container: "1", CPUs: cpuset.Of(2)}, {Path: unit, Unit: "du.service", CPUs: cpuset.Of(2)}}, m)
	c.SetUnit(unit, cgroup.UnitState{Known: true, CPUs: cpuset.Of(5)})
	var writes []cgroup.Write
	for _, p := range []cgroup.Path{path, path + "/container"} {
		writes = append(writes, cgroup.Write{Path: p, Via: cgroup.File, Property: cgroup.FileCPUs, Value: "2"})
	}
	c.NoteOriginals(j, m, append(writes, cgroup.Write{Path: unit, Via: cgroup.DBus, Property: cgroup.UnitCPUs, Value: "2"}))
	d, _, due := j.BeginSave(time.Unix(1000, 0))
	if !due {
		t.Fatal("the journal has not changed")
	}
	type original struct{ Container, Unit, Value string }
	got := make(map[cgroup.Path]original)
	for _, o := range d.Originals {
		got[o.Path] = original{o.Container, o.Unit, o.Value}
	}
	want := map[cgroup.Path]original{path: {"1", "", "0-3"}, path + "/container": {"", "", "1"}, unit: {"", "du.service", "5"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("originals (-want +got):\n%s", diff)
	}
}
