package pools

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Alone places one pod as [Build] would, without the others. ok is true only if neither the pod nor
// the pod with its UID in in requests or has exclusive CPUs. Then only Problems of the plan depend
// on the pod. ok is false in all other cases, and if only a complete plan shows it.
//
// plan is the plan of in, whose Pods are sorted by UID. p is the only pod with its UID. None of
// them is changed.
func Alone(in *Input, plan *Plan, p Pod) (placed PodPlan, ok bool) {
	if p.Gone || p.UID == "" || in.Pools.Kubelet || in.Namespaces.Asked || !plan.Theirs.IsEmpty() || !in.ordinary(&p) {
		return PodPlan{}, false
	}
	at, known := slices.BinarySearchFunc(in.Pods, p.UID, func(old Pod, uid string) int { return cmp.Compare(old.UID, uid) })
	if known && !in.ordinary(&in.Pods[at]) {
		return PodPlan{}, false
	}
	bare := *in
	bare.leaveClaims()
	bare.Pools.BindMemory = false // it concerns only owners
	c := classifier{in: &bare}
	pods := present([]Pod{p})
	classes := c.classify(pods)
	return newPlacer(&bare, plan, len(p.Containers)).pod(&pods[0], classes[0], nil), true
}

// ordinary reports that no container of a pod has or may have a demand on exclusive CPUs.
func (in *Input) ordinary(p *Pod) bool {
	return !p.Unread && !in.hasClaims(p.UID) && (p.QoS != QoSGuaranteed || !in.Pools.exclusive()) && !p.hasForeign()
}

// Alongside places one Guaranteed pod as [Build] would, without the pods in the shared pool. ok is
// true only if all other owners and the other pools keep their CPUs. With Pools.FromShared the pod
// has these CPUs already, as the reserve of the pod or from an earlier container. Then only Free, Idle,
// Assignments and Problems of the plan depend on the pod. ok is false in all other cases, and if only a complete
// plan shows it.
//
// plan is the plan of in, whose Pods are sorted by UID, and its assignments are in force. p is the
// only pod with its UID. None of them is changed. assignments are the assignments of all owners,
// with the pod's.
func Alongside(in *Input, plan *Plan, p Pod) (placed PodPlan, assignments []Assignment, ok bool) {
	if p.Gone || p.UID == "" || p.QoS != QoSGuaranteed || in.Pools.Kubelet || !in.Pools.exclusive() || in.hasClaims(p.UID) ||
		in.Namespaces.Asked || !plan.Theirs.IsEmpty() || in.Pools.FromShared && !in.Resting.IsEmpty() {
		return PodPlan{}, nil, false
	}
	pods, ok := owning(in.Pods, p)
	if !ok {
		return PodPlan{}, nil, false
	}
	of := *in
	of.Previous = plan.Assignments
	next := build(of, pods, cpuset.Set{}, nil)
	others := func(all []Assignment) []Assignment {
		return slices.DeleteFunc(slices.Clone(all), func(a Assignment) bool { return a.PodUID == p.UID })
	}
	if !slices.EqualFunc(others(plan.Assignments), others(next.Assignments), Assignment.Equal) || !samePlaces(in, plan, &next) {
		return PodPlan{}, nil, false
	}
	i := slices.IndexFunc(next.Pods, func(o PodPlan) bool { return o.UID == p.UID })
	return next.Pods[i], next.Assignments, true
}

// owning returns the pods that may have exclusive CPUs. p replaces the pod with its UID. ok is
// false if only a complete plan shows which pods they are.
func owning(all []Pod, p Pod) (pods []Pod, ok bool) {
	certain := func(p *Pod) bool { return !p.Unread && !p.hasForeign() }
	if !certain(&p) {
		return nil, false
	}
	pods = append(pods, p)
	for i := range all {
		o := &all[i]
		switch {
		case o.UID == p.UID || o.Gone:
		case !certain(o):
			return nil, false
		case o.QoS == QoSGuaranteed && o.UID != "":
			pods = append(pods, *o)
		}
	}
	return present(pods), true
}

// samePlaces reports whether the CPUs of owners leave the partitions of workload types unchanged: a
// partition of all CPUs does not contain the CPUs of owners.
func samePlaces(in *Input, before, after *Plan) bool {
	was, is := in.Pools.Guaranteed.Difference(before.Free), in.Pools.Guaranteed.Difference(after.Free)
	return before.Shared.Equal(after.Shared) && !slices.ContainsFunc(in.Pools.Partitions, func(p Partition) bool {
		return !p.CPUs.Difference(was).Equal(p.CPUs.Difference(is))
	})
}
