package config

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

// Stance is the reaction to another manager of CPUs.
type Stance string

// With StanceRefuse the daemon does not start next to the other manager. With StanceStandDown it
// does not place the containers of the other manager. With both, it does the same if the other
// manager appears later.
const (
	StanceRefuse    Stance = "refuse"
	StanceStandDown Stance = "standDown"
)

// OtherManagers (otherManagers) selects the reaction to other managers of CPUs on the
// node. A single value in the file stands for all of them.
type OtherManagers struct {
	// CRIOWorkloads (crioWorkloads) is about tables [crio.runtime.workloads] that set
	// CPUs or shares. Default: refuse.
	CRIOWorkloads Stance
	// CRIOHighPerformance (crioHighPerformance) is about runtime handlers of CRI-O whose
	// pods may request no load balancing, or shared CPUs. Default: standDown.
	CRIOHighPerformance Stance
	// NRIPlugins (nriPlugins) is about other plugins of NRI that set the cpuset of
	// containers. Default: refuse.
	NRIPlugins Stance
}

// SystemPartition (systemPartition) selects what the daemon does with pods in the kubelet's
// system partition (KEP-5894).
type SystemPartition string

// With SystemPartitionAuto the daemon places these pods as all others, unless the partition
// has a cpuset. Otherwise, and always with SystemPartitionStandDown, it does not place them.
const (
	SystemPartitionAuto      SystemPartition = "auto"
	SystemPartitionStandDown SystemPartition = "standDown"
)

// errSystemPartition refuses values of systemPartition that later versions may know.
var errSystemPartition = errors.New(`this version supports "auto" and "standDown" only: joining a management pool and refusing to start need a kubelet with a system partition, which Kubernetes 1.37 lacks`)

func (d *decoder) systemPartition(key string, n *yaml.Node, to *SystemPartition) {
	if deref(n).Kind == yaml.MappingNode { // join: TYPE
		d.fail(key, "", errSystemPartition.Error())
		return
	}
	d.scalar(func(s string) error {
		if s == "refuse" || s == "join" {
			return errSystemPartition
		}
		return setOneOf(to, s, SystemPartitionAuto, SystemPartitionStandDown)
	})(key, n)
}

func (d *decoder) otherManagers(key string, n *yaml.Node, to *OtherManagers) {
	stance := func(to ...*Stance) func(string, *yaml.Node) {
		return d.scalar(func(s string) error {
			for _, one := range to {
				if err := setOneOf(one, s, StanceRefuse, StanceStandDown); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if n.Kind == yaml.ScalarNode {
		stance(&to.CRIOWorkloads, &to.CRIOHighPerformance, &to.NRIPlugins)(key, n)
		return
	}
	d.mapping(key, n, []field{
		{"crioWorkloads", stance(&to.CRIOWorkloads)},
		{"crioHighPerformance", stance(&to.CRIOHighPerformance)},
		{"nriPlugins", stance(&to.NRIPlugins)},
	})
}
