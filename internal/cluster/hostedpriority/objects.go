package hostedpriority

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
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
	if p.Spec.AutoScaling != nil {
		return max(p.Status.Replicas, ptr.Deref(p.Spec.AutoScaling.Min, p.Status.Replicas))
	}
	return ptr.Deref(p.Spec.Replicas, 0)
}

// A Role is the purpose of a pod of a hosted control plane. HyperShift has a priority class
// for each role.
type Role int

// The roles, in the order of their priority.
const (
	ControlPlane Role = iota
	APICritical       // API servers and the way to them
	Etcd
)

// Roles returns all roles, in the order of their priority.
func Roles() []Role { return []Role{ControlPlane, APICritical, Etcd} }

// String returns the role as in the names of classes and annotations.
func (r Role) String() string { return [...]string{"control-plane", "api-critical", "etcd"}[r] }

// BaseClass returns the priority class that HyperShift gives to pods of the role. The class
// hypershift-operator belongs to no role and is never replaced.
func (r Role) BaseClass() string { return "hypershift-" + r.String() }

// OverrideKey returns HyperShift's annotation of a HostedCluster with the class of the role.
func (r Role) OverrideKey() string {
	return "hypershift.openshift.io/" + r.String() + "-priority-class"
}

// ClassKey returns the annotation of a HostedCluster that records the class for pods of the
// role.
func (r Role) ClassKey() string { return domain + r.String() + "-class" }

// Annotations of a HostedCluster that this package reads and writes.
const (
	domain = "hosted-priority.cpupoold.io/"

	// OptOutKey with the value "true" keeps the classes of the cluster's pods.
	OptOutKey = domain + "opt-out"
	// DedicatedKey with the value "true" gives the cluster the dedicated size.
	DedicatedKey = domain + "dedicated"
	// SizeKey is the chosen size. The package writes it and the keys of classes.
	SizeKey = domain + "size"
)

// Written returns the annotations that the package writes.
func Written() []string {
	keys := []string{SizeKey}
	for _, r := range Roles() {
		keys = append(keys, r.ClassKey())
	}
	return keys
}

// RoleOf returns the role of pods with a priority class of HyperShift, and false for other
// classes.
func RoleOf(class string) (Role, bool) {
	for _, r := range Roles() {
		if class == r.BaseClass() {
			return r, true
		}
	}
	return 0, false
}
