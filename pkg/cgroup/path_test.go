package cgroup_test

import (
	"path"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

const uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"

var escaped = strings.ReplaceAll(uuid, "-", "_")

func TestPath(t *testing.T) {
	for _, c := range []struct {
		path, parent cgroup.Path
		base, unit   string
	}{
		{"", "", "", ""},
		{"a", "", "a", ""},
		{"a.slice/b.scope", "a.slice", "b.scope", "b.scope"},
		{"system.slice/x.service", "system.slice", "x.service", "x.service"},
		{"a/.slice", "a", ".slice", ""},
		{"a.scope/container", "a.scope", "container", ""},
	} {
		unit, ok := c.path.Unit()
		if c.path.Parent() != c.parent || c.path.Base() != c.base || unit != c.unit || ok != (c.unit != "") {
			t.Errorf("%q: parent %q, base %q, unit %q; want %q, %q, %q",
				c.path, c.path.Parent(), c.path.Base(), unit, c.parent, c.base, c.unit)
		}
	}
}

func TestContainerPath(t *testing.T) {
	for _, c := range []struct {
		driver cgroup.Driver
		in     string
		want   cgroup.Path // empty: an error
	}{
		{cgroup.DriverSystemd, "kubepods-podu.slice:cri-containerd:x", "kubepods.slice/kubepods-podu.slice/cri-containerd-x.scope"},
		{cgroup.DriverSystemd, "kubepods-burstable-pod" + escaped + ".slice:crio:x", cgroup.Path(
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + escaped + ".slice/crio-x.scope")},
		{cgroup.DriverSystemd, "a.slice::x", "a.slice/x.scope"},
		{cgroup.DriverSystemd, "::x", "system.slice/x.scope"},
		{cgroup.DriverSystemd, "-.slice:p:x", "p-x.scope"},
		{cgroup.DriverSystemd, "a.slice:p:x.slice", "a.slice/p-x.slice"},
		{cgroup.DriverSystemd, "", ""},
		{cgroup.DriverSystemd, "/kubepods/podu/x", ""},
		{cgroup.DriverSystemd, "a.slice:p", ""},
		{cgroup.DriverSystemd, "a.slice:p:", ""},
		{cgroup.DriverSystemd, "a.slice:p:x:y", ""},
		{cgroup.DriverSystemd, "a:p:x", ""},
		{cgroup.DriverSystemd, ".slice:p:x", ""},
		{cgroup.DriverSystemd, "a--b.slice:p:x", ""},
		{cgroup.DriverSystemd, "-a.slice:p:x", ""},
		{cgroup.DriverSystemd, "../a.slice:p:x", ""},
		{cgroup.DriverSystemd, "a.slice:../..:x", ""},
		{cgroup.DriverSystemd, "a.slice:p:../x", ""},
		{cgroup.DriverSystemd, "a.slice:p:x\ny", ""},
		{cgroup.DriverSystemd, "a.slice:p:" + strings.Repeat("x", 250), ""},
		{cgroup.DriverSystemd, strings.Repeat("a-", 124) + "a.slice:p:x", ""}, // expands to more than PATH_MAX
		{cgroup.DriverCgroupfs, "/kubepods/burstable/pod" + uuid + "/x", cgroup.Path("kubepods/burstable/pod" + uuid + "/x")},
		{cgroup.DriverCgroupfs, "/k8s.io/x", "k8s.io/x"},
		{cgroup.DriverCgroupfs, "kubepods/x", ""},
		{cgroup.DriverCgroupfs, "", ""},
		{cgroup.DriverCgroupfs, "/", ""},
		{cgroup.DriverCgroupfs, "/..", ""},
		{cgroup.DriverCgroupfs, "/a/../b", ""},
		{cgroup.DriverCgroupfs, "//a", ""},
		{cgroup.DriverCgroupfs, "/a/", ""},
		{cgroup.DriverCgroupfs, "/a/" + strings.Repeat("x", 256), ""},
		{cgroup.DriverCgroupfs, "/" + strings.Repeat("x/", 4096) + "x", ""},
		{cgroup.DriverCgroupfs, "/a\x00b", ""},
	} {
		got, err := cgroup.ContainerPath(c.in, c.driver)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("ContainerPath(%.80q, %s) = %q, %v; want %q", c.in, c.driver, got, err, c.want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("ContainerPath(%.80q): error of %d bytes", c.in, len(err.Error()))
		}
	}
}

func TestPodPath(t *testing.T) {
	for _, c := range []struct {
		driver cgroup.Driver
		in     string
		want   cgroup.Path
	}{
		{cgroup.DriverSystemd, "kubepods-besteffort-podu.slice", "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu.slice"},
		{cgroup.DriverSystemd, "/kubepods.slice/kubepods-podu.slice", "kubepods.slice/kubepods-podu.slice"},
		{cgroup.DriverSystemd, "kubelet-kubepods-podu.slice", "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podu.slice"},
		{cgroup.DriverSystemd, "", ""},
		{cgroup.DriverSystemd, "/kubepods/podu", ""},
		{cgroup.DriverSystemd, "../podu.slice", ""},
		{cgroup.DriverCgroupfs, "/kubepods/podu", "kubepods/podu"},
		{cgroup.DriverCgroupfs, "kubepods-podu.slice", ""},
	} {
		got, err := cgroup.PodPath(c.in, c.driver)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("PodPath(%q, %s) = %q, %v; want %q", c.in, c.driver, got, err, c.want)
		}
	}
}

func TestPodOf(t *testing.T) {
	const static = "8a5b3c7d9e0f1a2b3c4d5e6f70819203"
	for p, want := range map[cgroup.Path][2]string{
		cgroup.Path("kubepods.slice/kubepods-pod" + escaped + ".slice"):                                                                {uuid, "Guaranteed"},
		cgroup.Path("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + escaped + ".slice/crio-x.scope/container"):      {uuid, "Burstable"},
		"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + static + ".slice/x": {static, "BestEffort"},
		"kubepods/pod" + uuid + "/x":             {uuid, "Guaranteed"},
		"kubepods/burstable/pod" + static:        {static, "Burstable"},
		"kubelet/kubepods/besteffort/pod" + uuid: {uuid, "BestEffort"},
		"":                                       {},
		"kubepods.slice":                         {},
		"kubepods.slice/kubepods-burstable.slice":             {},
		"kubepods.slice/kubepods-pod.slice":                   {},
		"kubepods/pod":                                        {},
		"kubepods/burst/pod1":                                 {},
		"burstable/pod1":                                      {},
		"user.slice/user-pod1.slice":                          {},
		"a.slice/a-mykubepods-pod1.slice":                     {},
		"kubepods.slice/kubepods-pod1-x.slice":                {},
		"system.slice/kubepods-pod1.scope":                    {},
		"kubepods/pod" + cgroup.Path(strings.Repeat("1", 65)): {},
		"kubepods/pod1\x01":                                   {},

		// The kubelet's system partition.
		"kubepods.slice/kubepods-system.slice/kubepods-system-pod1_2.slice/cri-containerd-x.scope":                   {"1-2", "Guaranteed"},
		"kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-podab.slice": {"ab", "Burstable"},
		"kubepods/system/besteffort/podab/x":                                             {"ab", "BestEffort"},
		"x.slice/x-kubepods.slice/x-kubepods-system.slice/x-kubepods-system-podab.slice": {"ab", "Guaranteed"},
		"kubepods/system/podab":                                                          {"ab", "Guaranteed"},
		"kubepods/podab":                                                                 {"ab", "Guaranteed"},
		"kubepods.slice/kubepods-podab.slice":                                            {"ab", "Guaranteed"},
		"kubepods/system":                                                                {},
		"kubepods-system.slice":                                                          {},
		"kubepods/system/burstable":                                                      {},
		"system/podab":                                                                   {},
		"system/burstable/podab":                                                         {},
		"kubepods/system/x/podab":                                                        {},
		"kubepods/burstable/system/podab":                                                {},
		"kubepods-systemx-podab.slice":                                                   {},
		"kubepods-burstable-system-podab.slice":                                          {},
	} {
		uid, qos, ok := cgroup.PodOf(p)
		if !ok && (uid != "" || qos != "") {
			t.Errorf("PodOf(%q) = %q, %q although not ok", p, uid, qos)
		}
		if uid != want[0] || qos != want[1] || ok != (want[0] != "") {
			t.Errorf("PodOf(%q) = %q, %q, %t; want %q", p, uid, qos, ok, want)
		}
	}
}

// TestSystemPartition checks the root of the system partition for pods in it and outside of it.
func TestSystemPartition(t *testing.T) {
	for p, want := range map[cgroup.Path]struct {
		root   cgroup.Path
		inside bool
	}{
		"kubepods.slice/kubepods-system.slice/kubepods-system-pod1_2.slice/cri-containerd-x.scope":                   {"kubepods.slice/kubepods-system.slice", true},
		"kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-podab.slice": {"kubepods.slice/kubepods-system.slice", true},
		"x.slice/x-kubepods.slice/x-kubepods-system.slice/x-kubepods-system-podab.slice":                             {"x.slice/x-kubepods.slice/x-kubepods-system.slice", true},
		"kubepods/system/besteffort/podab/x":                                       {"kubepods/system", true},
		"x/kubepods/system/podab":                                                  {"x/kubepods/system", true},
		"kubepods.slice/kubepods-podab.slice":                                      {"kubepods.slice/kubepods-system.slice", false},
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab.slice/x": {"kubepods.slice/kubepods-system.slice", false},
		"x.slice/x-kubepods.slice/x-kubepods-podab.slice":                          {"x.slice/x-kubepods.slice/x-kubepods-system.slice", false},
		"kubepods/besteffort/podab":                                                {"kubepods/system", false},
		"kubepods/system":                                                          {},
		"kubepods.slice/kubepods-system.slice":                                     {},
		"system.slice/x.service":                                                   {},
		"":                                                                         {},
		"kubepods-system-podab.slice":                                              {}, // a pod without the slices above it
	} {
		if root, inside := p.SystemPartition(); root != want.root || inside != want.inside {
			t.Errorf("%q.SystemPartition() = %q, %t; want %q, %t", p, root, inside, want.root, want.inside)
		}
	}
}

func FuzzContainerPath(f *testing.F) {
	for _, seed := range []string{
		"kubepods-podu.slice:cri-containerd:x", "/kubepods/podu/x", "::x", "-.slice:p:x", "a--b.slice:p:x", "/../x", "/a//b", "a.slice:p:..", "a.slice::.",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range []cgroup.Driver{cgroup.DriverSystemd, cgroup.DriverCgroupfs} {
			for _, parse := range []func(string, cgroup.Driver) (cgroup.Path, error){cgroup.ContainerPath, cgroup.PodPath} {
				p, err := parse(s, d)
				checkConfined(t, s, p, err)
			}
		}
		p, err := cgroup.ParsePath(s)
		checkConfined(t, s, p, err)
	})
}

// checkConfined checks that a path from outside is either refused or below the
// mount, in its shortest form.
func checkConfined(t *testing.T, s string, p cgroup.Path, err error) {
	t.Helper()
	switch {
	case err != nil && p != "":
		t.Errorf("%q = %q with an error; want an empty path", s, p)
	case err != nil || p == "":
	case path.Clean("/"+string(p)) != "/"+string(p), len(p) > 4095, strings.ContainsAny(string(p), "\n\x00"):
		t.Errorf("%q = %q; want a clean path", s, p)
	}
}

func FuzzPodOf(f *testing.F) {
	f.Add("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + escaped + ".slice/crio-x.scope")
	f.Add("kubepods/besteffort/pod" + uuid)
	f.Add("a-kubepods-pod_.slice")
	f.Add("kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-podab.slice/x")
	f.Add("kubepods/system/besteffort/podab/x")
	f.Add("kubepods/system/podab/system/podcd")
	f.Fuzz(func(t *testing.T, s string) {
		p := cgroup.Path(s)
		uid, qos, ok := cgroup.PodOf(p)
		root, inside := p.SystemPartition()
		if !ok {
			if uid != "" || qos != "" || root != "" || inside {
				t.Errorf("PodOf(%q) = %q, %q, and SystemPartition() = %q, %t, although it is in no pod", s, uid, qos, root, inside)
			}
			return
		}
		// A cgroup in a pod is in the same pod.
		if below, qosBelow, ok := cgroup.PodOf(p + "/x"); !ok || below != uid || qosBelow != qos {
			t.Errorf("PodOf(%q) = %q, %q, but a cgroup in it gives %q, %q, %t", s, uid, qos, below, qosBelow, ok)
		}
		// The first cgroup on the way down that is in a pod decides.
		if above, qosAbove, ok := cgroup.PodOf(p.Parent()); ok && (above != uid || qosAbove != qos) {
			t.Errorf("PodOf(%q) = %q, %q, but the cgroup above gives %q, %q", s, uid, qos, above, qosAbove)
		}
		if _, _, ok := cgroup.PodOf(root); ok {
			t.Errorf("%q.SystemPartition() = %q, which is in a pod", s, root)
		}
		if inside && !strings.HasPrefix(s, string(root)+"/") {
			t.Errorf("%q.SystemPartition() = %q, which does not contain it", s, root)
		}
		// The name that the kubelet gives to such a pod is recognised as the same.
		dir := map[string]string{"Guaranteed": "", "Burstable": "burstable/", "BestEffort": "besteffort/"}[qos]
		for _, top := range []string{"kubepods/", "kubepods/system/"} {
			again, qosAgain, ok := cgroup.PodOf(cgroup.Path(top + dir + "pod" + uid))
			if !ok || again != uid || qosAgain != qos {
				t.Errorf("PodOf(%q) = %q, %q; its name in %s gives %q, %q, %t", s, uid, qos, top, again, qosAgain, ok)
			}
		}
	})
}

// TestContainerID checks which names of cgroups contain a container id.
func TestContainerID(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	const pod, dir = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/", "kubepods/burstable/pod1/"
	for _, test := range []struct {
		path   string
		driver cgroup.Driver
		known  bool
	}{
		{pod + "cri-containerd-" + id + ".scope", cgroup.DriverSystemd, true},
		{pod + "crio-" + id + ".scope", cgroup.DriverSystemd, true},
		{pod + "crio-conmon-" + id + ".scope", cgroup.DriverSystemd, false},
		{pod + "crio-" + id, cgroup.DriverSystemd, false}, // of a dropped pause container
		{pod + "crio-" + id + ".scope/container", cgroup.DriverSystemd, false},
		{pod + "cri-containerd-" + id + ".scope/" + id + ".scope", cgroup.DriverSystemd, false},
		{pod + "cri-containerd-" + id[1:] + ".scope", cgroup.DriverSystemd, false},
		{pod[:len(pod)-1], cgroup.DriverSystemd, false},
		{"system.slice/cri-containerd-" + id + ".scope", cgroup.DriverSystemd, false},
		{dir + id, cgroup.DriverCgroupfs, true},
		{dir + "crio-" + id, cgroup.DriverCgroupfs, true},
		{dir + "crio-conmon-" + id, cgroup.DriverCgroupfs, false},
		{dir + id + ".scope", cgroup.DriverCgroupfs, false},
		{dir[:len(dir)-1], cgroup.DriverCgroupfs, false},
	} {
		want := ""
		if test.known {
			want = id
		}
		if got := cgroup.Path(test.path).ContainerID(test.driver); got != want {
			t.Errorf("the id in %s with %s is %q; want %q", test.path, test.driver, got, want)
		}
	}
}
