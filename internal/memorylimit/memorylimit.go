// Package memorylimit sets Go's memory limit from the cgroup of the process.
package memorylimit

import (
	"log/slog"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Set sets the limit to a part of the cgroup's limit, from 0 to 1, and logs it once. The rest
// is for memory that Go does not count: the pages of the program's file and the kernel's
// memory for sockets. Set reads the smallest memory.max of the cgroup and its parents. The
// limit of the environment variable GOMEMLIMIT has priority. Near the limit Go collects garbage
// more often; the limit is no reason to end the process.
func Set(log *slog.Logger, part float64) {
	set(log, part, memlimit.FromCgroup)
}

func set(log *slog.Logger, part float64, cgroup memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(part), memlimit.WithProvider(cgroup))
	switch {
	case err != nil:
		log.Warn("memory limit of the cgroup is unknown; set GOMEMLIMIT to limit the memory of this process", "error", err)
	case limit == math.MaxInt64:
		log.Info("the cgroup has no memory limit; Go has no limit")
	default:
		log.Info("memory limit of Go", "bytes", limit)
	}
}
