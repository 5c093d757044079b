package pools_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// checkAlone checks that a container that is placed alone gets the result of a full plan, and
// that all others keep theirs. It returns the number of such containers.
func checkAlone(t *testing.T, in pools.Input, before pools.Plan, now pools.Input) (alone int) {
	t.Helper()
	byUID := func(a, b pools.Pod) int { return strings.Compare(a.UID, b.UID) }
	in.Pods = slices.SortedFunc(slices.Values(in.Pods), byUID)
	equal := cmp.Comparer(cpuset.Set.Equal)
	for _, p := range slices.Concat(now.Pods, burstable(now.Pods)) {
		got, ok := pools.Alone(&in, &before, p)
		if !ok {
			continue
		}
		alone++
		whole, want := wholeWith(in, before, p)
		if d := cmp.Diff(want, got, equal); d != "" {
			t.Errorf("%s (-whole +alone):\n%s", p.UID, d)
		}
		others := func(plan pools.Plan) pools.Plan {
			plan.Problems = nil
			plan.Pods = slices.DeleteFunc(slices.Clone(plan.Pods), func(o pools.PodPlan) bool { return o.UID == p.UID })
			return plan
		}
		if d := cmp.Diff(others(before), others(whole), equal); d != "" {
			t.Errorf("%s was placed alone, and others change (-before +after):\n%s", p.UID, d)
		}
	}
	return alone
}

// wholeWith returns the full plan after a pod was added or changed, and its result for the
// pod.
func wholeWith(in pools.Input, before pools.Plan, p pools.Pod) (whole pools.Plan, of pools.PodPlan) {
	in.Previous = before.Assignments
	in.Pods = append(slices.DeleteFunc(slices.Clone(in.Pods), func(o pools.Pod) bool { return o.UID == p.UID }), p)
	whole = pools.Build(in)
	return whole, whole.Pods[slices.IndexFunc(whole.Pods, func(o pools.PodPlan) bool { return o.UID == p.UID })]
}

// burstable returns the pods with reports that they are Burstable.
func burstable(pods []pools.Pod) []pools.Pod {
	pods = slices.Clone(pods)
	for i := range pods {
		pods[i].QoS, pods[i].Unread = pools.QoSBurstable, false
	}
	return pods
}

// TestAlone lets nodes live, and places each of their pods alone after each step.
func TestAlone(t *testing.T) { steps(t, 3, 100, checkAlone) }

// steps lets nodes live, with the same pools before and after each step that is checked. At least
// so many times in ten lives check has to have something to check.
func steps(t *testing.T, salt uint64, atLeast int, check func(t *testing.T, in pools.Input, before pools.Plan, now pools.Input) int) {
	t.Helper()
	checked := 0
	for seed := range *lives {
		r := rand.New(rand.NewPCG(uint64(seed), salt))
		bytes := make([]byte, 400)
		for i := range bytes {
			bytes[i] = byte(r.Uint32())
		}
		w := newWorld(bytes)
		for len(w.bytes) > 0 {
			in, before := w.in, pools.Build(w.in)
			in.Resting = before.Resting
			what := w.step()
			if w.in.Machine == in.Machine && cmp.Equal(w.in.Pools, in.Pools, cmp.Comparer(cpuset.Set.Equal)) {
				checked += check(t, in, before, w.in)
			}
			if w.in.Previous = before.Assignments; t.Failed() {
				t.Fatalf("seed %d, %s, before:\n%s", seed, what, format(before))
			}
		}
	}
	if checked < atLeast*min(*lives, 10) {
		t.Errorf("pods = %d in %d lives; want more", checked, *lives)
	}
}
