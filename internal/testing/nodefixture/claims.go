package nodefixture

import (
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Claims returns the effective CPUs of all containers and units whose cpuset is written.
// Subsets of guaranteed count as exclusive.
func (n *Node) Claims(guaranteed cpuset.Set) []invariants.Claim {
	var claims []invariants.Claim
	fs := cgroup.New(n.Tree)
	_ = testnode.Walk(fs, "", func(p cgroup.Path) error {
		st, err := fs.Read(p)
		if err == nil && st.Populated && strings.HasSuffix(string(p), ".scope") && !st.CPUs.IsEmpty() {
			claims = append(claims, invariants.Claim{Name: string(p), CPUs: st.Effective,
				Exclusive: st.CPUs.IsSubsetOf(guaranteed)})
		}
		return nil
	})
	return claims
}

// CheckClaims checks that exclusive CPUs, which are subsets of 4-7, belong to one cgroup.
func (n *Node) CheckClaims() {
	n.T.Helper()
	for _, err := range invariants.CheckClaims(n.Claims(cpuset.Range(4, 7))) {
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
	claims := n.Claims(cpuset.Set{})
	for i := range claims {
		list := claims[i].CPUs.String()
		if claims[i].Exclusive = assigned[list]; ofPod[list] {
			claims[i].Group = path.Dir(claims[i].Name)
		}
	}
	for _, err := range invariants.CheckClaims(claims) {
		n.T.Errorf("%v\n%s", err, n.Dump())
	}
}
