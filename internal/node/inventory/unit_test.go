package inventory_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// TestEncloses checks which objects a unit's cgroup contains. Units of host services do
// not count.
func TestEncloses(t *testing.T) {
	const (
		parent = "kubelet-kubepods-pod1.slice"
		pod    = "kubelet.slice/kubelet-kubepods.slice/" + parent
	)
	for name, c := range map[string]struct {
		path cgroup.Path
		want string
	}{
		"no cgroup":       {"", ""},
		"pods":            {"kubelet.slice", "pods"},
		"a pod":           {pod, "pods"},
		"a container":     {"machine.slice", "pods"},
		"a unit":          {"system.slice", "du.service"},
		"a host service":  {"radio.slice", ""},
		"a name prefix":   {"kubelet.slic", ""},
		"beside the unit": {"system.slice/ru.service", ""},
	} {
		m := inventory.New(cgroup.DriverSystemd)
		for unit, path := range map[string]cgroup.Path{"du.service": "system.slice/du.service", "outer": c.path, "y.service": "radio.slice/y.service"} {
			m.PutUnit(lookup.UnitStatus{Name: unit, Unit: systemd.Unit{Name: unit, Path: path}})
		}
		m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", CgroupParent: parent, CgroupsPath: parent + ":cri-containerd:p"}})
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", CgroupsPath: "machine.slice:cri-containerd:c"}})
		if got := m.Objects().Units().Encloses("outer", []string{"y.service"}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
