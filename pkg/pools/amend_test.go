package pools_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestAmend lets nodes live, and amends their plan by each of their pods after each step.
func TestAmend(t *testing.T) { steps(t, 4, 20, checkAmended) }

// checkAmended: an amended plan is the whole plan, nobody but the pod gets other CPUs than before,
// and neither the input nor the plan that it comes from is changed. It returns how many were amended.
func checkAmended(t *testing.T, in pools.Input, before pools.Plan, now pools.Input) (amended int) {
	t.Helper()
	byUID := func(a, b pools.Pod) int { return strings.Compare(a.UID, b.UID) }
	in.Pods = slices.SortedFunc(slices.Values(in.Pods), byUID)
	equal := cmp.Comparer(cpuset.Set.Equal)
	untouched := format(before)
	for _, p := range slices.Concat(now.Pods, guaranteed(now.Pods)) {
		got, ok := pools.Amend(&in, &before, p)
		if !ok {
			continue
		}
		amended++
		next := in
		next.Previous = before.Assignments
		next.Pods = append(slices.DeleteFunc(slices.Clone(in.Pods), func(o pools.Pod) bool { return o.UID == p.UID }), p)
		if d := cmp.Diff(pools.Build(next), got, equal); d != "" {
			t.Errorf("%s (-whole +amended):\n%s", p.UID, d)
		}
		others := func(plan pools.Plan) []pools.Assignment {
			return slices.DeleteFunc(slices.Clone(plan.Assignments), func(a pools.Assignment) bool { return a.Key.PodUID == p.UID })
		}
		if d := cmp.Diff(others(before), others(got), equal, cmpopts.EquateEmpty()); d != "" || !before.Shared.Equal(got.Shared) {
			t.Errorf("%s: others have other CPUs than before (-before +after):\n%s", p.UID, d)
		}
		if !slices.IsSortedFunc(in.Pods, byUID) || format(before) != untouched {
			t.Errorf("%s: the input or the plan before is another", p.UID)
		}
	}
	return amended
}

// guaranteed are pods as they would be if they asked for CPUs of their own.
func guaranteed(pods []pools.Pod) []pools.Pod {
	pods = slices.Clone(pods)
	for i := range pods {
		pods[i].QoS, pods[i].Unread = pools.QoSGuaranteed, false
	}
	return pods
}
