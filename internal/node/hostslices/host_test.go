package hostslices_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

func unit(name string, path cgroup.Path, has ...int) hostslices.Unit {
	return hostslices.Unit{Name: name, Unit: systemd.Unit{Name: name, Load: "loaded", Path: path, UnitState: cgroup.UnitState{Known: true, CPUs: cpuset.Of(has...)}}}
}

func slice(name string, has ...int) hostslices.Unit { return unit(name, cgroup.Path(name), has...) }

func ours(u hostslices.Unit) hostslices.Unit {
	u.Ours = true
	return u
}

func withFile(u hostslices.Unit, cpus ...int) hostslices.Unit {
	u.Files = hostslices.Setting{CPUs: cpuset.Of(cpus...), File: "/etc/x.conf"}
	return u
}

// TestDecide checks the verdict on one unit next to system.slice, for each state and in
// any order of the units.
func TestDecide(t *testing.T) {
	masked := slice("machine.slice")
	masked.Unit.Load = "masked"
	isolated := ours(slice("user.slice", 0, 1))
	isolated.Unit.Partition = "isolated"
	du := hostslices.Placed{Name: "du.service", Path: "system.slice/du.service", CPUs: cpuset.Of(4, 5)}
	radio := hostslices.Placed{Name: "radio.slice", Path: "radio.slice", CPUs: cpuset.Of(6)}
	const pod cgroup.Path = "system.slice/cri-containerd-x.scope"
	for name, c := range map[string]struct {
		unit   hostslices.Unit
		placed []hostslices.Placed
		pods   []cgroup.Path
		want   hostslices.State
		cpus   string
		why    string
	}{
		"nothing set":                              {unit: slice("user.slice"), want: hostslices.Confined, cpus: "0-1"},
		"set by us":                                {unit: ours(slice("user.slice", 0, 1)), want: hostslices.Confined, cpus: "0-1"},
		"set by us, changed over D-Bus":            {unit: ours(slice("user.slice", 0, 3)), want: hostslices.Confined, cpus: "0-1"},
		"set by us, the journal is lost":           {unit: slice("user.slice", 0, 1), want: hostslices.Confined, cpus: "0-1"},
		"set by another process":                   {unit: slice("user.slice", 0, 3), want: hostslices.Foreign, why: "another process has set its CPUs to 0,3 until the next boot (systemctl set-property --runtime)"},
		"set in a file":                            {unit: withFile(slice("user.slice", 3), 3), want: hostslices.Foreign, why: "/etc/x.conf gives it CPUs 3 (AllowedCPUs)"},
		"set in a file, after us":                  {unit: ours(withFile(slice("user.slice", 0, 1), 3)), want: hostslices.Foreign, why: "/etc/x.conf gives it CPUs 3 (AllowedCPUs)"},
		"a partition of systemd":                   {unit: isolated, want: hostslices.Foreign, why: "systemd sets its cpuset partition (CPUSetPartition=isolated)"},
		"not told":                                 {unit: hostslices.Unit{Name: "user.slice"}, want: hostslices.Unknown, why: "systemd has not reported it"},
		"masked":                                   {unit: masked, want: hostslices.Absent, why: "systemd cannot start it (LoadState=masked)"},
		"in system.slice":                          {unit: unit("x.service", "system.slice/x.service", 7), want: hostslices.Inside, why: "is in system.slice"},
		"an alias of system.slice":                 {unit: unit("x.slice", "system.slice"), want: hostslices.Inside, why: "is in system.slice"},
		"in a unit with a place":                   {unit: unit("x.service", "radio.slice/x.service"), placed: []hostslices.Placed{radio}, want: hostslices.Inside, why: "is in radio.slice"},
		"beside a name alike":                      {unit: slice("radio.slice-x.slice"), placed: []hostslices.Placed{radio}, want: hostslices.Confined, cpus: "0-1"},
		"around a unit":                            {unit: slice("outer.slice"), placed: []hostslices.Placed{{Name: "a", Path: "outer.slice/a", CPUs: cpuset.Of(1, 6)}, du}, want: hostslices.Confined, cpus: "0-1,6"},
		"around a unit, set by us":                 {unit: slice("outer.slice", 0, 1, 6), placed: []hostslices.Placed{{Name: "a", Path: "outer.slice/a", CPUs: cpuset.Of(1, 6)}}, want: hostslices.Confined, cpus: "0-1,6"},
		"around a unit, set by us before it moves": {unit: slice("outer.slice", 0, 1, 6), placed: []hostslices.Placed{{Name: "a", Path: "outer.slice/a", CPUs: cpuset.Of(4, 5), Had: cpuset.Of(6)}}, want: hostslices.Confined, cpus: "0-1,4-5"},
		"around a unit, set by another process":    {unit: slice("outer.slice", 0, 1, 7), placed: []hostslices.Placed{{Name: "a", Path: "outer.slice/a", CPUs: cpuset.Of(4, 5), Had: cpuset.Of(6)}}, want: hostslices.Foreign, why: "another process has set its CPUs to 0-1,7 until the next boot (systemctl set-property --runtime)"},
		"beside a unit, set by another process":    {unit: slice("user.slice", 0, 1, 6), placed: []hostslices.Placed{{Name: "a", Path: "outer.slice/a", CPUs: cpuset.Of(4, 5), Had: cpuset.Of(6)}}, want: hostslices.Foreign, why: "another process has set its CPUs to 0-1,6 until the next boot (systemctl set-property --runtime)"},
		"around pods":                              {unit: slice("kubelet.slice"), pods: []cgroup.Path{"", "kubelet.slice/kubelet-kubepods.slice"}, want: hostslices.HoldsPods, why: "pods are in it, and would be limited to its CPUs"},
		"beside pods":                              {unit: slice("user.slice"), pods: []cgroup.Path{pod}, want: hostslices.Confined, cpus: "0-1"},
	} {
		t.Run(name, func(t *testing.T) {
			units := []hostslices.Unit{c.unit, slice("system.slice")}
			all := hostslices.Decide(units, cpuset.Of(0, 1), c.placed, c.pods)
			for _, v := range all {
				if v.Name == c.unit.Name && (v.State != c.want || v.State == hostslices.Confined && v.CPUs.String() != c.cpus || v.Why != c.why) {
					t.Errorf("%+v; want %s %s, %q", v, c.want, c.cpus, c.why)
				}
			}
			rand.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
			if d := cmp.Diff(all, hostslices.Decide(units, cpuset.Of(0, 1), c.placed, c.pods)); d != "" {
				t.Errorf("depends on the order of units:\n%s", d)
			}
		})
	}
}

// TestUnitInForeignSlice checks that a unit in a slice with foreign CPUs is confined.
func TestUnitInForeignSlice(t *testing.T) {
	units := []hostslices.Unit{withFile(slice("system.slice"), 3), unit("x.service", "system.slice/x.service")}
	var got []hostslices.State
	for _, v := range hostslices.Decide(units, cpuset.Of(0), nil, nil) {
		got = append(got, v.State)
	}
	if d := cmp.Diff([]hostslices.State{hostslices.Foreign, hostslices.Confined}, got); d != "" {
		t.Error(d)
	}
}

// TestWiderSlice checks that a slice gets the CPUs of placed units in it, and their names.
func TestWiderSlice(t *testing.T) {
	placed := []hostslices.Placed{
		{Name: "b.service", Path: "system.slice/b.service", CPUs: cpuset.Of(4)},
		{Name: "a.service", Path: "system.slice/system-a.slice/a.service", CPUs: cpuset.Of(5)},
		{Name: "c.service", Path: "system.slice/c.service", CPUs: cpuset.Of(0)},
	}
	v := hostslices.Decide([]hostslices.Unit{slice("system.slice")}, cpuset.Of(0, 1), placed, nil)[0]
	want := hostslices.Verdict{Name: "system.slice", Unit: "system.slice", Path: "system.slice", State: hostslices.Confined,
		CPUs: cpuset.Of(0, 1, 4, 5), Also: cpuset.Of(4, 5), Has: []string{"a.service", "b.service"}}
	if d := cmp.Diff(want, v); d != "" {
		t.Error(d)
	}
}

// TestRemedy checks the remedy of each state.
func TestRemedy(t *testing.T) {
	part := slice("part.slice")
	part.Unit.Partition = "root"
	units := []hostslices.Unit{
		part, withFile(slice("user.slice"), 3), slice("pods.slice"), {Name: "silent.service"}, slice("system.slice"),
		unit("x.service", "system.slice/x.service"), slice("init.scope"), {Name: "gone.service", Unit: systemd.Unit{Name: "gone.service", Load: "not-found"}},
	}
	placed := []hostslices.Placed{{Name: "du.service", Path: "system.slice/du.service", CPUs: cpuset.Of(4)}}
	want := map[string]string{
		"part.slice":     "to have it confined, remove the property (systemctl revert, or systemctl set-property --runtime part.slice CPUSetPartition=)",
		"user.slice":     "to have it confined, remove the setting (systemctl revert, or systemctl set-property --runtime user.slice AllowedCPUs=)",
		"pods.slice":     "name the units in it one by one in hostSlices.units",
		"silent.service": "run as root; in a container mount the host's /run/systemd and /run/dbus",
		"gone.service":   "correct the name, or install the unit and run systemctl daemon-reload",
		"x.service":      "remove it; the CPUs of that unit limit it",
		"system.slice":   "give them a slice of their own (Slice=)",
		"init.scope":     "",
	}
	got := make(map[string]string)
	for _, v := range hostslices.Decide(units, cpuset.Of(0, 1), placed, []cgroup.Path{"pods.slice/x"}) {
		got[v.Name] = v.Remedy()
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
