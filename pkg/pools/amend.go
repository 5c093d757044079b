package pools

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Amend is [Build] after a Guaranteed pod has come or changed, where that takes CPUs from nobody:
// the guaranteed pool is apart from all others, and all other owners keep what they have. Only pods
// that may have CPUs of their own are placed anew. In all other cases, and where telling takes a
// whole plan, ok is false.
//
// plan is that of in, whose Pods are sorted by UID; what comes back is the plan of the same with p in
// place of what there is under its UID, and with what plan assigns as Previous. p is all that there
// is under its UID. None of the arguments is changed.
func Amend(in *Input, plan *Plan, p Pod) (next Plan, ok bool) {
	if p.Gone || p.UID == "" || p.QoS != QoSGuaranteed || in.Pools.Kubelet || in.Pools.FromShared || !in.Pools.exclusive() ||
		in.Namespaces.Asked || !plan.Theirs.IsEmpty() || !plan.Resting.IsEmpty() {
		return Plan{}, false
	}
	amended := *in
	amended.Pods, amended.Previous = with(in.Pods, p), plan.Assignments
	pods, ok := owning(amended.Pods)
	if !ok {
		return Plan{}, false
	}
	next = build(amended, pods, cpuset.Set{}, nil)
	if !sameOthers(plan.Assignments, next.Assignments, p.UID) || !samePlaces(&amended, plan, &next) {
		return Plan{}, false
	}
	next.Pods = merge(plan.Pods, next.Pods)
	next.Problems = slices.Concat(next.Problems, problemsOf(plan.Problems, amended.Pods, pods))
	slices.SortFunc(next.Problems, compareProblems)
	return next, true
}

// with returns sorted pods with p among them, in place of one with its UID.
func with(pods []Pod, p Pod) []Pod {
	at, known := slices.BinarySearchFunc(pods, p.UID, func(old Pod, uid string) int { return cmp.Compare(old.UID, uid) })
	all := make([]Pod, 0, len(pods)+1)
	all = append(append(all, pods[:at]...), p)
	if known {
		at++
	}
	return append(all, pods[at:]...)
}

// owning returns the pods that may have CPUs of their own; ok is false where it takes all of them
// to tell.
func owning(all []Pod) (pods []Pod, ok bool) {
	for i := range all {
		p := &all[i]
		if p.Gone {
			continue
		}
		if p.Unread || slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Foreign != nil }) || i > 0 && all[i-1].UID == p.UID {
			return nil, false
		}
		if p.QoS == QoSGuaranteed && p.UID != "" {
			pods = append(pods, *p)
		}
	}
	return present(pods), true
}

// sameOthers says that assignments differ in those of one pod alone.
func sameOthers(before, after []Assignment, uid string) bool {
	others := func(all []Assignment) []Assignment {
		return slices.DeleteFunc(slices.Clone(all), func(a Assignment) bool { return a.Key.PodUID == uid })
	}
	return slices.EqualFunc(others(before), others(after), sameAssignment)
}

// samePlaces says that what owners have taken leaves the shared pool and the partitions of workload
// types as they were.
func samePlaces(in *Input, before, after *Plan) bool {
	was, is := newPlacer(in, before.Free, before.Resting, 0), newPlacer(in, after.Free, after.Resting, 0)
	return after.Resting.IsEmpty() && before.Shared.Equal(after.Shared) && slices.EqualFunc(was.ofPartition, is.ofPartition, cpuset.Set.Equal)
}

// merge returns before with the pods of after in place of those with the same UID; both are sorted
// by it.
func merge(before, after []PodPlan) []PodPlan {
	all := make([]PodPlan, 0, len(before)+1)
	for i := range before {
		for len(after) > 0 && after[0].UID < before[i].UID {
			all, after = append(all, after[0]), after[1:]
		}
		if len(after) > 0 && after[0].UID == before[i].UID {
			all, after = append(all, after[0]), after[1:]
			continue
		}
		all = append(all, before[i])
	}
	return append(all, after...)
}

// problemsOf returns the problems of pods that are not among those that were placed anew.
func problemsOf(problems []Problem, pods, anew []Pod) []Problem {
	has := func(pods []Pod, uid string) bool {
		_, known := slices.BinarySearchFunc(pods, uid, func(p Pod, uid string) int { return cmp.Compare(p.UID, uid) })
		return known
	}
	var kept []Problem
	for _, p := range problems {
		if p.PodUID != "" && has(pods, p.PodUID) && !has(anew, p.PodUID) {
			kept = append(kept, p)
		}
	}
	return kept
}
