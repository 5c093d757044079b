package treewatch_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestSet checks which cgroups are watched for targets and pods.
func TestSet(t *testing.T) {
	const pod = cgroup.Path("custom.slice/custom-kubepods.slice/custom-kubepods-burstable.slice/custom-kubepods-burstable-podu.slice")
	var s treewatch.Set
	s.Update([]cgroup.Target{{Path: pod + "/cri-containerd-c.scope", Container: "c"}, {Path: "system.slice/du.service", Unit: "du.service"}}, []cgroup.Path{pod})
	if d := cmp.Diff([]cgroup.Path{pod + "/cri-containerd-c.scope", pod + "/cri-containerd-c.scope/container", "system.slice/du.service", "custom.slice/custom-kubepods.slice/custom-kubepods-system.slice"}, s.Files()); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	want := []cgroup.Path{
		"kubepods.slice", "kubepods.slice/kubepods-burstable.slice", "kubepods.slice/kubepods-besteffort.slice",
		"kubepods", "kubepods/burstable", "kubepods/besteffort",
		"kubelet.slice/kubelet-kubepods.slice", "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice", "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice",
		"kubelet/kubepods", "kubelet/kubepods/burstable", "kubelet/kubepods/besteffort",
		"custom.slice/custom-kubepods.slice", "custom.slice/custom-kubepods.slice/custom-kubepods-burstable.slice", "custom.slice/custom-kubepods.slice/custom-kubepods-besteffort.slice",
		pod,
	}
	for _, system := range []cgroup.Path{"kubepods.slice/kubepods-system", "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-system", "custom.slice/custom-kubepods.slice/custom-kubepods-system"} {
		of := system + ".slice/" + cgroup.Path(system.Base())
		want = append(want, system+".slice", of+"-burstable.slice", of+"-besteffort.slice")
	}
	for _, system := range []cgroup.Path{"kubepods/system", "kubelet/kubepods/system"} {
		want = append(want, system, system+"/burstable", system+"/besteffort")
	}
	slices.Sort(want)
	if d := cmp.Diff(want, s.Parents()); d != "" {
		t.Errorf("parents (-want +got):\n%s", d)
	}
	s.Update(nil, nil)
	if len(s.Files()) > 0 || len(s.Parents()) != len(want)-7 {
		t.Errorf("without targets and pods: %v, %v", s.Files(), s.Parents())
	}
}

// TestSetWithoutPods checks that the cgroups of the kubelet are watched on a node without pods.
func TestSetWithoutPods(t *testing.T) {
	var s treewatch.Set
	s.Update(nil, nil)
	if !slices.Contains(s.Parents(), "kubepods.slice") || !slices.Contains(s.Parents(), "kubepods") {
		t.Errorf("parents without pods: %v", s.Parents())
	}
}
