package units

import (
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Scopes holds the questions about the systemd properties of containers whose properties are
// unknown: their scopes have started since the runtime created them.
type Scopes struct {
	inventory *inventory.Inventory
	cache     *kernelstate.Cache
	asked     map[cgroup.Path]bool // since the last listing
	awaited   map[cgroup.Path]bool // without an answer
}

// Ask returns the cgroups whose properties must be fetched now.
func (s *Scopes) Ask(want []cgroup.Target) (ask []cgroup.Path) {
	for i := range want {
		t := &want[i]
		if t.Container == "" {
			continue
		}
		c := s.cache.Current(t.Path)
		if !c.Exists || c.Unit.Known || s.inventory.IsAwaited(*t) || s.cache.IsBusy(t.Path) || s.asked[t.Path] {
			continue
		}
		s.asked[t.Path], s.awaited[t.Path] = true, true
		ask = append(ask, t.Path)
	}
	return ask
}

// Take takes the properties of a cgroup.
func (s *Scopes) Take(p cgroup.Path, unit cgroup.UnitState) {
	s.cache.SetUnit(p, unit)
	delete(s.awaited, p)
}

// IsAwaited reports whether the answer about a cgroup is missing.
func (s *Scopes) IsAwaited(p cgroup.Path) bool { return s.awaited[p] }

// IsAnswered reports whether systemd has answered about a cgroup since the last listing.
func (s *Scopes) IsAnswered(p cgroup.Path) bool { return s.asked[p] && !s.awaited[p] }

// AskAgain forgets the questions, after a listing.
func (s *Scopes) AskAgain() { clear(s.asked) }
