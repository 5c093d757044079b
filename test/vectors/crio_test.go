package vectors_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/cpupoold/cpupoold/internal/plugin/migrate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// crioResources are the values that CRI-O's table and annotations have.
type crioResources struct {
	Shares int64  `json:"cpushares"`
	Quota  int64  `json:"cpuquota"`
	Period int64  `json:"cpuperiod"`
	Limit  int64  `json:"cpulimit"`
	CPUs   string `json:"cpuset"`
}

// crioValues are the values of an OCI spec; 0 and "" are not set.
type crioValues struct {
	Shares, Quota, Period int64
	CPUs                  string `json:"cpuset"`
	Error                 *struct{ Code string }
}

// crioCase is a container of a pod with annotations, and CRI-O's result with a table of
// workloads.
type crioCase struct {
	Workloads map[string]struct {
		Activation string        `json:"activation_annotation"`
		Resources  crioResources `json:"resources"`
	}
	Container   string
	Annotations map[string]string `json:"sandbox_annotations"`
	From        crioValues        `json:"from_cri"`
	Expect      crioValues
}

const (
	crioMachine = 64 // CPUs
	crioTarget  = "target.workload.openshift.io/"
)

// checkApply has the planner place the container where each workload of the table is a
// management pool.
func checkApply(raw json.RawMessage) error {
	c, err := decode[crioCase](raw)
	if err != nil {
		return err
	}
	all := cpuset.Range(0, crioMachine-1)
	in := pools.Input{Pods: []pools.Pod{{
		UID: "u", Namespace: "ns", Name: "p", QoS: pools.QoSBurstable, Annotations: c.Annotations,
		Containers: []pools.Container{{ID: "c", Name: c.Container, State: pools.Running}},
	}}}
	management := cpuset.Set{}
	for name, w := range c.Workloads {
		typ, ours := strings.CutPrefix(w.Activation, crioTarget)
		switch {
		case !ours:
			return fmt.Errorf(tableNames+": %s: %w", name, errDeviation)
		case w.Resources != (crioResources{CPUs: w.Resources.CPUs}):
			return fmt.Errorf(tableValues+": %s: %w", name, errDeviation)
		}
		cpus, err := cpuset.Parse(cmp.Or(w.Resources.CPUs, all.String()))
		if err != nil {
			return err
		}
		management = management.Union(cpus)
		in.Pools.Partitions = append(in.Pools.Partitions, pools.Partition{Type: typ, CPUs: cpus, Namespaces: []string{"ns"}})
	}
	if in.Pools.Shared = all.Difference(management); in.Pools.Shared.IsEmpty() {
		in.Pools.Shared = all
	}
	return c.compare(pools.Build(in), in, all)
}

// compare compares the container's values. A deviation counts only if the container runs in
// the expected pool: the pool of its type whatever its values are, or the shared pool if
// its request does not count.
func (c *crioCase) compare(plan pools.Plan, in pools.Input, all cpuset.Set) error {
	at := plan.Pods[0].Containers[0]
	for _, p := range plan.Problems {
		switch p.Code {
		case pools.CodeTargetInvalid:
			if at.Pool != pools.Shared || !at.CPUs.Equal(in.Pools.Shared) {
				return fmt.Errorf("it is in pool %s with CPUs %s; want the shared one with %s", at.Pool, at.CPUs, in.Pools.Shared)
			}
			return fmt.Errorf(targetForm+": %s: %w", p.Text, errDeviation)
		case pools.CodeResourcesInvalid:
			for _, partition := range in.Pools.Partitions {
				if _, asks := c.Annotations[crioTarget+partition.Type]; asks && (at.Pool != pools.Management || !at.CPUs.Equal(partition.CPUs)) {
					return fmt.Errorf("it is in pool %s with CPUs %s; want that of %s with %s", at.Pool, at.CPUs, partition.Type, partition.CPUs)
				}
			}
			return fmt.Errorf(reportedOnly+": %s: %w", p.Text, errDeviation)
		}
	}
	if c.Expect.Error != nil {
		return errors.New("CRI-O refuses it, and the plan has no problem")
	}
	got := c.From
	got.Shares = cmp.Or(int64(at.Shares), got.Shares)
	if at.Limit != 0 {
		got.Quota = cgroup.MilliCPUToQuota(at.Limit, cmp.Or(got.Period, 100_000))
	}
	if at.Pool == pools.Management && !at.CPUs.Equal(all) { // all are as good as none
		got.CPUs = at.CPUs.String()
	}
	return compare("the container's values", got, c.Expect)
}

// checkTable imports one table into CRI-O's file, and checks that exactly the tables that
// CRI-O refuses are refused.
func checkTable(raw json.RawMessage) error {
	c, err := decode[struct {
		Workload map[string]any
		Expect   struct{ Error *struct{ Code string } }
	}](raw)
	if err != nil {
		return err
	}
	numbersAsIntegers(c.Workload)
	data, err := toml.Marshal(map[string]any{"crio": map[string]any{"runtime": map[string]any{"workloads": map[string]any{"w": c.Workload}}}})
	if err != nil {
		return err
	}
	_, err = migrate.Import([]migrate.File{{Name: "99.conf", Data: data}}, migrate.Options{})
	if (err != nil) != (c.Expect.Error != nil) {
		return fmt.Errorf("import: %w; want %v", cmp.Or(err, errors.New("no error")), c.Expect.Error)
	}
	return nil
}

// numbersAsIntegers converts JSON's numbers to the types of TOML's tables.
func numbersAsIntegers(m map[string]any) {
	for key, value := range m {
		switch v := value.(type) {
		case float64:
			m[key] = int64(v)
		case map[string]any:
			numbersAsIntegers(v)
		}
	}
}
