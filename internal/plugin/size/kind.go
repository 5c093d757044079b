package size

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// mostPods is the default of the kubelet's maxPods.
const mostPods = 110

// kind is a kind of node with its empty node.
type kind struct {
	*Kind
	node  *corev1.Node // labels and taints
	pools pools.Pools
	// empty are the allocatable amounts without the requests of DaemonSets.
	empty amounts
	// daemons are the pods of DaemonSets on each node, and owned the exclusive CPUs of these pods.
	daemons []*shape
	owned   int
	// allocatable is the number of CPUs that pods can own on an empty node.
	allocatable int
	trials      map[*shape]trial
}

// trial is the outcome of a pod on an empty node.
type trial struct {
	// reason is empty if the pod fits.
	reason string
	// owned is the number of exclusive CPUs of the pod. plain is true if it never has any, so that
	// the planner cannot refuse it.
	owned int
	plain bool
}

func (d *demand) newKind(of *Kind) (*kind, error) {
	k := &kind{Kind: of, node: &corev1.Node{}, trials: make(map[*shape]trial)}
	var err error
	if k.pools, err = of.Config.Resolve(of.Topology); err != nil {
		return nil, err
	}
	n, err := d.bare(k)
	if err != nil {
		return nil, err
	}
	list := corev1.ResourceList{}
	k.node.Labels = map[string]string{corev1.LabelOSStable: string(corev1.Linux)} // each kubelet sets it
	if of.Node != nil {
		maps.Copy(k.node.Labels, of.Node.Labels)
		list = of.Node.Status.Allocatable.DeepCopy()
		for _, t := range of.Node.Spec.Taints {
			if !isTransient(t.Key) {
				k.node.Spec.Taints = append(k.node.Spec.Taints, t)
			}
		}
	}
	for name := range list {
		if d.names.IsPool(string(name)) { // of another configuration
			delete(list, name)
		}
	}
	k.empty = d.table.amounts(list)
	set := func(name corev1.ResourceName, n int64) {
		r := d.table.number(name)
		k.empty = append(k.empty, make(amounts, len(d.table.names)-len(k.empty))...)
		k.empty[r] = n
	}
	for name, n := range map[corev1.ResourceName]int64{
		corev1.ResourceCPU: int64(of.Topology.Online.Len()) * 1000, corev1.ResourcePods: mostPods,
		corev1.ResourceMemory: math.MaxInt64, corev1.ResourceEphemeralStorage: math.MaxInt64,
	} {
		if _, given := list[name]; !given {
			set(name, n)
		}
	}
	for _, r := range n.Resources() {
		set(corev1.ResourceName(r.Resource), r.Milli)
	}
	return k, d.addDaemons(k, n)
}

// addDaemons places the pods of DaemonSets on the empty node.
func (d *demand) addDaemons(k *kind, n *simulate.Node) error {
	for _, s := range d.daemons {
		if k.mismatch(s) != "" {
			continue // the controller makes no pod for such a node
		}
		t, err := d.try(k, s, n)
		if err != nil {
			return err
		}
		k.trials[s] = t
		if t.reason == "" {
			k.daemons, k.owned = append(k.daemons, s), k.owned+t.owned
			k.empty.take(s.requests)
		}
	}
	k.allocatable = n.Allocatable()
	return nil
}

func (d *demand) bare(k *kind) (*simulate.Node, error) {
	n, err := simulate.NewNode(k.Config, k.Topology, d.namespaces)
	if err != nil {
		return nil, err
	}
	n.Defaults = d.in.Defaults
	return n, nil
}

// isTransient reports whether a taint is the state of one node. The node lifecycle controller, cloud
// providers and the daemon set such taints.
func isTransient(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	return found && slices.Contains([]string{"node.kubernetes.io", "node.cloudprovider.kubernetes.io", "node.cpupoold.io", "cpupoold.io"}, prefix)
}

// mismatch returns the reason why no node of the kind takes pods of a shape by its labels and
// taints; empty if they match.
func (k *kind) mismatch(s *shape) string {
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(s.pod()).Match(k.node); err != nil {
		return fmt.Sprintf("its node affinity is invalid: %v; correct it", err)
	} else if !matches {
		return "its nodeSelector or node affinity selects other labels; give the nodes these labels with --node"
	}
	blocks := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	if t, found := schedulinghelper.FindMatchingUntoleratedTaint(logr.Discard(), k.node.Spec.Taints, s.pod().Spec.Tolerations, blocks, false); found {
		return fmt.Sprintf("it does not tolerate the taint %s; add a toleration, or remove the taint", t.ToString())
	}
	return ""
}

// trial returns the outcome of a pod of a shape on an empty node.
func (d *demand) trial(k *kind, s *shape) (trial, error) {
	if t, known := k.trials[s]; known {
		return t, nil
	}
	t := trial{reason: cmp.Or(s.refused, k.mismatch(s))}
	if t.reason == "" {
		n, err := d.node(k)
		if err != nil {
			return trial{}, err
		}
		if t, err = d.try(k, s, n); err != nil {
			return trial{}, err
		}
	}
	k.trials[s] = t
	return t, nil
}

func (d *demand) node(k *kind) (*simulate.Node, error) {
	n, err := d.bare(k)
	if err != nil {
		return nil, err
	}
	for _, s := range k.daemons {
		if k.trials[s].plain {
			continue
		}
		if _, err := n.Place(s.pods[0]); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// try places a pod on a node of which k.empty is free.
func (d *demand) try(k *kind, s *shape, n *simulate.Node) (trial, error) {
	if s.refused != "" {
		return trial{reason: s.refused}, nil
	}
	if r := k.empty.lacks(s.requests); r >= 0 {
		return trial{reason: d.tooMuch(k, s, r)}, nil
	}
	placed, err := n.Place(s.pods[0])
	switch {
	case err != nil:
		return trial{}, err
	case placed.Refused != nil:
		return trial{reason: fmt.Sprintf("the planner refuses it on an empty node: %s; change its CPU request, or the options and the size of the guaranteed pool", placed.Refused.String())}, nil
	}
	return trial{owned: placed.Owned.Len(), plain: placed.Had.IsEmpty()}, nil
}

// tooMuch returns the reason why an empty node has too little of a resource.
func (d *demand) tooMuch(k *kind, s *shape, r int) string {
	name, wants, has := d.table.names[r], s.requests.of(r), k.empty.of(r)
	remedy := "use a larger machine, or lower the request"
	switch {
	case r == podsAt:
		remedy = "raise maxPods of the kubelet, or use fewer DaemonSets"
	case d.names.IsPool(string(name)) && has > 0:
		remedy = "give the pool more CPUs, use a larger machine, or lower the request"
	case d.names.IsPool(string(name)):
		remedy = "configure the pool"
	case has == 0:
		remedy = "name a Node with this resource by --node"
	}
	return fmt.Sprintf("its request for %s is %s, and an empty node has %s; %s", name, d.text(r, wants), d.text(r, has), remedy)
}

// lacks returns the number of the first resource of which a is less than a pod requests, or -1.
func (a amounts) lacks(requests amounts) int {
	for r, n := range requests {
		if n > 0 && n > a.of(r) {
			return r
		}
	}
	return -1
}

// take subtracts the requests of a pod.
func (a amounts) take(requests amounts) {
	for r, n := range requests {
		if a[r] != math.MaxInt64 {
			a[r] -= n
		}
	}
}
