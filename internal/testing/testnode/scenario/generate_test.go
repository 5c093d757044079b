package scenario_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
)

var bounds = scenario.Bounds{Pods: 8, CPUs: 3, Configs: 3, Nodes: 2, Units: []string{"du.service"}, Moves: 4, Writes: 4, Resizes: 4, Pluggable: []int{1, 2}}

// TestSeedsRepeat checks that a seed gives the same steps again, that a longer sequence starts
// with the shorter one, and that all kinds occur.
func TestSeedsRepeat(t *testing.T) {
	long := scenario.Generate(1, 1000, bounds)
	if d := cmp.Diff(long[:100], scenario.Generate(1, 100, bounds)); d != "" {
		t.Errorf("shorter sequence of the same seed (-long +short):\n%s", d)
	}
	if cmp.Equal(long, scenario.Generate(2, 1000, bounds)) {
		t.Error("two seeds give the same sequence")
	}
	kinds := make(map[scenario.Kind]int)
	for _, s := range long {
		kinds[s.Kind]++
	}
	if len(kinds) != 20 {
		t.Errorf("kinds = %v; want all 20", kinds)
	}
}

// TestStepsAreData checks that steps can be written to JSON and read again.
func TestStepsAreData(t *testing.T) {
	steps := scenario.Generate(3, 200, bounds)
	b, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	var again []scenario.Step
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(steps, again); d != "" {
		t.Errorf("steps (-written +read):\n%s", d)
	}
}
