package hosttuning

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Restoring returns what package tune needs to put settings back, or to list the changes.
// Exclusive are the CPUs that containers and units can own.
func Restoring(c *config.Config, m tune.Machine, exclusive cpuset.Set) (tune.Restoring, *power.Host, error) {
	bootID, err := hostenv.ReadBootID()
	if err != nil {
		return tune.Restoring{}, nil, err
	}
	sources, host, err := TuningSources(m)
	if err != nil {
		return tune.Restoring{}, nil, err
	}
	return tune.Restoring{Sources: sources, Undo: UndoOf(c, bootID), Machine: m, Exclusive: exclusive}, host, nil
}
