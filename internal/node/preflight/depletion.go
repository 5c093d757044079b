package preflight

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/config"
)

// checkDepletionFloor reports a floor above the size of the shared pool: the pool would always
// be depleted, and the node may get a taint. Offline CPUs count, because they may return to
// the pool.
func checkDepletionFloor(e *evidence) []Finding {
	floor, most := e.config.Depletion.Floor, e.pools.Shared.Len()+e.pools.Offline.Len()
	if floor <= most {
		return nil
	}
	f := newFinding(Warning, e.file+": depletion.floor",
		fmt.Sprintf("is %d, but the shared pool has at most %d CPUs: the node is always depleted", floor, most),
		fmt.Sprintf("write %d or less, or give the shared pool more CPUs", most))
	switch {
	case !e.config.Depletion.Shows():
		f.Found += ", and reports it as a problem"
	case e.config.Depletion.Action == config.DepletionEvict:
		f.Found += ", accepts no pods without a CPU request, and those on it may be evicted"
	default:
		f.Found += ", and accepts no pods without a CPU request"
	}
	return []Finding{f}
}
