package inventory_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TestKeepsReadAnnotations checks that the inventory holds no annotation that the daemon does
// not read, and that it reads known pods again if CRI-O's configuration makes one count.
func TestKeepsReadAnnotations(t *testing.T) {
	r := testnode.StartRuntime(t, testnode.RuntimeConfig{Flavor: testnode.CRIO, Events: testnode.EventsOff})
	all := map[string]string{"target.workload.openshift.io/management": "{}", "example.org/pin": "", "note": strings.Repeat("x", 200<<10)}
	for i := range 3 {
		pod, err := r.RunPod(testnode.PodSpec{UID: fmt.Sprint(i), Name: "p", QoS: "burstable", Annotations: all})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.CreateContainer(pod, testnode.ContainerSpec{Name: "app"}); err != nil {
			t.Fatal(err)
		}
	}
	filter := annotations.New(workload.Names{})
	client, err := cri.Dial(r.Endpoint(), filter.Reads)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var crio managers.CRIO
	h := hostenv.Host{Runtime: client, Annotations: filter, Driver: cgroup.DriverSystemd, CRIO: func() managers.CRIO { return crio },
		Cgroups: cgroup.New(testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7)}))}
	m := inventory.New(cgroup.DriverSystemd)
	list := func(calls int, want ...string) {
		t.Helper()
		before := r.Calls("PodSandboxStatus")
		l := m.Query(nil, false).List(t.Context(), &h)
		if l.Err != nil {
			t.Fatal(l.Err)
		}
		m.Merge(l)
		if n := r.Calls("PodSandboxStatus") - before; n != calls {
			t.Errorf("%d pods were read; want %d", n, calls)
		}
		for p := range m.Objects().Pods() {
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(p.Annotations()))); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		}
		if pods, _ := m.Objects().Len(); pods != 3 {
			t.Errorf("%d pods; want 3", pods)
		}
	}
	const target = "target.workload.openshift.io/management"
	list(3, target)
	list(0, target)
	crio.Workloads = []managers.Workload{{Name: "pin", Activation: "example.org/pin", Pins: true}}
	r.Fail("ListPodSandbox", errors.New("the runtime restarts"))
	if l := m.Query(nil, false).List(t.Context(), &h); l.Err == nil {
		t.Fatal("the listing did not fail")
	}
	r.Fail("ListPodSandbox", nil)
	list(3, "example.org/pin", target)
	list(0, "example.org/pin", target)
}
