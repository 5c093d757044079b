package simulate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Fleet returns the objects with the pods of all nodes, saved ones first, in the order of their
// creation. Of the pods of a DaemonSet it keeps one. It leaves out static pods, because they
// belong to their node.
func (o *Objects) Fleet() (*Objects, error) {
	all := *o
	all.places, all.Notes = nil, nil
	all.dropOwned()
	all.drop("static pods are left out, because they belong to their node", func(p Pod) bool { return p.saved && p.Spec.Annotations[mirrorKey] != "" })
	daemons := make(map[string]bool)
	all.Pods = slices.DeleteFunc(all.Pods, func(p Pod) bool {
		again := daemons[p.PerNode]
		daemons[p.PerNode] = p.PerNode != ""
		return again
	})
	for i := range all.Pods {
		if p := &all.Pods[i]; p.PerNode != "" {
			p.Spec = withoutNodeName(p.Spec)
		}
	}
	if err := all.arrange(); err != nil {
		return nil, err
	}
	return &all, nil
}

// withoutNodeName returns the pod of a DaemonSet without the node affinity by which the
// controller of DaemonSets chooses the node of each pod.
func withoutNodeName(pod *corev1.Pod) *corev1.Pod {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return pod
	}
	pod = pod.DeepCopy()
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	isBare := false
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchFields = slices.DeleteFunc(term.MatchFields, func(r corev1.NodeSelectorRequirement) bool { return r.Key == "metadata.name" })
		isBare = isBare || len(term.MatchFields)+len(term.MatchExpressions) == 0
	}
	if isBare { // the term selects all nodes
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
	return pod
}

// Placed is the outcome of [Node.Place].
type Placed struct {
	// Owned are the exclusive CPUs of the pod. Had are the exclusive CPUs that it has had until all
	// its containers have started.
	Owned, Had cpuset.Set
	// Refused is the reason why a container does not have its exclusive CPUs, or has too few.
	// The pod is not on the node then.
	Refused *Refusal
}

// Place adds a pod if all its containers get their exclusive CPUs, each at its start.
func (n *Node) Place(p *Pod) (Placed, error) {
	if there, _ := n.find(p.Name()); there != nil {
		return Placed{}, fmt.Errorf("pod %q is on the node already", p.Name())
	}
	n.refusals = refusals{}
	placed := Placed{Had: n.begin(p), Owned: n.ownedBy(p.UID)}
	n.refusals.settle(n)
	lacks := func(r Refusal) bool {
		return r.Pod == p.Name() && (r.Code == string(pools.CodeRefused) || r.Code == string(pools.CodeShort))
	}
	if i := slices.IndexFunc(n.refusals.all, lacks); i >= 0 {
		placed = Placed{Refused: &n.refusals.all[i]}
		if err := n.Remove(p.Name()); err != nil {
			return Placed{}, err
		}
	}
	n.refusals = refusals{}
	return placed, nil
}

// Allocatable returns the number of CPUs that containers can still own.
func (n *Node) Allocatable() int { return n.plan.Allocatable(n.input.Pools) }
