package vectors_test

import (
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// machines are the topologies of a vector file, which its cases name.
type machines map[string]struct {
	CPUs choice.Table `json:"cpus"`
}

// topology builds the machine with the given name.
func (m machines) topology(name string) (*topology.Topology, error) {
	machine, ok := m[name]
	if !ok {
		return nil, fmt.Errorf("case names topology %q, which its file does not have", name)
	}
	return machine.CPUs.Topology()
}

// pick is one request and what the kubelet did with it.
type pick struct {
	topology *topology.Topology
	free     cpuset.Set
	request  allocate.Request
	want     kubeletChoice
}

// kubeletChoice is a set, null where the container shares, or an error.
type kubeletChoice struct {
	CPUSet *cpuset.Set `json:"cpuset"`
	Error  *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// take is our answer.
func (p pick) take() (cpuset.Set, error) {
	return allocate.New(p.topology).Supply(p.free).Take(p.request)
}

// check is nil when ours is refused as the kubelet's is, and else no worse.
func (p pick) check() error {
	got, err := p.take()
	var refusal *allocate.Refusal
	switch {
	case err != nil && !errors.As(err, &refusal):
		return err
	case p.want.Error != nil && err == nil:
		return fmt.Errorf("takes %s; the kubelet refuses: %s", got, p.want.Error.Code)
	case p.want.Error != nil:
		return nil
	case p.want.CPUSet == nil:
		return errors.New("case has neither a set nor an error")
	}
	theirs := *p.want.CPUSet
	if theirs.Len() != p.request.CPUs || !theirs.IsSubsetOf(p.free) {
		return fmt.Errorf("case is misread: %d CPUs of %s cannot be %s", p.request.CPUs, p.free, theirs)
	}
	if err != nil {
		return p.refused(refusal, theirs)
	}
	if got.Len() != p.request.CPUs || !got.IsSubsetOf(p.free) {
		return fmt.Errorf("takes %s; want %d CPUs of %s", got, p.request.CPUs, p.free)
	}
	ours := choice.Count(p.topology, got)
	if worse := choice.Worse(p.request.Options, ours, choice.Count(p.topology, theirs)); len(worse) > 0 {
		return fmt.Errorf("takes %s where the kubelet takes %s: %q", got, theirs, worse)
	}
	return p.checkHint(got, theirs)
}

// refused decides about a refusal of ours where the kubelet takes theirs.
func (p pick) refused(refusal *allocate.Refusal, theirs cpuset.Set) error {
	return fmt.Errorf("refuses, where the kubelet takes %s: %w", theirs, refusal)
}

// checkHint is nil when ours has at least as many CPUs on the hinted nodes.
func (p pick) checkHint(ours, theirs cpuset.Set) error {
	if p.request.Nodes.IsEmpty() {
		return nil
	}
	hinted := cpuset.Set{}
	for _, node := range p.topology.Nodes {
		if p.request.Nodes.Contains(node.ID) {
			hinted = hinted.Union(node.CPUs)
		}
	}
	a, b := ours.Intersection(hinted).Len(), theirs.Intersection(hinted).Len()
	if a < b {
		return fmt.Errorf("takes %s, of which %d CPUs are on nodes %s; %d of the kubelet's %s are", ours, a, p.request.Nodes, b, theirs)
	}
	return nil
}
