package claimuse

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const (
	// codeVariable is the code of containers with a variable that is not believed.
	codeVariable pools.Code = "ClaimVariable"
	// codeMissing is the code of containers that exist and have a device of a claim that they cannot use.
	codeMissing pools.Code = "ClaimMissing"
)

// Problems returns a problem for each container with a reference that is not believed, or to a claim
// that the container cannot use.
func (n *Node) Problems(m *inventory.Objects) (all []pools.Problem) {
	for e := range m.Containers() {
		if e.Container.Claims.IsEmpty() || e.Container.State == cri.Exited || e.IsPlacedElsewhere() {
			continue
		}
		p := pools.Problem{Container: e.Container.Name}
		if pod := e.Pod(); pod != nil {
			p.PodUID, p.Pod = pod.UID, pod.Name()
		}
		switch _, unbelieved, err := n.Find(e.Container.Claims, p.PodUID); {
		case err != nil:
			p.Reason = pools.Reason{Code: codeMissing, Text: err.Error()}
		case unbelieved != "":
			p.Reason = pools.Reason{Code: codeVariable, Text: unbelieved}
		default:
			continue
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b pools.Problem) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Text, b.Text))
	})
	return all
}
