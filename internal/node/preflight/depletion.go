package preflight

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/config"
)

// checkDepletionFloor: a shared pool that is below the floor with all of its CPUs is
// depleted for ever, and the node may be tainted for it. CPUs that are offline may come
// back, and may be the pool's.
func checkDepletionFloor(e *evidence) []Finding {
	floor, most := e.config.Depletion.Floor, e.pools.Shared.Len()+e.pools.Offline.Len()
	if floor <= most {
		return nil
	}
	f := Finding{
		Severity: Warning,
		Subject:  e.file + ": depletion.floor",
		Found:    fmt.Sprintf("is %d, and the shared pool has %d CPUs at most: the node counts as depleted at all times", floor, most),
		Remedy:   fmt.Sprintf("write %d or less, or give the shared pool more CPUs", most),
	}
	switch {
	case !e.config.Depletion.Shows():
		f.Found += ", and that is said of it"
	case e.config.Depletion.Action == config.DepletionEvict:
		f.Found += ", takes no pods without a CPU request, and those that it has may be evicted"
	default:
		f.Found += ", and takes no pods without a CPU request"
	}
	return []Finding{f}
}
