package hostedpriority

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A HostedCluster holds the used fields of HyperShift's object of that kind.
type HostedCluster struct {
	Namespace, Name string
	Annotations     map[string]string
	// Had is an earlier size that is not recorded in the annotations yet, or empty.
	Had string
}

// ControlPlaneNamespace returns the namespace in which HyperShift runs the cluster's control
// plane (its manifests.HostedControlPlaneNamespace). Two clusters can have the same one: b of
// a-b, and b-b of a.
func (c HostedCluster) ControlPlaneNamespace() string {
	return c.Namespace + "-" + strings.ReplaceAll(c.Name, ".", "-")
}

// A NodePool holds the used fields of HyperShift's object of that kind,
// hypershift.openshift.io/v1beta1.
type NodePool struct {
	Namespace string `json:"-"`

	Spec struct {
		ClusterName string `json:"clusterName"`
		Replicas    *int64 `json:"replicas"`
		AutoScaling *struct {
			Min *int64 `json:"min"`
		} `json:"autoScaling"`
	} `json:"spec"`
	Status struct {
		Replicas int64 `json:"replicas"`
	} `json:"status"`
}

// ParseNodePool decodes a NodePool of a namespace. A negative number of nodes, or an
// implausibly large one, is an error.
func ParseNodePool(namespace string, data []byte) (NodePool, error) {
	p := NodePool{Namespace: namespace}
	if err := json.Unmarshal(data, &p); err != nil {
		return NodePool{}, fmt.Errorf("decode: %w", err)
	}
	if p.Spec.ClusterName == "" {
		return NodePool{}, errors.New("spec.clusterName is empty; write the name of the HostedCluster")
	}
	const most = 1_000_000
	if n := p.Nodes(); n < 0 || n > most {
		return NodePool{}, fmt.Errorf("has %d nodes; write 0 to %d replicas", n, most)
	}
	return p, nil
}

// Nodes returns the number of worker nodes that the pool counts for. For a pool of a fixed
// size it is the requested number: it is known at once, and failures of machines do not change
// it. For a pool with autoscaling it is the present number, as in HyperShift's own sizing. The
// minimum is a lower limit: while the cluster's API server is away, NodePools show too few
// nodes.
func (p NodePool) Nodes() int64 {
	switch {
	case p.Spec.AutoScaling != nil:
		n := p.Status.Replicas
		if least := p.Spec.AutoScaling.Min; least != nil {
			n = max(n, *least)
		}
		return n
	case p.Spec.Replicas != nil:
		return *p.Spec.Replicas
	}
	return 0
}

// ParseSizing returns the sizes of a ClusterSizingConfiguration.
func ParseSizing(data []byte) (Table, error) {
	var c struct {
		Spec struct {
			Sizes []SizingSize `json:"sizes"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return Table{}, fmt.Errorf("decode: %w", err)
	}
	return SizingTable(c.Spec.Sizes)
}
