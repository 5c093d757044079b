// Package memorylimit sets Go's memory limit from the cgroup of the process.
package memorylimit

import (
	"log/slog"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// ratio is the part of the cgroup's limit that Go may use. The rest is for memory that Go
// does not count: the program's file and the kernel's memory for sockets.
const ratio = 0.9

// Set sets the limit and logs it once. It reads the smallest memory.max of the cgroup and its
// parents. The limit of the environment variable GOMEMLIMIT has priority. Near the limit Go
// collects garbage more often; the limit is no reason to end the process.
func Set(log *slog.Logger) {
	set(log, memlimit.FromCgroup)
}

func set(log *slog.Logger, cgroup memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(ratio), memlimit.WithProvider(cgroup))
	switch {
	case err != nil:
		log.Warn("memory limit of the cgroup is unknown; set GOMEMLIMIT to limit the memory of this process", "error", err)
	case limit == math.MaxInt64:
		log.Info("the cgroup has no memory limit; Go has no limit")
	default:
		log.Info("memory limit of Go", "bytes", limit)
	}
}
