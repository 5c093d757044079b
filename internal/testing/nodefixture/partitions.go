package nodefixture

import (
	"errors"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// AwaitPartition waits until a container's cgroup is a partition of a type with all its
// CPUs.
func (n *Node) AwaitPartition(id string, typ cgroup.PartitionType) {
	n.T.Helper()
	n.Eventually("partition "+string(typ), func() bool {
		st := n.State(id)
		return st.Partition.Is(typ) && st.Effective.Equal(st.CPUs)
	})
}

// RootCPUs returns the effective CPUs of the root cgroup.
func (n *Node) RootCPUs() cpuset.Set {
	st, err := cgroup.New(n.Tree).Read("")
	if err != nil {
		n.T.Fatal(err)
	}
	return st.Effective
}

// ExclusiveLists returns each cpuset.cpus.exclusive that is not empty, by cgroup.
func (n *Node) ExclusiveLists() map[cgroup.Path]string {
	all := make(map[cgroup.Path]string)
	fs := cgroup.New(n.Tree)
	_ = walk.Cgroups(fs, "", func(p cgroup.Path) error {
		if b, err := fs.ReadFile(p, cgroup.FileExclusive); err == nil && strings.TrimSpace(string(b)) != "" {
			all[p] = strings.TrimSpace(string(b))
		}
		return nil
	})
	return all
}

// Parked returns the kernel's values for the parking cgroup, and whether there is one.
func (n *Node) Parked() (st cgroup.State, there bool) {
	st, err := cgroup.New(n.Tree).Read(cgroup.Parking)
	if err != nil && !errors.Is(err, cgroup.ErrGone) {
		n.T.Fatal(err)
	}
	return st, err == nil
}

// AwaitNoParking waits until no CPUs are parked. kept is whether the empty parking cgroup
// must remain.
func (n *Node) AwaitNoParking(kept bool) {
	n.T.Helper()
	n.Eventually("nothing parked", func() bool {
		st, there := n.Parked()
		_, top := cgroup.New(n.Tree).Read(cgroup.ParkingTop)
		return there == kept && (top == nil) == kept && st.Partition.Is(cgroup.MemberPartition) && n.ExclusiveLists()[cgroup.ParkingTop] == ""
	})
}

// CheckKernel checks that the fake kernel has lost no CPUs and has not crashed.
func (n *Node) CheckKernel() {
	n.T.Helper()
	if n.Tree.Crashed() || !n.Tree.Leaked().IsEmpty() {
		n.T.Errorf("crashed: %t, leaked: %s", n.Tree.Crashed(), n.Tree.Leaked())
	}
}
