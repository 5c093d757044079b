package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestEncloses(t *testing.T) {
	const pod = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice"
	for name, c := range map[string]struct {
		path cgroup.Path
		want string
	}{
		"not there":     {"", ""},
		"pods":          {"kubelet.slice", "pods"},
		"a pod":         {pod, "pods"},
		"container":     {"machine.slice", "pods"},
		"unit":          {"system.slice", "du.service"},
		"nothing":       {"radio.slice", ""},
		"name like it":  {"kubelet.slic", ""},
		"beside a unit": {"system.slice/ru.service", ""},
	} {
		m := newModel(cgroup.DriverSystemd)
		m.units["du.service"] = &unitEntry{unit: cgroup.Unit{Name: "du.service", Path: "system.slice/du.service"}}
		m.units["outer"] = &unitEntry{unit: cgroup.Unit{Name: "outer", Path: c.path}}
		m.pods["p"] = &podEntry{slice: pod, pause: pod + "/cri-containerd-p.scope"}
		m.containers["c"] = &containerEntry{path: "machine.slice/cri-containerd-c.scope"}
		if got := m.encloses("outer"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestInnerUnitWins: a slice around another unit of the configuration is left alone,
// and gets back what it was given before the other one was named.
func TestInnerUnitWins(t *testing.T) {
	const outer = "system.slice: {pool: management}"
	n := newNode(t)
	n.units.Install("du.service", cpuset.Set{})
	n.units.Install("telegraf.service", cpuset.Set{})
	n.start2("telegraf.service")
	n.yaml = poolsYAML + "units: {" + outer + "}\n"
	r := n.start()
	n.eventually("slice bound", func() bool { return n.property("system.slice") == "0-1" })
	n.yaml = poolsYAML + "units: {" + outer + ", du.service: {cpus: 2}}\n"
	r.loop.reload()
	n.start2("du.service")
	n.unitRunsOn("du.service", "4-5")
	n.eventually("slice reverted", func() bool { return n.property("system.slice") == "" })
	r.view("problem", func(v *telemetry.View) bool { return v.Problems[string(codeUnitEncloses)] == 1 })
	r.quiet()
}
