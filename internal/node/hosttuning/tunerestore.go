package hosttuning

import (
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
)

// Restoring is what tune needs to put settings back, or to say what it would change.
func Restoring(o hostenv.Options) (tune.Restoring, *power.Host, error) {
	bootID, err := undo.ReadBootID()
	if err != nil {
		return tune.Restoring{}, nil, err
	}
	m := tune.Machine{Possible: o.Topology.Possible, Online: o.Topology.Online}
	sources, host, err := TuningSources(m)
	if err != nil {
		return tune.Restoring{}, nil, err
	}
	r := tune.Restoring{Sources: sources, Undo: UndoOf(o.Config, bootID), Machine: m}
	var s desired.Settings
	if _, err := s.Begin(o.Config, o.Topology); err == nil {
		r.Exclusive = s.Ownable()
	}
	return r, host, nil
}
