package pools

import (
	"cmp"
	"slices"
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
	bare.Pools.BindMemory = false // it concerns only owners
	c := classifier{in: &bare}
	pods := present([]Pod{p})
	classes := c.classify(pods)
	return newPlacer(&bare, plan.Free, plan.Resting, len(p.Containers)).pod(&pods[0], classes[0], nil), true
}

// ordinary reports that no container of a pod has or may have a claim on exclusive CPUs.
func (in *Input) ordinary(p *Pod) bool {
	return !p.Unread && (p.QoS != QoSGuaranteed || !in.Pools.exclusive()) && !p.hasForeign()
}
