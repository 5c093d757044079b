package inventory_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestFirstReading checks what the first reading of a container's cgroup shows: whether it
// is exposed, and whether the OCI runtime was making it.
func TestFirstReading(t *testing.T) {
	for name, c := range map[string]struct {
		way             telemetry.Way
		state           cri.State
		inPool, written bool
		exposed, making bool
	}{
		"in its pool":                      {"", cri.Running, true, true, false, false},
		"outside":                          {"", cri.Running, false, true, true, false},
		"being made":                       {telemetry.WaySpec, cri.Created, false, false, true, true},
		"being made, with other CPUs":      {telemetry.WaySpec, cri.Created, false, true, true, false},
		"running, without CPUs":            {telemetry.WaySpec, cri.Running, false, false, true, false},
		"being made, nothing recorded yet": {telemetry.WayNRI, cri.Created, false, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.BeginWatch(w.now.Add(-time.Minute))
			w.run(c.state)
			w.fetchContainer("c", w.Clock())
			e := w.Container("c")
			if c.way != "" {
				e.Exposure().FoundBy(c.way)
			}
			e.Exposure().FoundBy(telemetry.WayResync) // the first way counts
			if c.way == "" {
				c.way = telemetry.WayResync
			}
			if !e.Exposure().IsUnseen() || e.Exposure().Way() != c.way {
				t.Errorf("unseen %t, way %q", e.Exposure().IsUnseen(), e.Exposure().Way())
			}
			e.Exposure().NoteFirstReading(c.inPool, c.written)
			if e.Exposure().IsUnseen() || e.Exposure().IsExposed() != c.exposed {
				t.Errorf("unseen %t, exposed %t; want exposed %t", e.Exposure().IsUnseen(), e.Exposure().IsExposed(), c.exposed)
			}
			if making := e.Exposure().End(); making != c.making || e.Exposure().IsExposed() {
				t.Errorf("making %t, still exposed %t; want making %t", making, e.Exposure().IsExposed(), c.making)
			}
		})
	}
}
