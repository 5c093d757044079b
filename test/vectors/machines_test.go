package vectors_test

import (
	"errors"
	"fmt"

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

// kubeletChoice is a set, null where the container shares, or an error.
type kubeletChoice struct {
	CPUSet *cpuset.Set `json:"cpuset"`
	Error  *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// check compares our choice with the kubelet's.
func (k kubeletChoice) check(p choice.Pick) error {
	var err error
	switch {
	case k.Error != nil:
		err = p.Check(cpuset.Set{}, errors.New(k.Error.Code))
	case k.CPUSet != nil:
		err = p.Check(*k.CPUSet, nil)
	default:
		return errors.New("case has neither a set nor an error")
	}
	if errors.Is(err, choice.ErrFragments) || errors.Is(err, choice.ErrNotFree) || errors.Is(err, choice.ErrTrade) {
		return fmt.Errorf("%w: %w", err, errDeviation)
	}
	return err
}
