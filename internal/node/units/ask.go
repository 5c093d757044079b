package units

import (
	"context"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

const retryInterval = 5 * time.Second

// queryInterval limits questions: a start or stop causes several signals, as does a question.
const queryInterval = 250 * time.Millisecond

type ask struct {
	asking bool      // systemd has not answered the last question yet
	wanted bool      // the next question is needed
	due    time.Time // earliest time of the next question
}

// Ask asks systemd for a unit soon. Repeated calls cause one question.
func (u *Units) Ask(name string, now time.Time) {
	u.askAt(name, time.Time{})
	u.AskDue(now)
}

// AskAll asks for all units of the configuration.
func (u *Units) AskAll(now time.Time) {
	for _, name := range u.Settings.UnitNames() {
		u.Ask(name, now)
	}
}

// Reloaded asks for all units after a reload of systemd, because any may have been installed or
// removed. It allows another attempt to revert units that did not exist.
func (u *Units) Reloaded(now time.Time) {
	u.AskAll(now)
	for name := range u.away {
		delete(u.reverting, name)
	}
}

// askAt asks systemd for a unit at the time due or later.
func (u *Units) askAt(name string, due time.Time) {
	if u.Host.Units == nil {
		return
	}
	a := u.asks[name]
	if a == nil {
		a = &ask{}
		u.asks[name] = a
	}
	a.wanted = true
	if due.After(a.due) {
		a.due = due
	}
}

// AskDue submits the questions about units that are due. They go through the queue of the
// updates, so that no answer is older than the last update.
func (u *Units) AskDue(now time.Time) {
	for name, a := range u.asks {
		if !a.wanted || a.asking || now.Before(a.due) {
			continue
		}
		a.wanted, a.asking, a.due = false, true, now.Add(queryInterval)
		u.Submit(u.queue(name), func(ctx context.Context) Result {
			return answered{lookup.FetchUnit(ctx, u.Host, name)}
		})
	}
}

// Next calls earlier with the times of the next questions.
func (u *Units) Next(earlier func(time.Time)) {
	for _, a := range u.asks {
		if a.wanted && !a.asking {
			earlier(a.due)
		}
	}
}

type answered struct{ lookup.UnitStatus }

func (r answered) apply(u *Units, now time.Time) {
	if a := u.asks[r.Name]; a != nil {
		a.asking = false
	}
	u.Note(r.UnitStatus, now)
}

// queue returns the key of the queue in which the jobs of a unit keep their order.
func (u *Units) queue(name string) string {
	if e := u.known.Get(name); e != nil && e.Unit.Path != "" {
		return string(e.Unit.Path)
	}
	return name
}

// Note records an answer of systemd about a unit, unless the configuration no longer contains
// the unit. An error leads to another question.
func (u *Units) Note(e lookup.UnitStatus, now time.Time) {
	if !u.follows(e.Name) {
		return
	}
	if e.Err != nil {
		if old := u.known.Get(e.Name); old == nil || old.Err == nil {
			u.Log.Warn("read unit", "unit", e.Name, "error", e.Err)
		}
		u.askAt(e.Name, now.Add(retryInterval))
		// The cache keeps the record of the daemon's last update: a systemd that is too busy
		// to answer does not get the update again at each resync.
		u.Inventory.PutUnit(e)
		return
	}
	u.Inventory.PutUnit(e)
	unit := u.known.Get(e.Name)
	u.Cache.SetRecord(unit.Unit.Path, unit.Record())
}

func (u *Units) forget() {
	u.Inventory.ForgetUnits(func(name string) bool { return !u.follows(name) })
	maps.DeleteFunc(u.asks, func(name string, _ *ask) bool { return !u.follows(name) })
}

// Scopes holds the questions about unknown systemd properties of containers. Their scopes have
// started since the runtime created them.
type Scopes struct {
	objects *inventory.Objects
	cache   *kernelstate.Cache
	asked   map[cgroup.Path]bool // since the last listing
	awaited map[cgroup.Path]bool // without an answer
}

// Ask returns the cgroups that need a new fetch of their properties now.
func (s *Scopes) Ask(want []cgroup.Target) (ask []cgroup.Path) {
	for i := range want {
		t := &want[i]
		if t.Container == "" {
			continue
		}
		c := s.cache.Current(t.Path)
		if !c.Exists || c.Unit.Known || s.objects.IsAwaited(*t) || s.cache.Writes.IsBusy(t.Path) || s.asked[t.Path] {
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
