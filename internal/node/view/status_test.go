package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
)

// TestStatusHasRoomAndPlacements checks that the status holds the free capacity and the time
// that containers had before their placement, as the metrics do.
func TestStatusHasRoomAndPlacements(t *testing.T) {
	placed := telemetry.NewPlacements()
	placed.Elapsed.Observe(0.5)
	placed.Elapsed.Observe(0.25)
	placed.Used.Observe(0.125)
	s := view.NewAnswers(func() *view.Snapshot {
		return &view.Snapshot{History: history.New().Snapshot(), View: &telemetry.View{
			Room:       &telemetry.Room{Pool: 4, Node: 3, L3: 2, WholeCores: 1},
			Placements: map[telemetry.Way]telemetry.Placements{telemetry.WaySpec: telemetry.NewPlacements(), telemetry.WayNRI: placed},
		}}
	}, nil, telemetry.Build{}, "", "").Status()
	if d := cmp.Diff(&inspect.Room{Pool: 4, NUMANode: 3, L3: 2, WholeCores: 1}, s.Room); d != "" {
		t.Errorf("room (-want +got):\n%s", d)
	}
	want := []inspect.Placement{{Way: "nri", Containers: 2, Seconds: 0.75, CPUSeconds: 0.125}, {Way: "spec"}}
	if d := cmp.Diff(want, s.Placements); d != "" {
		t.Errorf("placements (-want +got):\n%s", d)
	}
}
