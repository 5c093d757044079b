package simulate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// arrivals adds pods without a plan of the whole node for each of them. In the plan for a pod, one
// container has the CPUs of all earlier owners. The plan selects the same CPUs, because no owner
// loses CPUs to a later one. So the time for a pod does not grow with the pods before it.
type arrivals struct {
	n *Node
	// settled are the assignments of earlier pods and of units.
	settled []pools.Assignment
	// units are the assignments of units in settled, and owned are the CPUs of pods.
	units []pools.Assignment
	owned cpuset.Set
	// unmet reports whether a pod has fewer CPUs than it requests. It gets the CPUs that an init
	// container leaves.
	unmet bool
}

// earlier is the UID of the pod that stands for earlier pods. No pod of the API has it.
const earlier = "earlier pods"

// waits reports whether a container of the pod would get CPUs that another pod leaves.
func waits(p pools.PodPlan) bool {
	return slices.ContainsFunc(p.Containers, func(c pools.Placement) bool {
		refused := cmp.Or(c.Refused, c.Short)
		return refused != nil && refused.Code != allocate.SMTAlignment && refused.Code != allocate.BadOptions
	})
}

// oneOwnerPerCore is the name of [allocate.Options].OneOwnerPerCore.
const oneOwnerPerCore = "one-owner-per-core"

func (n *Node) addAll(all []*Pod) error {
	// The CPUs of an owner must depend only on the CPUs that earlier owners have. With one owner for each
	// core they depend on the cores.
	p, hasClaims := &n.input.Pools, func(p *Pod) bool { return len(p.Spec.Spec.ResourceClaims) > 0 }
	fast := !p.Kubelet && !p.Options.OneOwnerPerCore && !slices.Contains(p.Overrides, oneOwnerPerCore) && p.Away.IsEmpty() &&
		!slices.ContainsFunc(all, hasClaims)
	a := arrivals{n: n}
	a.settle()
	names := make(map[string]bool, len(all))
	for _, p := range all {
		if n.Progress != nil {
			n.Progress(len(all))
		}
		switch {
		case !fast:
			if err := n.Add(p); err != nil {
				return err
			}
			n.refusals.settle(n)
			continue
		case names[p.Name()]:
			return fmt.Errorf("pod %q is on the node already", p.Name())
		}
		names[p.Name()] = true
		r := begin(p, n.Defaults, n.tick())
		r.changed = n.now
		n.pods = append(n.pods, r)
		a.add(r)
	}
	if fast {
		a.plan()
	}
	return nil
}

// settle takes the assignments of the last plan of the whole node.
func (a *arrivals) settle() {
	a.settled, a.units, a.owned = nil, nil, cpuset.Set{}
	for _, s := range a.n.plan.Assignments {
		if s.IsUnit() {
			a.units = append(a.units, s)
		}
		a.own(s)
	}
}

func (a *arrivals) own(s pools.Assignment) {
	a.settled = append(a.settled, s)
	if !s.IsUnit() {
		a.owned = a.owned.Union(s.CPUs)
	}
}

func (a *arrivals) plan() {
	a.n.input.Previous = a.settled
	a.n.build()
	a.n.refusals.settle(a.n)
	a.settle()
}

// add starts the containers of a pod that is the last of the node.
func (a *arrivals) add(r *running) {
	before := *r
	unmet := a.unmet
	in := a.n.input
	in.Previous = slices.Clone(a.units)
	pods := make([]pools.Pod, 0, 2)
	if !a.owned.IsEmpty() {
		all := int64(a.owned.Len()) * 1000
		pods = append(pods, pools.Pod{UID: earlier, QoS: pools.QoSGuaranteed, CreatedAt: 1, Containers: []pools.Container{{
			ID: earlier, Name: earlier, State: pools.Running, CreatedAt: 1, Resources: resourcesOf(admission.Amounts{Request: all, Limit: all}),
		}}})
		in.Previous = append(in.Previous, pools.Assignment{Key: pools.Key{PodUID: earlier, Container: earlier}, CPUs: a.owned})
	}
	var had, has cpuset.Set
	build := func() {
		if r.pod.QoS != pools.QoSGuaranteed {
			return
		}
		in.Pods = append(pods, r.pod)
		a.n.plan = pools.Build(in)
		in.Previous, has = a.n.plan.Assignments, a.n.ownedBy(r.pod.UID)
		had = had.Union(has)
		a.unmet = a.unmet || slices.ContainsFunc(a.n.plan.Pods, waits)
	}
	a.n.startEach(r, build)
	if unmet && !had.Equal(has) {
		// An earlier pod may get the CPUs that the pod has left.
		*r = before
		a.n.input.Previous = a.settled
		a.n.startAll(r)
		a.n.refusals.settle(a.n)
		a.settle()
		return
	}
	for _, s := range in.Previous {
		if s.PodUID == r.pod.UID {
			a.own(s)
		}
	}
}
