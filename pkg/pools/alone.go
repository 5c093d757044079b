package pools

import (
	"cmp"
	"slices"
)

// Alone places one pod as [Build] would, without the others, where that is nobody else's business:
// neither the pod nor what in has under its UID asks for CPUs of its own, or has any. Then nothing
// of the plan but Problems depends on what becomes of it. In all other cases, and where telling
// takes a whole plan, ok is false.
//
// plan is that of in, whose Pods are sorted by UID. p is all that there is under its UID. None of
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
	bare.Pools.BindMemory = false // of those who have CPUs
	c := classifier{in: &bare}
	pods := present([]Pod{p})
	classes := c.classify(pods)
	return newPlacer(&bare, plan.Free, plan.Resting, len(p.Containers)).pod(&pods[0], classes[0], nil), true
}

// ordinary says that nobody in a pod has a claim on CPUs of its own, or may have one.
func (in *Input) ordinary(p *Pod) bool {
	return !p.Unread && (p.QoS != QoSGuaranteed || !in.Pools.exclusive()) && !p.hasForeign()
}
