package daemon

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestNobodyLeftBehind: a thread that the kernel has left on CPUs that its cgroup does
// not have any more is gone from them before they are given to an owner.
func TestNobodyLeftBehind(t *testing.T) {
	n := newNodeOn(t, testnode.CgroupConfig{LeaveBehind: 1})
	n.yaml = carvedYAML
	// They run already: what is given to owners is given by the daemon.
	var shared, owners []string
	for i := range 3 {
		shared = append(shared, n.container(n.pod(fmt.Sprint("s", i), "default", "burstable", 0, nil), "app", whole(0)))
	}
	for i := range 2 {
		owners = append(owners, n.container(n.pod(fmt.Sprint("e", i), "default", "guaranteed", 2, nil), "app", whole(2)))
	}
	granted := 0
	n.tree.Intercept(func(w testnode.CgroupWrite) error {
		for _, owner := range owners {
			if w.Name != path.Join(n.runtime.Cgroup(owner), cgroup.FileCPUs) {
				continue
			}
			granted++
			cpus, err := cpuset.Parse(w.Value)
			if err != nil {
				t.Error(err)
			}
			for _, id := range shared {
				if on := n.threads(id); on.Overlaps(cpus) {
					t.Errorf("%s is given to an owner while a shared thread may run on %s", cpus, on)
				}
			}
		}
		return nil
	})
	r := n.start()
	for _, id := range append(owners, shared...) {
		n.eventually("nobody left behind", func() bool {
			has := n.state(id).Effective
			return has.Len() == 2 && n.threads(id).IsSubsetOf(has)
		})
	}
	n.tree.Intercept(nil)
	r.quiet()
	if granted < len(owners) {
		t.Errorf("the CPUs of %d of %d owners were written", granted, len(owners))
	}
	if v := r.loop.snapshot.Load(); v.Gathered < uint64(len(owners)+len(shared)) || v.Stuck != 0 {
		t.Errorf("%d threads brought back, %d stuck", v.Gathered, v.Stuck)
	}
}

// threads are the CPUs that a container's threads may run on.
func (n *node) threads(id string) cpuset.Set {
	n.t.Helper()
	data, err := n.tree.ReadFile(path.Join(n.runtime.Cgroup(id), "cgroup.threads"), 1<<12)
	if err != nil {
		n.t.Error(err)
	}
	var all cpuset.Set
	for field := range strings.FieldsSeq(string(data)) {
		tid, err := strconv.Atoi(field)
		if err != nil {
			n.t.Error(err)
		}
		cpus, err := n.tree.Affinity(tid)
		if err != nil {
			n.t.Error(err)
		}
		all = all.Union(cpus)
	}
	return all
}
