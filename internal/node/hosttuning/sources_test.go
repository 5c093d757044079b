package hosttuning_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestMissingDirectory checks that a directory that cannot be opened is an error at its
// use.
func TestMissingDirectory(t *testing.T) {
	missing := errors.New("receive queues of the host: not there")
	queues := tune.ReceiveQueues(hosttuning.Missing(missing), tune.Machine{Possible: cpuset.Range(0, 3)})
	if _, err := queues.Read(t.Context()); !errors.Is(err, missing) {
		t.Errorf("reading: %v", err)
	}
	if err := queues.Write(t.Context(), tune.Knob{Kind: tune.RPS, Name: "eth0/rx-0"}, "0"); !errors.Is(err, missing) {
		t.Errorf("writing: %v", err)
	}
}

// TestSettingsHaveTheirNames checks that telemetry knows the kinds and reasons of package tune.
func TestSettingsHaveTheirNames(t *testing.T) {
	kinds := []string{string(tune.DefaultAffinity), string(tune.IRQBalance), string(tune.IRQ), string(tune.RPS), string(tune.Workqueue), string(tune.KThread),
		string(power.KindGovernor), string(power.KindPreference), string(power.KindCState)}
	var reasons []string
	for _, w := range []tune.Why{tune.Immovable, tune.NoSpace, tune.Busy, tune.NoCPULeft, tune.Contested, tune.NotTaken, tune.Failed} {
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
