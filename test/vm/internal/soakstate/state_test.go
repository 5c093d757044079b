package soakstate_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm/internal/observer"
	"github.com/cpupoold/cpupoold/test/vm/internal/soakstate"
)

// TestContinue checks that a second run adds its kills and overlaps to those in the file.
func TestContinue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dir", "soak.json")
	run := func(progress ...soakstate.Progress) *soakstate.State {
		t.Helper()
		s, err := soakstate.Load(file, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range progress {
			if err := s.Record("containerd fixed", p); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	progress := func(kills, rounds, count int, longest time.Duration) soakstate.Progress {
		return soakstate.Progress{Kills: kills, Report: observer.Report{
			Rounds: rounds, Lasted: time.Duration(kills) * time.Second, MaxRound: time.Millisecond,
			Overlaps: map[string]observer.Overlaps{"pause container": {Count: count, Longest: longest, Example: "x"}},
		}}
	}
	run(progress(1, 100, 1, time.Second), progress(2, 200, 2, time.Second))
	s := run(progress(1, 100, 1, 3*time.Second))
	want := `| runtime, pool | kills | rounds/s | longest round | cause | overlaps | longest |
|---|---|---|---|---|---|---|
| containerd fixed | 3 | 100 | 1ms | pause container | 3 | 3s |
`
	if d := cmp.Diff(want, s.Table()); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, run().Table()); d != "" {
		t.Errorf("table of the file (-want +got):\n%s", d)
	}
	if excess := s.Excess(); len(excess) > 0 {
		t.Errorf("excess = %v; want none", excess)
	}
	s = run(progress(1, 100, 1, time.Hour))
	if excess := s.Excess(); len(excess) != 1 || !strings.HasPrefix(excess[0], "containerd fixed: pause container") {
		t.Errorf("excess: %v; want the overlap of an hour", excess)
	}
	if _, err := soakstate.Load(file, 8); err == nil {
		t.Error("Load of a file of another seed = no error; want one")
	}
}
