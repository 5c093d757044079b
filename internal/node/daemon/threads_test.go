package daemon

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestNobodyLeftBehind checks that threads which the kernel has left on former CPUs of their
// cgroup leave before an owner gets these CPUs.
func TestNobodyLeftBehind(t *testing.T) {
	n := newNodeOn(t, testnode.CgroupConfig{LeaveBehind: 1})
	n.YAML = nodefixture.CarvedYAML
	// These containers run already, so that the daemon allocates the CPUs.
	var shared, owners []string
	for i := range 3 {
		shared = append(shared, n.RunContainer(n.RunPod(fmt.Sprint("s", i), "default", "burstable", 0, nil), "app", nodefixture.WholeCPUs(0)))
	}
	for i := range 2 {
		owners = append(owners, n.RunContainer(n.RunPod(fmt.Sprint("e", i), "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2)))
	}
	granted := 0
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		for _, owner := range owners {
			if w.Name != path.Join(n.Runtime.Cgroup(owner), cgroup.FileCPUs) {
				continue
			}
			granted++
			cpus, err := cpuset.Parse(w.Value)
			if err != nil {
				t.Error(err)
			}
			for _, id := range shared {
				if on := n.ThreadCPUs(id); on.Overlaps(cpus) {
					t.Errorf("%s is given to an owner while a shared thread may run on %s", cpus, on)
				}
			}
		}
		return nil
	})
	r := n.start()
	for _, id := range append(owners, shared...) {
		n.Eventually("nobody left behind", func() bool {
			has := n.State(id).Effective
			return has.Len() == 2 && n.ThreadCPUs(id).IsSubsetOf(has)
		})
	}
	n.Tree.Intercept(nil)
	r.quiet()
	if granted < len(owners) {
		t.Errorf("the CPUs of %d of %d owners were written", granted, len(owners))
	}
	if v := r.loop.publisher.Metrics(); v.Gathered < uint64(len(owners)+len(shared)) || v.Stuck != 0 {
		t.Errorf("%d threads brought back, %d stuck", v.Gathered, v.Stuck)
	}
}

// TestStuckThreads checks that threads which cannot be moved are a problem with a remedy, and a
// fault while they exist.
func TestStuckThreads(t *testing.T) {
	n := newNodeOn(t, testnode.CgroupConfig{LeaveBehind: 1})
	id := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", nodefixture.WholeCPUs(0))
	n.Tree.RefuseUnbind(syscall.EPERM)
	r := n.start()
	stuck := func() bool {
		v := r.loop.publisher.Metrics()
		return v != nil && v.Stuck > 0 && v.Problems["StuckThreads"] > 0 && v.LastSuccess.IsZero()
	}
	n.Eventually("threads are stuck", stuck)
	if logs := n.Logged("problem appeared"); len(logs) == 0 || !strings.Contains(fmt.Sprint(logs), "CAP_SYS_NICE") {
		t.Errorf("log of the problem: %v", logs)
	}
	n.Tree.RefuseUnbind(nil)
	r.quiet()
	if v := r.loop.publisher.Metrics(); v.Stuck != 0 || v.Problems["StuckThreads"] != 0 {
		t.Errorf("%d stuck, problems %v", v.Stuck, v.Problems)
	}
	if on, has := n.ThreadCPUs(id), n.State(id).Effective; !on.IsSubsetOf(has) {
		t.Errorf("threads may run on %s; their cgroup has %s", on, has)
	}
}
