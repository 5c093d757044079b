package account_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
)

// owners returns a table of owners.
func owners(entries ...account.Entry) account.Owners {
	o := account.Owners{}
	for _, e := range entries {
		o[e] = true
	}
	return o
}

// TestChanges checks the steps of handovers.
func TestChanges(t *testing.T) {
	type entry = account.Entry
	for _, c := range []struct {
		name            string
		present, wanted account.Owners
		watched         []int
		want            account.Change
	}{
		{
			name: "first owner", wanted: owners(entry{1, 7}, entry{2, 7}),
			want: account.Change{Add: []entry{{1, 7}, {2, 7}}, Start: []int{1, 2}},
		},
		{
			name: "no change", present: owners(entry{1, 7}), wanted: owners(entry{1, 7}), watched: []int{1},
		},
		{
			name: "released and kept", present: owners(entry{1, 7}), wanted: owners(entry{1, 7}),
			want: account.Change{Start: []int{1}},
		},
		{
			name: "one more cgroup", present: owners(entry{1, 7}), wanted: owners(entry{1, 7}, entry{1, 5}), watched: []int{1},
			want: account.Change{Add: []entry{{1, 5}}},
		},
		{
			name: "another cgroup", present: owners(entry{1, 7}, entry{2, 7}), wanted: owners(entry{1, 8}, entry{2, 7}), watched: []int{1, 2},
			want: account.Change{Stop: []int{1}, Remove: []entry{{1, 7}}, Add: []entry{{1, 8}}, Start: []int{1}},
		},
		{
			name: "many cgroups, in order", present: owners(entry{3, 2}, entry{3, 1}), wanted: owners(entry{0, 5}, entry{0, 3}, entry{0, 5}, entry{0, 9}, entry{0, 1}),
			watched: []int{3},
			want:    account.Change{Stop: []int{3}, Remove: []entry{{3, 1}, {3, 2}}, Add: []entry{{0, 1}, {0, 3}, {0, 5}, {0, 9}}, Start: []int{0}},
		},
		{
			name: "owner gone", present: owners(entry{1, 7}), watched: []int{1},
			want: account.Change{Stop: []int{1}, Remove: []entry{{1, 7}}},
		},
		{
			name: "owner gone, released", present: owners(entry{1, 7}),
			want: account.Change{Remove: []entry{{1, 7}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := account.Changes(c.present, c.wanted, func(cpu int) bool { return slices.Contains(c.watched, cpu) })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// Kinds of the tests.
const (
	user = iota
	kernel
	unknown
	kinds
)

// counts returns counts of user, kernel and unknown tasks in milliseconds, with a switch for each 10 ms.
func counts(ms ...int) []account.Count {
	all := make([]account.Count, kinds)
	for i, n := range ms {
		all[i] = account.Count{Time: time.Duration(n) * time.Millisecond, Switches: uint64(n) / 10}
	}
	return all
}

func slice(begin uint64, kind, ms int) *account.Slice {
	return &account.Slice{Begin: begin, Kind: kind, Time: time.Duration(ms) * time.Millisecond}
}

// times returns the times in milliseconds.
func times(all []account.Count) (ms []int) {
	for _, c := range all {
		ms = append(ms, int(c.Time/time.Millisecond))
	}
	return ms
}

// TestRunning checks that the time of a running task is in the counts once: while it runs, and when the
// kernel has counted it or the watch ended before.
func TestRunning(t *testing.T) {
	type step struct {
		kernel  []account.Count
		running *account.Slice
		want    []int
	}
	for name, steps := range map[string][]step{
		"counted at its end": {
			{counts(10), slice(1, user, 2000), []int{2010, 0, 0}},
			{counts(10), slice(1, user, 3000), []int{3010, 0, 0}},
			{counts(3510), nil, []int{3510, 0, 0}},
			{counts(3520), nil, []int{3520, 0, 0}},
		},
		"watch ended": {
			{counts(10), slice(1, user, 2000), []int{2010, 0, 0}},
			{counts(10), nil, []int{2010, 0, 0}},
			{counts(40), nil, []int{2040, 0, 0}},
		},
		"another one": {
			{counts(10, 5), slice(1, user, 2000), []int{2010, 5, 0}},
			{counts(2100, 5), slice(2, kernel, 1500), []int{2100, 1505, 0}},
			{counts(2100, 5), slice(3, kernel, 1200), []int{2100, 2705, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := account.NewCPU(kinds, unknown)
			for i, s := range steps {
				if diff := cmp.Diff(s.want, times(c.Counts(s.kernel, s.running))); diff != "" {
					t.Fatalf("step %d: times in ms (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// TestResolve checks that counts of an unresolved kind go to the kind of their row, and that the rest stays unresolved.
func TestResolve(t *testing.T) {
	c := account.NewCPU(kinds, unknown)
	c.Resolve(kernel, account.Count{Time: 30 * time.Millisecond, Switches: 3})
	if diff := cmp.Diff([]int{5, 30, 70}, times(c.Counts(counts(5, 0, 100), nil))); diff != "" {
		t.Errorf("times in ms (-want +got):\n%s", diff)
	}
	// These rows hold 20 ms that ended after the kernel's counts were read.
	c.Resolve(kernel, account.Count{Time: 40 * time.Millisecond, Switches: 4})
	c.Resolve(unknown, account.Count{Time: 10 * time.Millisecond, Switches: 1})
	if diff := cmp.Diff([]int{5, 70, 80}, times(c.Counts(counts(5, 0, 130), nil))); diff != "" {
		t.Errorf("times in ms (-want +got):\n%s", diff)
	}
	// A running task of a kind that the kernel does not count.
	if diff := cmp.Diff([]int{5, 2070, 80}, times(c.Counts(counts(5, 0, 150), slice(9, kernel, 2000)))); diff != "" {
		t.Errorf("times in ms (-want +got):\n%s", diff)
	}
	c.Resolve(kernel, account.Count{Time: 2500 * time.Millisecond, Switches: 1})
	if diff := cmp.Diff([]int{5, 2570, 80}, times(c.Counts(counts(5, 0, 2650), nil))); diff != "" {
		t.Errorf("times in ms (-want +got):\n%s", diff)
	}
}

// TestCountsNeverDecrease checks random sequences of slices that run, end and lose their watch.
func TestCountsNeverDecrease(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := account.NewCPU(kinds, unknown)
		kernelCounts, before := counts(0, 0, 0), make([]account.Count, kinds)
		var running *account.Slice
		for step := range uint64(100) {
			switch kind := r.IntN(kinds); {
			case running == nil:
				running = slice(step, kind, 1000+r.IntN(1000))
			case r.IntN(3) == 0:
				running = slice(running.Begin, running.Kind, int(running.Time/time.Millisecond)+r.IntN(1000))
			default:
				if r.IntN(2) == 0 { // counted at its end
					kernelCounts[running.Kind].Time += running.Time + time.Duration(r.IntN(1000))*time.Millisecond
					kernelCounts[running.Kind].Switches++
				}
				running = nil
			}
			if running == nil && r.IntN(2) == 0 {
				c.Resolve(r.IntN(kinds), account.Count{Time: time.Millisecond, Switches: 1})
			}
			all := c.Counts(kernelCounts, running)
			for kind := range all {
				if all[kind].Time < before[kind].Time || all[kind].Switches < before[kind].Switches {
					t.Fatalf("seed %d, step %d, kind %d: %v after %v", seed, step, kind, all[kind], before[kind])
				}
			}
			before = all
		}
	}
}
