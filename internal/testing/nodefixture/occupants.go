package nodefixture

import (
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Occupants returns the effective CPUs of all containers and units with a cpuset in the kernel.
// Subsets of guaranteed count as exclusive.
func (n *Node) Occupants(guaranteed cpuset.Set) []invariants.Occupant {
	var occupants []invariants.Occupant
	fs := cgroup.New(n.Tree)
	_ = walk.Cgroups(fs, "", func(p cgroup.Path) error {
		st, err := fs.Read(p)
		if err == nil && st.Populated && strings.HasSuffix(string(p), ".scope") && !st.CPUs.IsEmpty() {
			occupants = append(occupants, invariants.Occupant{Name: string(p), CPUs: st.Effective,
				Exclusive: st.CPUs.IsSubsetOf(guaranteed)})
		}
		return nil
	})
	return occupants
}

// CheckOccupants checks that exclusive CPUs, which are subsets of 4-7, belong to one cgroup.
func (n *Node) CheckOccupants() {
	n.T.Helper()
	for _, err := range invariants.CheckOccupants(n.Occupants(cpuset.Range(4, 7))) {
		n.T.Errorf("%v\n%s", err, n.Dump())
	}
}

// CheckAssigned checks that the CPUs of each assignment in the journal belong to one
// cgroup, or to cgroups of one pod.
func (n *Node) CheckAssigned() {
	n.T.Helper()
	assigned, ofPod := make(map[string]bool), make(map[string]bool)
	for _, a := range n.Journal().Assignments {
		assigned[a.CPUs.String()] = true
		ofPod[a.CPUs.String()] = a.Container == "" || a.Claim != "" // containers of the pod share them
	}
	occupants := n.Occupants(cpuset.Set{})
	for i := range occupants {
		list := occupants[i].CPUs.String()
		if occupants[i].Exclusive = assigned[list]; ofPod[list] {
			occupants[i].Group = path.Dir(occupants[i].Name)
		}
	}
	for _, err := range invariants.CheckOccupants(occupants) {
		n.T.Errorf("%v\n%s", err, n.Dump())
	}
}
