package vectors_test

import (
	"encoding/json"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// nodeCase holds the CPUs of a node, and the resources that it must advertise.
type nodeCase struct {
	MachineCPUs       int    `json:"machine_cpus"`
	PinningFileExists bool   `json:"pinning_file_exists"`
	Isolated          string `json:"isolated"`
	Shared            string `json:"shared"`
	Expect            map[string]json.Number
}

func (c nodeCase) online() cpuset.Set { return cpuset.Range(0, c.MachineCPUs-1) }

// advertised are the resources, as the Node has them.
func advertised(l capacity.Layout) map[string]json.Number {
	all := make(map[string]json.Number)
	for _, a := range nodestatus.Advertise(l.Pools(workload.Names{}), nil, nil) {
		all[a.Name] = json.Number(fmt.Sprint(a.Milli))
	}
	return all
}

// checkNodeCapacity checks the management pool only, because OpenShift's kubelet knows
// no other pool.
func checkNodeCapacity(raw json.RawMessage) error {
	c, err := decode[nodeCase](raw)
	if err != nil {
		return err
	}
	l := capacity.Layout{Online: c.online(), Shared: c.online()}
	if c.PinningFileExists {
		l.Types = []string{"management"}
	}
	got := advertised(l)
	delete(got, workload.Names{}.SharedResource())
	if c.Expect == nil {
		c.Expect = map[string]json.Number{}
	}
	if !c.PinningFileExists && len(got) == 0 && len(c.Expect) > 0 {
		return fmt.Errorf(withdrawn+": %w", errDeviation)
	}
	return compare("node capacity", got, c.Expect)
}

// checkNodeResources checks the resources of the shared and the guaranteed pool.
func checkNodeResources(raw json.RawMessage) error {
	c, err := decode[nodeCase](raw)
	if err != nil {
		return err
	}
	l := capacity.Layout{Online: c.online()}
	if l.Guaranteed, err = cpuset.Parse(c.Isolated); err != nil {
		return fmt.Errorf("isolated: %w", err)
	}
	if l.Shared, err = cpuset.Parse(c.Shared); err != nil {
		return fmt.Errorf("shared: %w", err)
	}
	l.HasGuaranteed = !l.Guaranteed.IsEmpty()
	got, name := advertised(l), workload.Names{}.GuaranteedResource()
	if _, there := got[name]; !there && c.Expect[name] == "0" {
		delete(c.Expect, name)
		if !cmp.Equal(got, c.Expect) {
			return compare("node resources", got, c.Expect)
		}
		return fmt.Errorf("%s: none instead of 0: %w", name, errDeviation)
	}
	return compare("node resources", got, c.Expect)
}
