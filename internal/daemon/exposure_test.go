package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestExposuresByPath: each new container is counted once, by what led to it, and who
// was there before the daemon is not.
func TestExposuresByPath(t *testing.T) {
	n := newNRINode(t)
	n.container(n.pod("before", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	r := n.start()
	r.connected()
	for _, uid := range []string{"a", "b", "c"} {
		n.container(n.pod(uid, "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	}
	own := n.container(n.pod("d", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(own, "4-5")
	r.quiet()
	r.view("four by NRI", func(v *telemetry.View) bool {
		nri := v.Placements[telemetry.WayNRI]
		return nri.Elapsed.Count == 4 && nri.Elapsed.Sum == 0 && nri.Used.Sum == 0 && len(v.Placements) == 1
	})
	n.runtime.NRIDown()
	late := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(late, "6-7")
	r.quiet()
	r.view("one more, without NRI", func(v *telemetry.View) bool {
		var count uint64
		for way, p := range v.Placements {
			if way != telemetry.WayNRI {
				count += p.Elapsed.Count
			}
		}
		return count == 1 && v.Placements[telemetry.WayNRI].Elapsed.Count == 4
	})
}
