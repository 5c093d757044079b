package retry

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// CodeContested is the code of cgroups over which the daemon and somebody else fight.
const CodeContested pools.Code = "Contested"

// Two who write different values in turn move a container's threads to and fro and
// bring neither anything: after maxRepairs in contestTime the daemon leaves the property
// alone, from firstTruce on and twice as long each time, up to lastTruce. Only where
// somebody is on another's exclusive CPUs it goes on, every trespassPause. The cgroup's
// other properties are repaired as ever, but where systemd would put the contested one
// back with them, or the runtime.
const (
	MaxRepairs         = 5
	ConflictWindow     = time.Minute
	FirstConflictPause = time.Minute
	LastConflictPause  = 10 * time.Minute
	TrespassPause      = time.Second
)

// conflict is a property that somebody else writes, too.
type conflict struct {
	Deviation
	Cause string
	at    []time.Time // of the writes, the latest maxRepairs+1
	Truce time.Duration
	Until time.Time // the end of the truce
}

// NoteExternalWrite notes a foreign write, and begins a truce when it is one too many.
func (b *Backoffs) NoteExternalWrite(k RecordKey, d Deviation, now time.Time) {
	c := b.Contests[k.Path][k.Property]
	if c == nil {
		if b.Contests[k.Path] == nil {
			b.Contests[k.Path] = make(map[string]*conflict)
		}
		c = &conflict{}
		b.Contests[k.Path][k.Property] = c
	}
	c.Deviation = d
	if c.at = append(c.at, now); len(c.at) > MaxRepairs+1 {
		c.at = c.at[1:]
	}
	again := c.Truce > 0 && now.Sub(c.Until) < ConflictWindow
	if again || len(c.at) > MaxRepairs && now.Sub(c.at[0]) < ConflictWindow {
		c.Truce = min(max(2*c.Truce, FirstConflictPause), LastConflictPause)
		c.Until = now.Add(c.Truce)
	}
}

// SetCause notes whose the writes are.
func (b *Backoffs) SetCause(k RecordKey, cause string) {
	if c := b.Contests[k.Path][k.Property]; c != nil {
		c.Cause = cause
	}
}

// Over says that nobody contests any more.
func (c *conflict) Over(now time.Time) bool {
	return now.Sub(c.at[len(c.at)-1]) > ConflictWindow && now.Sub(c.Until) > ConflictWindow
}

// Pauses are the properties of a cgroup that are to be left alone because somebody
// else writes them; trespasses says that it runs on CPUs that another has for himself.
func (b *Backoffs) Pauses(p cgroup.Path, trespasses func(cgroup.Path) bool, now time.Time) (left []string) {
	for property, c := range b.Contests[p] {
		if !now.Before(c.Until) {
			continue
		}
		if property == cgroup.FileCPUs && now.Sub(c.at[len(c.at)-1]) >= TrespassPause && trespasses(p) {
			continue
		}
		left = append(left, property)
	}
	return left
}

// NextConflict tells when cgroups that are contested are due again.
func (b *Backoffs) NextConflict(earlier func(time.Time), now time.Time) {
	for p, of := range b.Contests {
		for property, c := range of {
			if c.Over(now) {
				delete(of, property)
				continue
			}
			if now.Before(c.Until) {
				earlier(c.at[len(c.at)-1].Add(TrespassPause))
				earlier(c.Until)
			}
			if c.Truce > 0 {
				earlier(c.Until.Add(ConflictWindow + time.Second)) // it may be over then
			}
		}
		if len(of) == 0 {
			delete(b.Contests, p)
		}
	}
}
