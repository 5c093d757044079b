package daemon

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/tune"
)

// TestSettingsHaveTheirNames checks that telemetry knows the kinds and reasons of package tune.
func TestSettingsHaveTheirNames(t *testing.T) {
	kinds := []string{string(tune.DefaultAffinity), string(tune.IRQBalance), string(tune.IRQ), string(tune.RPS), string(tune.Workqueue), string(tune.KThread),
		string(power.KindGovernor), string(power.KindPreference), string(power.KindCState)}
	var reasons []string
	for _, w := range tune.Whys() {
		reasons = append(reasons, string(w))
	}
	gotKinds, gotReasons := telemetry.SettingNames()
	slices.Sort(kinds)
	slices.Sort(reasons)
	slices.Sort(gotKinds)
	slices.Sort(gotReasons)
	if d := cmp.Diff([][]string{kinds, reasons}, [][]string{gotKinds, gotReasons}); d != "" {
		t.Errorf("names (-tune +telemetry):\n%s", d)
	}
}
