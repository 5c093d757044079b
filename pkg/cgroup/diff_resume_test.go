package cgroup_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestDiffResumed cuts lists between runs of raw writes and runs of records. The Diff
// of that state then gives the rest of the list.
func TestDiffResumed(t *testing.T) {
	for seed := range uint64(300) {
		whole, _ := quietWorld(seed).diff()
		for cut := 1; cut < len(whole); cut++ {
			if whole[cut-1].Slow() == whole[cut].Slow() {
				continue
			}
			w := quietWorld(seed)
			for _, x := range whole[:cut] {
				w.mustApply(t, x)
			}
			rest, _ := w.diff()
			if d := cmp.Diff(cpusetWrites(whole[cut:]), cpusetWrites(rest)); d != "" {
				t.Errorf("seed %d, list cut after %d of %d writes:\n%s", seed, cut, len(whole), d)
			}
		}
	}
}

// quietWorld returns a world without updates in flight.
func quietWorld(seed uint64) *world {
	w := randomWorld(rand.New(rand.NewPCG(seed, 0)))
	clear(w.pending)
	return w
}

// cpusetWrites removes weights, quotas and memory nodes. A runtime may write its own,
// or systemd may round them, and only the state after the update shows that.
func cpusetWrites(writes []cgroup.Write) []string {
	var lines []string
	for _, x := range writes {
		switch x.Property {
		case cgroup.FileCPUs, cgroup.CRICPUs, cgroup.UnitCPUs:
			lines = append(lines, x.String())
		}
	}
	return lines
}
