package vectors_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// errNoAllocation is wrapped by checks of cases in which there is nothing to
// choose.
var errNoAllocation = errors.New("nothing to allocate")

// takeCase asks for a number of CPUs of a given set: take_packed and
// take_distributed of the kubelet's bare algorithms, allocate_cpus and
// kubelet_choice of its policy.
type takeCase struct {
	Topology     string
	Count        int
	Available    *cpuset.Set
	State        struct{ Default *cpuset.Set }
	Strategy     string
	PreferUncore bool              `json:"prefer_uncore"`
	GroupSize    int               `json:"group_size"`
	Hint         []int             `json:"numa_affinity"`
	Options      map[string]string `json:"options"`
	Expect       kubeletChoice
}

func (m machines) checkTake(raw json.RawMessage) error {
	c, err := decode[takeCase](raw)
	if err != nil {
		return err
	}
	if c.Count == 0 {
		return fmt.Errorf("0 CPUs: %w", errNoAllocation)
	}
	t, err := m.topology(c.Topology)
	if err != nil {
		return err
	}
	free := c.Available
	if free == nil {
		free = c.State.Default
	}
	if free == nil {
		return errors.New("case has neither available nor state.default")
	}
	options, err := c.options(t, *free)
	if err != nil {
		return err
	}
	return c.Expect.check(choice.Pick{
		Topology: t,
		Free:     free.Intersection(t.Online),
		Request:  allocate.Request{CPUs: c.Count, Nodes: cpuset.Of(c.Hint...), Options: options},
	})
}

// options are those with which the policy calls the algorithm as the case does.
func (c takeCase) options(t *topology.Topology, free cpuset.Set) (allocate.Options, error) {
	o, err := choice.Options(c.Options)
	o.PreferAlignCPUsByUncoreCache = o.PreferAlignCPUsByUncoreCache || c.PreferUncore
	o.DistributeCPUsAcrossCores = o.DistributeCPUsAcrossCores || c.Strategy == "spread"
	// The algorithm packs a number of CPUs that is no multiple of the group.
	if c.GroupSize > 0 && c.Count%c.GroupSize == 0 {
		o.DistributeCPUsAcrossNUMA = true
		// The policy asks for groups under full-pcpus-only. It refuses a request first if there
		// are not enough whole cores.
		o.FullPCPUsOnly = c.GroupSize > 1 && c.Count%allocate.New(t).Group() == 0 && wholeCores(t, free) >= c.Count
	}
	return o, err
}

// wholeCores is the number of CPUs in cores that are wholly free.
func wholeCores(t *topology.Topology, free cpuset.Set) int {
	n := 0
	for _, core := range t.Cores {
		if core.CPUs.IsSubsetOf(free) {
			n += core.CPUs.Len()
		}
	}
	return n
}
