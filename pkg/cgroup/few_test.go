package cgroup_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestDiffOfFew checks Diff of a few cgroups while all others are in the desired state. It has the
// same writes to files as Diff of all, and defers no more. So the daemon can repair cgroups without
// reading the others.
func TestDiffOfFew(t *testing.T) {
	repaired, several := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := randomWorld(r)
		w.options.Leaving = nil
		// While the slice of a pod bounds containers, the daemon always looks at all cgroups.
		w.targets = slices.DeleteFunc(w.targets, func(t cgroup.Target) bool { return t.Confines() })
		clear(w.pending)
		for range 5 {
			writes, _ := w.diff()
			for _, x := range writes {
				w.mustApply(t, x)
			}
		}
		if writes, held := w.diff(); len(writes)+len(held) > 0 {
			continue // they stand in each other's way
		}
		var few []cgroup.Target
		for _, target := range w.targets {
			if target.Unit == "" && !w.absent[target.Path] && !target.CPUs.IsEmpty() && r.IntN(3) == 0 {
				w.set(target.Path, randomSet(r, w.options.Possible.Len()))
				few = append(few, target)
			}
		}
		want, held := w.diff()
		got, alsoHeld := cgroup.Diff(few, w.current(), w.options)
		isSlow := func(x cgroup.Write) bool { return x.Slow() }
		want, got = slices.DeleteFunc(want, isSlow), slices.DeleteFunc(got, isSlow)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d: writes (-of all +of few):\n%s", seed, d)
		}
		if d := cmp.Diff(held, alsoHeld); d != "" {
			t.Fatalf("seed %d: deferred (-of all +of few):\n%s", seed, d)
		}
		if len(got) > 0 {
			repaired++
		}
		if len(few) > 1 && len(got) > 1 {
			several++
		}
	}
	if repaired < 1000 || several < 400 {
		t.Errorf("worlds with repairs, with several cgroups = %d, %d; want at least 1000, 400", repaired, several)
	}
}
